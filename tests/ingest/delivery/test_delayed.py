"""Messages that wait: until a time that their publisher says, or after a failure as long as the
subscription's policy says. They come without a new request, and the time survives a restart."""

import time
from collections.abc import Callable

import pytest
from gateway_links import Incoming, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway, past
from in_time import InTime, in_time
from proton import Delivery, symbol

Make = Callable[..., Gateway]


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def delayed(body: object, ms: int, **fields: object) -> bytes:
    return encoded(body, annotations={symbol("x-opt-delivery-delay"): ms}, **fields)


def at(body: object, when: float) -> bytes:
    return encoded(body, annotations={symbol("x-opt-delivery-time"): round(when * 1_000)})


def fill(peer: Peer, name: str, *messages: bytes) -> None:
    peer.sender(name, capabilities=("queue",)).publish_data(messages)


def came(incoming: Incoming, number: int) -> list[tuple[object, float]]:
    """The next messages, each with the time at which it came."""
    incoming.link.flow(number)
    got: list[tuple[object, float]] = []
    for _ in range(number):
        [one] = incoming.take(1, credit=False)
        got.append((one.body, time.time()))
        incoming.settle([one])
    return got


def failed(incoming: Incoming) -> None:
    [got] = incoming.take()
    got.delivery.local.failed = True
    incoming.confirm([got], Delivery.MODIFIED)


def test_a_message_waits_for_its_time_and_holds_up_nobody(connect: Connect, topic: str) -> None:
    """Messages behind it go first; when its time has come it goes by itself, and not before."""

    def attempt(delay: InTime) -> None:
        peer, queue = connect(), f"{topic}-{delay.ms}"
        consumer = of_queue(peer, queue)
        sent = time.time()
        with delay.within():  # so it comes before the time of any of them
            fill(
                peer,
                queue,
                delayed("later", 2 * delay.ms),
                at("sooner", sent + delay.seconds),
                encoded("now"),
                at("past", sent - 5),
            )
        (first, _), (second, _), (third, early), (last, late) = came(consumer, 4)
        assert [first, second, third, last] == ["now", "past", "sooner", "later"]
        assert early >= sent + delay.seconds - 0.001
        assert late >= sent + 2 * delay.seconds - 0.001

    in_time(attempt, 0.3)


def test_whoever_was_there_when_it_was_published_gets_it(connect: Connect, topic: str) -> None:
    """A topic's subscriptions get it, durable or not; one that comes while it waits doesn't."""
    peer = connect()
    durable, live = peer.durable(topic, "d"), peer.receiver(topic)
    peer.sender(topic).publish_data([delayed("x", 400)])
    late = peer.receiver(topic)
    assert durable.bodies() == live.bodies() == ["x"]
    assert late.nothing()


@pytest.mark.parametrize("ended", ["kill", "stop"])
def test_a_restart_forgets_no_time(own_gateway: Make, connect: Connect, ended: str) -> None:
    """It waits as long as it had to wait, and comes once."""
    gateway = own_gateway().start()
    peer = connect(port=gateway.port)
    sent = time.time()
    fill(peer, "q", delayed("x", 4_000), encoded("y"))
    if ended == "stop":
        peer.close()
    getattr(gateway, ended)()
    peer = connect(port=gateway.start().port)
    consumer = of_queue(peer, "q")
    times = dict(came(consumer, 2))
    assert times.keys() == {"x", "y"}
    assert times["x"] >= sent + 3.999
    assert consumer.nothing()


def test_many_wait_where_only_the_table_has_them(own_gateway: Make, connect: Connect) -> None:
    """Each of hundreds comes at its time or later, though memory holds none of them any more."""
    small = {"delivery": {"cache_bytes": 65_536, "page_bytes": 65_536}}
    gateway = own_gateway(small | {"commit": {"interval_ms": 50}}).start()
    peer = connect(port=gateway.port)
    sent = time.time()
    fill(peer, "q", *[at(n, sent + 2 + (n % 7) / 10) for n in range(300)])
    fill(peer, "other", *[encoded("x" * 1_000)] * 300)
    consumer = of_queue(peer, "q")
    got = came(consumer, 300)
    assert sorted(n for n, _ in got) == list(range(300))  # type: ignore[type-var]
    assert all(when >= sent + 1.999 + (int(str(n)) % 7) / 10 for n, when in got)
    assert consumer.nothing()


def test_a_failure_may_be_waited_for(own_gateway: Make, connect: Connect) -> None:
    """Twice as long after each one, as the policy says; others go on meanwhile."""
    policy = {"redelivery_delay_ms": 500, "redelivery_multiplier": 2.0}
    gateway = own_gateway({"subscription": policy}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", encoded("poison"), encoded("good"))
    consumer = of_queue(peer, "q")
    began = time.time()
    failed(consumer)
    assert consumer.bodies() == ["good"]
    [got] = consumer.take()
    assert time.time() - began >= 0.499
    assert (got.body, got.message.delivery_count) == ("poison", 1)
    began = time.time()
    got.delivery.local.failed = True
    consumer.confirm([got], Delivery.MODIFIED)
    [got] = consumer.take()
    assert time.time() - began >= 0.999
    assert (got.body, got.message.delivery_count) == ("poison", 2)


def test_a_delay_holds_for_whoever_comes_next(own_gateway: Make, connect: Connect) -> None:
    """The consumer that failed goes, another one comes: the time is the message's."""

    def attempt(delay: InTime) -> None:
        gateway = own_gateway({"subscription": {"redelivery_delay_ms": delay.ms}}).start()
        peer = connect(port=gateway.port)
        fill(peer, "q", encoded("x"))
        first = of_queue(peer, "q")
        began = time.time()
        with delay.within():
            failed(first)
            peer.leave(first, closed=True)
            second = of_queue(peer, "q")
            assert second.nothing()
        [(body, when)] = came(second, 1)
        assert (body, when - began >= delay.seconds - 0.001) == ("x", True)

    in_time(attempt, 0.7)


def test_what_is_given_back_unseen_comes_at_once(own_gateway: Make, connect: Connect) -> None:
    """`released` is no failure."""
    gateway = own_gateway({"subscription": {"redelivery_delay_ms": 60_000}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", encoded("x"))
    consumer = of_queue(peer, "q")
    consumer.settle(consumer.take(), Delivery.RELEASED)
    assert consumer.bodies() == ["x"]


def test_a_large_message_waits_and_expires_as_others_do(connect: Connect, topic: str) -> None:
    """A message that is received alone, as it is larger than the bytes received at once, does."""
    large = "x" * (2 << 20)
    peer = connect()
    consumer = of_queue(peer, topic)
    sent = time.time()
    fill(peer, topic, delayed(large, 500), encoded(large, ttl=0.1), encoded("now"))
    past(time.time() + 0.1)
    times = dict(came(consumer, 2))
    assert times.keys() == {"now", large}
    assert times[large] >= sent + 0.5
    assert consumer.nothing()
