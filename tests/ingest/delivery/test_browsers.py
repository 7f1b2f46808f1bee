"""Queue browsers: they see what a consumer would get, in its order, and change nothing."""

from collections.abc import Callable

import pytest
from gateway_frames import begun, composite, credit_frame, frame_of, make, receiver_frame
from gateway_links import Incoming, encoded
from gateway_peer import Connect, Peer, no_local, selector
from gateway_process import Gateway
from proton import Delivery, Link, ubyte

Make = Callable[..., Gateway]


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def browser(peer: Peer, name: str, **options: object) -> Incoming:
    """A browser's link as JMS clients make it."""
    options = {"presettled": True} | options
    return of_queue(peer, name, copy=True, **options)


def fill(peer: Peer, name: str, *bodies: object) -> None:
    peer.sender(name, capabilities=("queue",)).publish(*bodies)


def seen(link: Incoming, credit: int = 1_000) -> list[tuple[object, int]]:
    """All that the browser is shown before its drain is answered: bodies and delivery counts."""
    link.drain(credit)
    got, link.inbox = link.inbox, []
    assert all(one.delivery.settled for one in got)
    return [(one.body, one.message.delivery_count) for one in got]


def fresh(bodies: range) -> list[tuple[object, int]]:
    return [(body, 0) for body in bodies]


def failed(incoming: Incoming, number: int) -> None:
    """Take so many and give them back as failed."""
    taken = incoming.take(number)
    for got in taken:
        got.delivery.local.failed = True
    incoming.confirm(taken, Delivery.MODIFIED)


@pytest.mark.parametrize("presettled", [True, False], ids=["settled", "unsettled"])
def test_a_browser_sees_all_and_takes_nothing(
    connect: Connect, topic: str, presettled: bool
) -> None:
    """As often as one looks, before the answer to a drain; whatever settle mode it asks for, what
    comes is settled, and says so."""
    peer = connect()
    fill(peer, topic, *range(10))
    for _ in range(3):
        link = browser(peer, topic, presettled=presettled)
        assert link.link.remote_snd_settle_mode == Link.SND_SETTLED
        assert seen(link) == fresh(range(10))
        assert seen(link) == []
        assert peer.leave(link, closed=True) == ""
    consumer = of_queue(peer, topic)
    got = consumer.take(10)
    assert [(one.body, one.message.delivery_count) for one in got] == fresh(range(10))


def test_what_a_browser_says_changes_nothing(
    connect: Connect, gateway: Gateway, topic: str
) -> None:
    """Outcomes of deliveries that it was sent settled, in frames by hand; and its detach."""
    fill(connect(), f"queue://{topic}", *range(3))
    source = make("source", address=f"queue://{topic}", distribution_mode="copy")
    attach = frame_of(
        "attach",
        name="b",
        handle=0,
        role=True,
        snd_settle_mode=ubyte(0),
        rcv_settle_mode=ubyte(1),
        source=source,
        target=composite(0x29),
    )
    with begun(gateway.port, "browses", attach, credit_frame(2)) as raw:
        _, _, answer, *transfers = raw.expect("open", "begin", "attach", "transfer", "transfer")
        assert answer["source"]["distribution-mode"] == "copy"
        assert (answer["snd-settle-mode"], answer["rcv-settle-mode"]) == (1, 0)
        assert [one["settled"] for one in transfers] == [True, True]
        for state in (0x24, 0x25, 0x26, 0x27):
            said = composite(state, True, True) if state == 0x27 else composite(state)
            raw.send(frame_of("disposition", role=True, first=0, last=1, settled=True, state=said))
        assert [one.kind for one in raw.heard()] == []
        raw.send(frame_of("detach", handle=0, closed=False))
        raw.expect("detach")
    got = of_queue(connect(), topic).take(3)
    assert [(one.body, one.message.delivery_count) for one in got] == fresh(range(3))


def test_what_consumers_hold_is_not_shown(connect: Connect, topic: str) -> None:
    """Messages that they gave back are shown in their old places, with their failures; settled ones
    are gone."""
    peer = connect()
    fill(peer, topic, *range(10))
    consumer = of_queue(peer, topic)
    failed(consumer, 4)
    taken = consumer.take(4)
    consumer.confirm(taken[:1])
    consumer.confirm(taken[2:3], Delivery.RELEASED)
    assert seen(browser(connect(), topic)) == [(2, 1), *fresh(range(4, 10))]
    peer.leave(consumer, closed=True)
    assert seen(browser(connect(), topic)) == [(1, 1), (2, 1), (3, 1), *fresh(range(4, 10))]


def test_a_browser_doesnt_hinder_redelivery(connect: Connect, topic: str) -> None:
    """It looks while messages fail and come again: consumers get them as without a browser."""
    peer, other = connect(), connect()
    fill(peer, topic, *range(5))
    consumer = of_queue(peer, topic)
    for round_ in range(1, 4):
        link = browser(other, topic)
        failed(consumer, 5)
        later = browser(other, topic)
        assert [body for body, _ in seen(later)] == list(range(5))
        counts = {count for _, count in seen(link)}
        assert counts == {round_ - 1}
        other.leave(link, closed=True)
        other.leave(later, closed=False)
    got = consumer.take(5)
    assert [(one.body, one.message.delivery_count) for one in got] == [(n, 3) for n in range(5)]


def test_a_browser_sees_what_comes_later(connect: Connect, topic: str) -> None:
    """While it stays attached; what is consumed meanwhile it may have seen, or still see."""
    peer = connect()
    link = browser(peer, topic)
    assert seen(link) == []
    fill(peer, topic, *range(3))
    consumer = of_queue(peer, topic)
    assert consumer.bodies(2) == [0, 1]
    assert seen(link) == fresh(range(3))
    fill(peer, topic, *range(3, 5))
    assert seen(link) == fresh(range(3, 5))
    assert consumer.bodies(3) == [2, 3, 4]


def test_one_by_one(connect: Connect, topic: str) -> None:
    """As JMS clients without prefetch: credit 1, then a drain; no message twice, none left out."""
    peer = connect()
    fill(peer, topic, *range(5))
    link = browser(peer, topic)
    assert [seen(link, 1) for _ in range(6)] == [[(n, 0)] for n in range(5)] + [[]]


def test_browsers_see_it_all_each(connect: Connect, topic: str) -> None:
    """They don't share the messages, neither with each other nor with consumers."""
    peer = connect()
    fill(peer, topic, *range(6))
    browsers = [browser(connect(), topic) for _ in range(3)]
    for link in browsers:
        link.link.flow(3)
    consumer = of_queue(peer, topic)
    assert consumer.bodies(6) == list(range(6))
    for link in browsers:
        assert [got.body for got in link.take(3)] == [0, 1, 2]
        assert [body for body, _ in seen(link)] == [3, 4, 5]
    assert consumer.nothing()


def test_a_queue_is_there_for_its_browser(connect: Connect, topic: str) -> None:
    """As for a consumer: what comes is kept from then on, and the drain of nothing is answered."""
    peer = connect()
    link = browser(peer, topic)
    assert seen(link) == []
    assert peer.leave(link, closed=True) == ""
    fill(peer, topic, "kept")
    assert of_queue(peer, topic).bodies() == ["kept"]


def test_credit_that_comes_with_the_attach_counts(gateway: Gateway, topic: str) -> None:
    """A client needn't wait for the answer, even when the queue must be made first."""
    address = f"queue://{topic}"
    source = make("source", address=address, distribution_mode="copy")
    attach = receiver_frame("b", source)
    with begun(gateway.port, "eager", attach, credit_frame(5)) as raw:
        raw.expect("open", "begin", "attach")
        with Peer(gateway.port) as peer:
            peer.sender(address).publish("seen")
        assert encoded("seen").endswith(raw.expect("transfer")[0].payload[-4:])


def test_a_copy_of_a_topic_is_no_browser(connect: Connect, topic: str) -> None:
    """JMS clients say `copy` of every durable subscription; it is consumed as ever."""
    peer = connect()
    durable = peer.durable(topic, "d")
    plain = peer.receiver(topic, copy=True)
    peer.sender(topic).publish("once")
    assert plain.bodies() == durable.bodies() == ["once"]
    assert plain.nothing()
    assert peer.leave(durable, closed=False) == ""
    assert peer.durable(topic, "d").nothing()


def looking(peer: Peer, id_: str, **options: object) -> Incoming:
    """A browser of a subscription, as JMS clients make one of a queue of that name."""
    return browser(peer, f"subscription://{id_}", **options)


def test_a_durable_subscription_is_browsed(connect: Connect, topic: str) -> None:
    """Beside its consumer, and without one: what it is owed, with the counts that a consumer would
    see, and nothing is taken. By its own selector, and by the browser's."""
    peer = connect(f"browsing-{topic}")
    link = peer.durable(topic, "N", filters=selector("n < 8"))
    sender = peer.sender(topic)
    numbered = [encoded(n, properties={"n": n}) for n in range(10)]
    sender.publish_data(numbered[:6])
    assert link.bodies(1) == [0]
    failed(link, 2)
    id_ = f"container/{peer.container}/N"
    for _ in range(2):
        assert seen(looking(peer, id_)) == [(1, 1), (2, 1), *fresh(range(3, 6))]
    assert seen(looking(peer, id_, filters=selector("n = 2 OR n = 4 OR n = 9"))) == [(2, 1), (4, 0)]
    peer.leave(link, closed=False)
    staying = looking(connect(), id_)
    assert seen(staying) == [(1, 1), (2, 1), *fresh(range(3, 6))]
    sender.publish_data(numbered[6:])
    assert seen(staying) == fresh(range(6, 8))
    got = peer.durable(topic, "N", filters=selector("n < 8")).take(7)
    assert [(one.body, one.message.delivery_count) for one in got][:3] == [(1, 1), (2, 1), (3, 0)]


def test_a_browser_sees_nothing_that_its_subscription_is_not_owed(
    connect: Connect, topic: str
) -> None:
    """Not what no-local leaves out, before and while it looks."""
    peer, other = connect(f"local-{topic}"), connect()
    link = peer.durable(topic, "N", filters=no_local())
    own, theirs = peer.sender(topic), other.sender(topic)
    own.publish("own")
    theirs.publish("theirs")
    staying = looking(other, f"container/{peer.container}/N")
    assert seen(staying) == [("theirs", 0)]
    own.publish("own again")
    theirs.publish("theirs again")
    assert seen(staying) == [("theirs again", 0)]
    assert link.bodies(2) == ["theirs", "theirs again"]


@pytest.mark.parametrize(
    ("id_", "condition"),
    [
        ("global/nobody's", "amqp:not-found"),
        ("global/nobody's:volatile", "amqp:not-found"),
        ("queue/nothing", "amqp:not-found"),
        ("orders", "amqp:invalid-field"),
    ],
)
def test_what_is_no_subscription_is_not_browsed(connect: Connect, id_: str, condition: str) -> None:
    """Looking makes no subscription."""
    peer = connect()
    for _ in range(2):
        link = looking(peer, id_, opened=False)
        assert peer.amqp_error(link) == condition


def test_a_subscription_is_no_destination(connect: Connect) -> None:
    """A client can neither send to a subscription nor consume from one by such an address."""
    peer = connect()
    address = "subscription://global/N"
    assert peer.amqp_error(peer.sender(address, opened=False)) == "amqp:invalid-field"
    assert peer.amqp_error(peer.receiver(address, opened=False)) == "amqp:invalid-field"
    relay = peer.sender(None)
    delivery = relay.send(encoded("?", address=address))
    assert relay.outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:invalid-field"


def test_a_selector_that_is_none_is_refused_as_for_consumers(connect: Connect, topic: str) -> None:
    """With its place, and no browser without it."""
    peer = connect()
    link = browser(peer, topic, filters=selector("n >"), opened=False)
    assert peer.amqp_error(link) == "amqp:invalid-field"


def test_a_browser_of_many_messages(own_gateway: Make, connect: Connect) -> None:
    """Most of 20,000 are read from the table, page by page, while others consume them: each is
    seen once, in order."""
    limits = {"delivery": {"cache_bytes": 500_000, "page_bytes": 200_000}}
    with own_gateway(limits) as gateway:
        peer = connect(port=gateway.port)
        fill(peer, "many", *(f"{n:08}" + "x" * 500 for n in range(20_000)))
        consumer = of_queue(connect(port=gateway.port), "many")
        link = browser(peer, "many")
        link.link.flow(20_000)
        assert len(consumer.bodies(3_000)) == 3_000
        got = link.take(20_000, credit=False)
        assert [int(str(one.body)[:8]) for one in got] == list(range(20_000))
        assert link.nothing()
        assert str(consumer.bodies()[0]).startswith("00003000")
        later = browser(peer, "many")
        consumer.peer.drop()
        first = later.take()[0]
        assert int(str(first.body)[:8]) == 3_001


def test_a_browser_whose_connection_drops(connect: Connect, topic: str) -> None:
    """In the middle of it: the queue is as it was, and so for a consumer that drops beside it."""
    peer = connect()
    fill(peer, topic, *range(100))
    lost = connect()
    link, consumer = browser(lost, topic), of_queue(lost, topic)
    link.take(30)
    consumer.take(10)
    lost.drop()
    got = of_queue(peer, topic).take(100)
    assert [one.body for one in got] == list(range(100))


def test_a_browser_after_a_kill(own_gateway: Make, connect: Connect) -> None:
    """Possibly delivered messages are marked for a browser as for a consumer; messages that it is
    shown aren't marked by that."""
    with own_gateway() as gateway:
        peer = connect(port=gateway.port)
        fill(peer, "q", *range(6))
        assert seen(browser(peer, "q")) == fresh(range(6))
        consumer = of_queue(peer, "q")
        taken = consumer.take(3)
        consumer.confirm(taken[1:2])
        gateway.kill()
        gateway.start()
        peer = connect(port=gateway.port)
        expected = [(0, 1), (2, 1), *fresh(range(3, 6))]
        for _ in range(2):
            assert seen(browser(peer, "q")) == expected
        gateway.kill()
        gateway.start()
        assert seen(browser(connect(port=gateway.port), "q")) == expected


def test_a_browser_of_a_temporary_queue(connect: Connect) -> None:
    """Its own connection looks at it like at any other."""
    peer = connect()
    made = peer.sender(None, capabilities=("temporary-queue",), dynamic=True)
    made.publish("a", "b")
    address = made.link.remote_target.address
    link = peer.receiver(address, capabilities=("temporary-queue",), copy=True, presettled=True)
    assert seen(link) == [("a", 0), ("b", 0)]
    consumer = peer.receiver(address, capabilities=("temporary-queue",))
    assert consumer.bodies(2) == ["a", "b"]
