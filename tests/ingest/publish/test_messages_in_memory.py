"""Messages that stay in memory: `storage`, and what goes to the log all the same."""

import time
from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway, past
from proton import Delivery

Make = Callable[..., Gateway]

MEMORY = {"topic": {"storage": "memory"}}


def requester(peer: Peer) -> tuple[Incoming, str]:
    """A consumer of a temporary queue of its own, and the address."""
    link = peer.receiver(None, capabilities=(), dynamic=True)
    return link, link.link.remote_source.address


def answers(peer: Peer, address: str) -> Outgoing:
    return peer.sender(address)


def written(gateway: Gateway) -> list[tuple[str, int]]:
    """Topic and sequence of each message in the log, after the gateway's end."""
    table = DeltaTable(gateway.home / "tables" / "topic_log").to_pyarrow_table()
    rows = table.to_pylist()
    return sorted((row["topic"], row["sequence"]) for row in rows if row["record"] == "message")


def test_a_reply_is_not_written(own_gateway: Make, connect: Connect) -> None:
    """A non-persistent message for a temporary queue; the persistent one beside it is, and
    sequences are dense without the others."""
    with own_gateway() as gateway:
        peer, other = connect(port=gateway.port), connect(port=gateway.port)
        link, address = requester(peer)
        sender = answers(other, address)
        sender.publish(*range(100), durable=False)
        assert link.bodies(100) == [*range(100)]
        lasts, goes = encoded("lasts"), encoded("goes", durable=False)
        sender.publish_data([lasts, goes])
        sender.publish_data([goes])
        assert link.bodies(3) == ["lasts", "goes", "goes"]
        topic = other.sender("orders")
        topic.publish(1, durable=False)
        assert link.nothing()
        gateway.stop()
        rows = written(gateway)
        assert {name for name, _ in rows} == {"orders", address}
        assert len(rows) <= 4
        assert sorted(one for _, one in rows) == [*range(len(rows))]
        gateway.verified()


def test_one_order_for_both(own_gateway: Make, connect: Connect) -> None:
    """A message that need not be written doesn't overtake one of its topic that waits for the
    disk; one of another topic does."""
    with own_gateway({"journal": {"linger_ms": 500}}) as gateway:
        peer, other = connect(port=gateway.port), connect(port=gateway.port)
        (link, address), (beside, elsewhere) = requester(peer), requester(peer)
        lasts, goes = encoded("lasts"), encoded("goes", durable=False)
        sender = answers(other, address)
        for data in (lasts, goes):
            sender.send(data)
            other.heard()
        answers(other, elsewhere).publish("goes", durable=False)
        link.link.flow(2)
        assert beside.bodies() == ["goes"]
        assert link.inbox == []
        assert link.bodies(2) == ["lasts", "goes"]


@pytest.mark.parametrize("reply_first", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_reply_in_memory_accepts_nothing_beside_it(
    own_gateway: Make, connect: Connect, *, reply_first: bool, again: bool
) -> None:
    """One link sends both at once: where the persistent message is accepted, or a duplicate of one
    that waits for its fsync, a kill doesn't lose it."""
    topic = {"duplicates_ms": 60_000, "duplicates_messages": 100}
    with own_gateway({"journal": {"linger_ms": 1_000}, "topic": topic}) as gateway:
        peer, other = connect(port=gateway.port), connect(port=gateway.port)
        other.sender("orders", capabilities=("queue",))
        _, address = requester(peer)
        sender = other.sender(None)
        lasts = encoded("lasts", address="queue://orders", id="one")
        goes = encoded("goes", durable=False, address=address)
        if again:
            sender.send(lasts)
            other.heard()
        if reply_first:
            reply, lasting = sender.send(goes), sender.send(lasts)
        else:
            lasting, reply = sender.send(lasts), sender.send(goes)
        assert sender.outcome(lasting) == Delivery.ACCEPTED
        gateway.kill()
        assert reply.remote_state == Delivery.ACCEPTED
        gateway.start()
        reader = connect(port=gateway.port).receiver("orders", capabilities=("queue",), copy=True)
        assert reader.drain(10) == 1


def test_what_comes_back_comes_again(connect: Connect) -> None:
    """In its place, with its count, and to another consumer when the first one has gone."""
    peer = connect()
    link, address = requester(peer)
    answers(connect(), address).publish(*range(5), durable=False)
    taken = link.take(3)
    link.settle(taken[1:2], Delivery.RELEASED)
    taken[0].delivery.local.failed = True
    link.settle(taken[:1], Delivery.MODIFIED)
    link.settle(taken[2:], Delivery.ACCEPTED)
    got = link.take(4)
    assert [(one.body, one.message.delivery_count) for one in got] == [
        (0, 1),
        (1, 0),
        (3, 0),
        (4, 0),
    ]
    second = peer.receiver(address, capabilities=())
    link.settle(got[:2])
    second.link.flow(2)
    link.settle(got[2:], Delivery.RELEASED)
    assert second.bodies(2) == [3, 4]


def test_order_and_time(connect: Connect) -> None:
    """Priorities and expiries hold there, too; a selector chooses; a browser sees what waits."""
    peer = connect()
    link, address = requester(peer)
    sender = answers(connect(), address)
    low, high = (
        encoded("low", durable=False, priority=4),
        encoded("high", durable=False, priority=9),
    )
    soon = encoded("soon", durable=False, ttl=0.05)
    red = encoded("red", durable=False, properties={"colour": "red"})
    sender.publish_data([low, soon, high, red])
    browser = peer.receiver(address, capabilities=(), copy=True)
    assert browser.take()[0].body == "high"
    chosen = peer.receiver(address, capabilities=(), filters=selector("colour = 'red'"))
    assert chosen.bodies() == ["red"]
    assert link.bodies(1) == ["high"]
    past(time.time() + 0.06)
    assert link.bodies(1) == ["low"]
    assert link.nothing()


def test_a_durable_subscription_has_all_written(own_gateway: Make, connect: Connect) -> None:
    """From its beginning to its end; consumers that were there before notice nothing."""
    with own_gateway(MEMORY) as gateway:
        peer = connect(port=gateway.port)
        old = peer.receiver("ticks")
        sender = connect(port=gateway.port).sender("ticks")
        sender.publish(*range(10))
        lasting = peer.durable("ticks", "mine")
        sender.publish(*range(10, 20))
        assert lasting.bodies(10) == [*range(10, 20)]
        peer.leave(lasting, closed=True)
        young = peer.receiver("ticks")
        sender.publish(*range(20, 30))
        assert young.bodies(10) == [*range(20, 30)]
        assert old.bodies(30) == [*range(30)]
        gateway.stop()
        assert written(gateway) == [("ticks", one) for one in range(10)]
        gateway.verified()


def test_what_does_not_fit_is_written(own_gateway: Make, connect: Connect) -> None:
    """Nothing is refused and nothing is lost: half of it comes from memory, the rest from pages of
    the table, in order, for a fast consumer and for one that comes last."""
    limits = {
        **MEMORY,
        "delivery": {"memory_bytes_max": 200_000, "cache_bytes": 65_536, "page_bytes": 65_536},
        "commit": {"interval_ms": 20},
    }
    with own_gateway(limits) as gateway:
        peer = connect(port=gateway.port)
        fast, slow = peer.receiver("ticks"), peer.receiver("ticks")
        sender = connect(port=gateway.port).sender("ticks")
        texts = [f"{one:05}" + "x" * 495 for one in range(2_000)]
        noise = connect(port=gateway.port).sender("noise")
        for at in range(0, 2_000, 100):
            sender.publish(*texts[at : at + 100])
            noise.publish(*texts[:10])
            assert fast.bodies(100) == texts[at : at + 100]
        assert slow.bodies(2_000) == texts
        sender.publish("last")
        assert slow.bodies() == fast.bodies() == ["last"]
        gateway.stop()
        kept = [one for name, one in written(gateway) if name == "ticks"]
        assert 1_400 < len(kept) < 2_000
        gateway.verified()


def test_nothing_is_left_of_it(own_gateway: Make, connect: Connect) -> None:
    """After a kill: it was accepted, and those that could have got it ended with the process."""
    with own_gateway(MEMORY) as gateway:
        peer = connect(port=gateway.port)
        shared = peer.shared("ticks", "readers|global")
        peer.sender("ticks").publish(*range(10))
        assert shared.bodies(2) == [0, 1]
        gateway.kill()
        gateway.start()
        peer = connect(port=gateway.port)
        shared = peer.shared("ticks", "readers|global")
        peer.sender("ticks").publish("new")
        assert shared.bodies() == ["new"]
        gateway.stop()
        assert written(gateway) == []
        gateway.verified()


def test_without_anybody_it_is_written(own_gateway: Make, connect: Connect) -> None:
    """A topic without subscriptions, a queue, no-local, a backlog's limit: all as ever."""
    with own_gateway(MEMORY) as gateway:
        peer = connect(port=gateway.port)
        peer.sender("nobody").publish(1)
        peer.sender("queue://work").publish(2)
        gateway.stop()
        assert {name for name, _ in written(gateway)} == {"nobody", "queue://work"}


def test_a_pattern_has_what_its_topics_have(own_gateway: Make, connect: Connect) -> None:
    """A pattern's subscription reads the log: as long as one matches, all messages are written, and
    each subscription gets all, in one order. Before and after it messages stay in memory."""
    with own_gateway(MEMORY) as gateway:
        peer, other = connect(port=gateway.port), connect("maker", port=gateway.port)
        plain, sender = peer.receiver("orders.eu"), other.sender("orders.eu")
        sender.publish(0)
        claims = other.receiver("orders.*")
        lasting = other.durable("orders.#", "kept")
        sender.publish(1, 2)
        assert claims.bodies(2) == lasting.bodies(2) == [1, 2]
        other.leave(claims, closed=True)
        other.leave(lasting, closed=False)
        sender.publish(3)
        assert plain.bodies(4) == [0, 1, 2, 3]
        lasting = other.durable("orders.#", "kept")
        assert lasting.bodies(1) == [3]
        other.leave(lasting, closed=True)
        sender.publish(4)
        assert plain.bodies() == [4]
        gateway.stop()
        assert written(gateway) == [("orders.eu", n) for n in range(3)]
        gateway.verified()
