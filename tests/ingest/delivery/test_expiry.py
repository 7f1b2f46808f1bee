"""Messages that have expired are neither delivered nor kept: whether they wait in memory or in the
table, with consumers or without, before a restart or after it."""

import time
from collections.abc import Callable

import pytest
from gateway_links import Incoming, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway, past, until
from in_time import InTime, in_time

Make = Callable[..., Gateway]
QUICK = {"delivery": {"expiry_scan_ms": 20}, "commit": {"interval_ms": 50}}


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def expiring(body: object, ttl_ms: int, **fields: object) -> bytes:
    return encoded(body, ttl=ttl_ms / 1_000, **fields)


def fill(peer: Peer, name: str, *messages: bytes) -> None:
    peer.sender(name, capabilities=("queue",)).publish_data(messages)


def settled(gateway: Gateway, outcome: str) -> list[tuple[object, ...]]:
    """Subscription and consumer of each settlement with this outcome in the table."""
    from deltalake import DeltaTable  # noqa: PLC0415

    from distributary.pipeline.tables.home.home import Home  # noqa: PLC0415

    rows = DeltaTable(Home(gateway.home).topic_log).to_pyarrow_table().to_pylist()
    found = [row for row in rows if row["outcome"] == outcome]
    assert all(row["final"] for row in found)
    return [(row["subscription"], row["consumer"]) for row in found]


def test_nothing_that_has_expired_is_delivered(connect: Connect, topic: str) -> None:
    """A message that lives for a moment is gone for a later consumer; one that lives longer, or for
    ever, isn't. The earlier of time to live and absolute time counts."""
    peer = connect()
    now = time.time()
    fill(
        peer,
        topic,
        expiring("short", 50),
        encoded("for ever"),
        expiring("long", 60_000),
        encoded("then", expiry_time=now + 0.05),
        expiring("the earlier one counts", 60_000, expiry_time=now + 0.05),
    )
    past(time.time() + 0.05)
    consumer = of_queue(peer, topic)
    assert consumer.bodies(2) == ["for ever", "long"]
    assert consumer.nothing()


def test_what_comes_back_may_have_expired_meanwhile(connect: Connect, topic: str) -> None:
    """A delivery that is given back after its time goes to no consumer any more."""

    def attempt(life: InTime) -> None:
        peer, queue = connect(), f"{topic}-{life.ms}"
        consumer = of_queue(peer, queue)
        consumer.link.flow(1)
        with life.within():
            fill(peer, queue, expiring("short", life.ms))
            [got] = consumer.take(credit=False)
        past(time.time() + life.seconds)
        consumer.confirm([got], 0x26)
        assert consumer.nothing()

    in_time(attempt, 0.3)


def test_it_expires_though_nobody_asks(own_gateway: Make, connect: Connect) -> None:
    """On a queue and two durable subscriptions without consumers: it is settled `expired`, without
    a consumer; the subscription whose selector doesn't match was never owed it."""
    gateway = own_gateway(QUICK).start()
    peer = connect("c", port=gateway.port)
    for name, filters in (("all", None), ("some", selector("n = 1")), ("none", selector("n = 2"))):
        link = peer.durable("t", name, filters=filters)
        peer.leave(link, closed=False)
    peer.sender("t").publish_data([expiring("x", 50, properties={"n": 1})])
    fill(peer, "q", expiring("x", 50))
    want = [("container/c/all", ""), ("container/c/some", ""), ("queue/q", "")]
    until(lambda: len(settled(gateway, "expired")) >= 3, "three settlements")
    # Whatever else would have been settled is settled when the sweep finds this.
    fill(peer, "q", expiring("later", 1))
    want.append(("queue/q", ""))
    until(lambda: len(settled(gateway, "expired")) >= 4, "a later settlement")
    assert sorted(settled(gateway, "expired"), key=str) == want
    for name, filters in (("all", None), ("some", selector("n = 1")), ("none", selector("n = 2"))):
        assert peer.durable("t", name, filters=filters).nothing()
    gateway.kill()
    gateway.verified()


@pytest.mark.parametrize("ended", ["kill", "stop"])
def test_it_expires_after_a_restart(own_gateway: Make, connect: Connect, ended: str) -> None:
    """A message published before the restart expires after it, without consumers: its time is known
    from the table."""
    gateway = own_gateway(QUICK).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", encoded("stays"), expiring("goes", 1_500), encoded("stays, too"))
    getattr(gateway, ended)()
    gateway.start()
    until(lambda: settled(gateway, "expired"), "the settlement")
    peer = connect(port=gateway.port)
    consumer = of_queue(peer, "q")
    assert consumer.bodies(2) == ["stays", "stays, too"]
    assert consumer.nothing()


def test_it_expires_where_only_the_table_has_it(own_gateway: Make, connect: Connect) -> None:
    """Hundreds that memory doesn't hold any more, among others that stay."""
    small = {"cache_bytes": 65_536, "page_bytes": 65_536, "expiry_scan_ms": 20}
    gateway = own_gateway(QUICK | {"delivery": small}).start()
    peer = connect(port=gateway.port)
    mixed = [expiring(n, 2_000) if n % 3 else encoded(n) for n in range(600)]
    fill(peer, "q", *mixed)
    last = time.time() + 2
    fill(peer, "other", *[encoded("x" * 1_000)] * 300)
    until(lambda: settled(gateway, "expired"), "the settlements")
    past(last)
    consumer = of_queue(peer, "q")
    assert consumer.bodies(200) == list(range(0, 600, 3))
    assert consumer.nothing()


def test_what_expired_may_be_kept(own_gateway: Make, connect: Connect) -> None:
    """`dead_letter_expired`: with the reason, and the copy doesn't expire."""
    gateway = own_gateway(QUICK | {"subscription": {"dead_letter_expired": True}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", expiring("x", 50), expiring("y", 60_000))
    dead = of_queue(peer, "queue://DLQ.queue/q")
    [got] = dead.take()
    assert (got.body, got.message.annotations["x-opt-dead-letter-reason"]) == ("x", "expired")
    assert got.message.annotations["x-opt-dead-letter-attempts"] == 0
    assert of_queue(peer, "q").bodies() == ["y"]


def test_what_is_held_when_it_expires_may_still_be_accepted(
    own_gateway: Make, connect: Connect
) -> None:
    """It was delivered in time; the sweep passes it over."""

    def attempt(life: InTime) -> None:
        gateway = own_gateway(QUICK).start()
        peer = connect(port=gateway.port)
        with life.within():
            fill(peer, "q", expiring("x", life.ms))
            fill(peer, "other", expiring("x", life.ms))
            consumer = of_queue(peer, "q")
            taken = consumer.take()
        until(lambda: settled(gateway, "expired"), "the sweep after their time")
        consumer.confirm(taken)
        until(lambda: settled(gateway, "accepted"), "the settlement")
        assert settled(gateway, "expired") == [("queue/other", "")]

    in_time(attempt, 1.0)


def test_what_comes_back_after_its_time_expires_though_nobody_asks(
    own_gateway: Make, connect: Connect
) -> None:
    """The sweep has passed it over, as a consumer held it. Then that consumer gives it back, or is
    lost, and no other one comes."""

    def attempt(life: InTime) -> None:
        gateway = own_gateway(QUICK).start()
        peer = connect(port=gateway.port)
        with life.within():
            fill(peer, "released", expiring("x", life.ms))
            fill(peer, "lost", expiring("x", life.ms))
            fill(peer, "other", expiring("x", life.ms))
            consumer, lost = of_queue(peer, "released"), connect(port=gateway.port)
            taken = consumer.take()
            of_queue(lost, "lost").take()
        until(lambda: settled(gateway, "expired"), "the sweep after their time")
        consumer.confirm(taken, 0x26)
        peer.leave(consumer, closed=True)
        lost.drop()
        until(lambda: len(settled(gateway, "expired")) == 3, "the other settlements")

    in_time(attempt, 1.0)


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in the table"])
def test_what_a_rewind_brings_back_expires_without_a_consumer(
    own_gateway: Make, connect: Connect, *, stored: bool
) -> None:
    """Its time is over already, or ends later: none of it stays in the backlog."""
    settings: dict[str, dict[str, object]] = {"delivery": {"expiry_scan_ms": 50}}
    if stored:
        settings["delivery"] |= {"cache_bytes": 1_000}
        settings["commit"] = {"interval_ms": 50}
    gateway = own_gateway(settings).start()
    peer, manager = connect(port=gateway.port), Manager(connect(port=gateway.port))
    soon, later = time.time() + 1, time.time() + 6
    link = peer.sender("queue://q")
    link.publish_data(
        [encoded(1, expiry_time=soon), encoded(2), encoded(3, expiry_time=later), encoded(4)]
    )
    receiver = peer.receiver("queue://q", capabilities=("queue",))
    receiver.confirm(receiver.take(4))
    peer.leave(receiver, closed=True)
    link.publish(5)  # the messages are in an own stretch
    past(soon)
    manager.done("REWIND", "queue", "q", to=0)
    until(lambda: manager.done("READ", "queue", "q")["backlog"] == 3, "both have expired")
    assert time.time() > later
    receiver = peer.receiver("queue://q", capabilities=("queue",))
    assert receiver.bodies(3) == [2, 4, 5]
