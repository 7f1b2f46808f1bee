"""A backlog bigger than memory is read back from the table, by each subscription at its own place.

The cache and the pages are tiny here, so that hundreds of messages are what millions are else.
"""

import random
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import Delivery

TINY = {
    "delivery": {"cache_bytes": 20_000, "page_bytes": 8_192},
    "commit": {"interval_ms": 50},
}
BODY = "x" * 200


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("tiny"), TINY) as gateway:
        yield gateway


def numbers(got: list[object]) -> list[int]:
    return [int(str(body).split()[0]) for body in got]


def fill(gateway: Gateway, connect: Connect, topic: str, first: int, count: int) -> None:
    """Publish numbered messages and wait until the table has them, so that memory may let go."""
    before = committed(gateway)
    sender = connect(port=gateway.port).sender(topic)
    for n in range(first, first + count, 100):
        sender.publish(*(f"{m} {BODY}" for m in range(n, min(n + 100, first + count))))
    until(lambda: committed(gateway) == before + count, "all is in the table")


def committed(gateway: Gateway) -> int:
    """How many messages the table has."""
    path = gateway.home / "tables/topic_log"
    return DeltaTable(path).transaction_version("sequence") or 0


def all_of(incoming: Incoming, count: int, step: int = 50) -> list[int]:
    got: list[int] = []
    while len(got) < count:
        got += numbers(incoming.bodies(min(step, count - len(got))))
    return got


def test_a_backlog_comes_in_order(tiny: Gateway, connect: Connect, topic: str) -> None:
    """All of it, once, from the table and then from memory, to a consumer that comes late."""
    peer = connect(topic, port=tiny.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    fill(tiny, connect, topic, 0, 1_500)
    receiver = peer.durable(topic, "mine")
    assert all_of(receiver, 1_000) == list(range(1_000))
    fill(tiny, connect, topic, 1_500, 300)
    assert all_of(receiver, 800) == list(range(1_000, 1_800))
    assert receiver.nothing()


def test_one_drain_brings_the_whole_backlog(tiny: Gateway, connect: Connect, topic: str) -> None:
    """The answer comes after the last page, not after the first."""
    peer = connect(topic, port=tiny.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    fill(tiny, connect, topic, 0, 1_000)
    receiver = peer.durable(topic, "mine")
    assert receiver.drain(5_000) == 1_000


def test_subscriptions_stand_at_different_places(
    tiny: Gateway, connect: Connect, topic: str
) -> None:
    """Each goes on from its own position; what one does moves no other."""
    peer = connect(topic, port=tiny.port)
    names = ["a", "b", "c"]
    for name in names:
        peer.leave(peer.durable(topic, name), closed=False)
    fill(tiny, connect, topic, 0, 900)
    receivers = {name: peer.durable(topic, name) for name in names}
    got: dict[str, list[int]] = {name: [] for name in names}
    for turn in range(6):
        for at, name in enumerate(names):
            got[name] += all_of(receivers[name], 50 * (at + 1), step=40)
        if turn == 3:
            fill(tiny, connect, topic, 900, 100)
    for at, name in enumerate(names):
        assert got[name] == list(range(300 * (at + 1))), name


def test_topics_lie_side_by_side_in_the_table(tiny: Gateway, connect: Connect, topic: str) -> None:
    """A subscription to a rare topic finds its messages between thousands of others."""
    peer = connect(topic, port=tiny.port)
    peer.leave(peer.durable(f"{topic}-rare", "mine"), closed=False)
    for n in range(4):
        fill(tiny, connect, topic, 0, 300)
        fill(tiny, connect, f"{topic}-rare", n, 1)
    fill(tiny, connect, topic, 0, 300)
    receiver = peer.durable(f"{topic}-rare", "mine")
    assert all_of(receiver, 4) == [0, 1, 2, 3]
    assert receiver.nothing()


def test_topics_that_interleave_without_order_are_dealt_and_settled_in_runs(
    tiny: Gateway, connect: Connect, topic: str
) -> None:
    """A backlog of single messages between those of others: all of it, in order, to two consumers;
    whatever of it is settled, given back or modified, only what isn't final comes again."""
    peer, other = connect(topic, port=tiny.port), f"{topic}-other"
    name = f"{topic}-mine|global"
    peer.leave(peer.shared_durable(topic, name), closed=False)
    chance, before = random.Random(5), committed(tiny)
    mine, others = peer.sender(topic), peer.sender(other)
    for n in range(300):
        mine.publish(f"{n} {BODY}")
        for _ in range(chance.randrange(4)):
            others.publish(f"0 {BODY}")
    for n in range(300):
        others.publish(f"{n} {BODY * 2}")
    until(lambda: committed(tiny) > before + 600, "all is in the table")
    receivers = [
        connect(port=tiny.port).shared_durable(topic, name),
        connect(port=tiny.port).shared_durable(topic, name),
    ]
    held = [got for receiver in receivers for got in receiver.take(120)]
    for receiver, taken in zip(receivers, (held[:120], held[120:]), strict=True):
        order = numbers([got.body for got in taken])
        assert order == sorted(order)
        receiver.settle([got for n, got in zip(order, taken, strict=True) if n % 5 > 1])
        receiver.settle(
            [g for n, g in zip(order, taken, strict=True) if n % 5 == 0], Delivery.RELEASED
        )
        failed = [g for n, g in zip(order, taken, strict=True) if n % 5 == 1]
        for got in failed:
            got.delivery.local.failed = True
        receiver.settle(failed, Delivery.MODIFIED)
    taken = numbers([got.body for got in held])
    assert sorted(taken) == list(range(240))
    again = [n for n in range(240) if n % 5 < 2]
    back = receivers[0].take(len(again) + 60)
    assert numbers([got.body for got in back]) == [*again, *range(240, 300)]
    counts = [got.message.delivery_count for got in back]
    assert counts == [n % 5 for n in again] + [0] * 60
    receivers[0].settle(back)
    assert receivers[0].nothing()
    owed = sequences_of(tiny, "message", topic, "sequence")
    assert len(owed) == 300
    until(lambda: settled_of(tiny, topic) == owed, "the log says what was settled")


def settled_of(gateway: Gateway, topic: str) -> list[int]:
    """The sequences that the table has final settlements of, for the topic's subscription."""
    rows = sequences_of(gateway, "settlement", topic, "sequences")
    return sorted(one for row in rows for one in row)


def sequences_of(gateway: Gateway, record: str, topic: str, column: str) -> list:
    """A column of the topic's rows; of settlements only the final ones."""
    filters = [("record", "=", record), ("topic", "=", topic)]
    if record == "settlement":
        filters.append(("final", "=", True))
    table = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(
        columns=[column], filters=filters
    )
    return sorted(table[column].to_pylist())


def test_old_messages_come_again_in_their_places(
    tiny: Gateway, connect: Connect, topic: str
) -> None:
    """Messages released long after they left memory are read back, before newer ones; accepted ones
    in between do not come."""
    peer = connect(topic, port=tiny.port)
    receiver = peer.durable(topic, "mine")
    fill(tiny, connect, topic, 0, 1_000)
    held = receiver.take(600)
    receiver.settle([got for n, got in enumerate(held) if n % 7])
    fill(tiny, connect, topic, 1_000, 300)
    back = held[::7]
    for got in back[::2]:
        got.delivery.local.failed = True
    receiver.settle(back[::2], Delivery.MODIFIED)
    receiver.settle(back[1::2], Delivery.RELEASED)
    again = receiver.take(len(back))
    assert numbers([got.body for got in again]) == list(range(0, 600, 7))
    assert [got.message.delivery_count for got in again[:4]] == [1, 0, 1, 0]
    receiver.settle(again)
    assert all_of(receiver, 700) == list(range(600, 1_300))


def test_a_shared_backlog_is_divided(tiny: Gateway, connect: Connect, topic: str) -> None:
    """Three consumers take pages of it in turns; together they have all of it, once, and one
    that is lost half way gives its part back."""
    peers = [connect(port=tiny.port) for _ in range(3)]
    peers[0].leave(peers[0].shared_durable(topic, f"{topic}|global"), closed=False)
    fill(tiny, connect, topic, 0, 1_200)
    receivers = [peer.shared_durable(topic, f"{topic}|global") for peer in peers]
    receivers[2].take(100)
    got: list[int] = []
    for _ in range(4):
        for receiver in receivers[:2]:
            got += all_of(receiver, 100)
    peers[2].drop()
    gone = f'"container": "{peers[2].container}", "event": "connection.closed"'
    until(lambda: gone in tiny.log, "the loss is seen")
    got += all_of(receivers[0], 400)
    assert sorted(got) == list(range(1_200))
    assert receivers[1].nothing()


def test_a_consumer_may_go_while_its_page_is_read(
    tiny: Gateway, connect: Connect, topic: str
) -> None:
    """Again and again, at whatever moment; the last one gets all of it."""
    peer = connect(topic, port=tiny.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    fill(tiny, connect, topic, 0, 500)
    for _ in range(10):
        receiver = peer.durable(topic, "mine")
        receiver.link.flow(50)
        peer.leave(receiver, closed=False)
    assert all_of(peer.durable(topic, "mine"), 500) == list(range(500))


def test_a_backlog_outlives_a_restart(tiny: Gateway, connect: Connect, topic: str) -> None:
    """Nothing is in memory then; everything is read from the table, exceptions left out."""
    peer = connect(topic, port=tiny.port)
    receiver = peer.durable(topic, "mine")
    fill(tiny, connect, topic, 0, 600)
    held = receiver.take(300)
    receiver.confirm([got for n, got in enumerate(held) if n % 5])
    peer.drop()
    tiny.kill()
    tiny.start()
    receiver = connect(topic, port=tiny.port).durable(topic, "mine")
    assert all_of(receiver, 360) == [*range(0, 300, 5), *range(300, 600)]
    assert receiver.nothing()
