"""Routed copies in transactions, beside duplicates, at full or deleted targets, and where messages
could stay in memory."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_fields import make
from gateway_jms import Jms
from gateway_links import Incoming, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from gateway_transactions import Transacted, condition_of, transacted
from proton import Delivery

Make = Callable[..., Gateway]
WRITTEN = """
[[topic]]
match = "orders"
duplicates_messages = 1000
routes = ["queue://billing where amount > 100", "audit"]
[[topic]]
match = "queue://small"
backlog_messages_max = 2
[[topic]]
match = "queue://last"
backlog_messages_max = 2
backlog_overflow = "drop_oldest"
[[topic]]
match = "tight"
routes = ["queue://small", "queue://last"]
[[topic]]
match = "quick*"
storage = "memory"
[[topic]]
match = "quick"
routes = ["quick.copies"]
"""


@pytest.fixture
def routed(own_gateway: Make, tmp_path: Path) -> Gateway:
    file = tmp_path / "policies.toml"
    file.write_text(WRITTEN)
    return own_gateway({"delivery": {"policies": str(file), "expiry_scan_ms": 50}}).start()


def order(number: int, amount: int = 1_000, **fields: object) -> bytes:
    return encoded(number, properties={"amount": amount}, **fields)


def post(session: Transacted, handle: int, *messages: bytes) -> None:
    state = make("transactional-state", txn_id=session.id)
    for message in messages:
        assert condition_of(session.answer(session.transfer(handle, message, state=state))) == ""


def queue(peer: Peer, name: str) -> Incoming:
    return peer.receiver(f"queue://{name}", capabilities=("queue",))


def everything(incoming: Incoming) -> list[object]:
    incoming.drain(1_000)
    got, incoming.inbox = incoming.inbox, []
    incoming.confirm(got)
    return [one.body for one in got]


def groups(gateway: Gateway) -> dict[str, list[int]]:
    """The group of each message in the table, ascending, by topic."""
    table = DeltaTable(gateway.home / "tables" / "topic_log")
    found: dict[str, list[int]] = {}
    for row in table.to_pyarrow_table(columns=["record", "topic", "group"]).to_pylist():
        if row["record"] == "message":
            found.setdefault(row["topic"], []).append(row["group"])
    return {topic: sorted(some) for topic, some in found.items()}


def test_copies_are_a_part_of_the_commit(routed: Gateway, connect: Connect) -> None:
    """None before it, none of what is rolled back, not even the queue; then all in one group, over
    a kill, too."""
    peer = connect(port=routed.port)
    audit, manager = peer.receiver("audit"), Manager(connect(port=routed.port))
    with Jms(routed.port) as jms:
        session = transacted(jms)
        orders, direct = session.producer("orders"), session.producer("audit")
        post(session, orders, order(1), order(2))
        assert session.roll_back() == ""
        assert manager.refused(404, "READ", "queue", "billing")
        post(session, orders, order(3), order(4, 50))
        post(session, direct, encoded("direct"))
        post(session, orders, order(5))
        assert audit.nothing()
        assert session.commit() == ""
    assert audit.bodies(4) == [3, 4, "direct", 5]
    routed.kill()
    routed.start()
    assert queue(connect(port=routed.port), "billing").bodies(2) == [3, 5]
    routed.stop()
    found = groups(routed)
    assert {topic: len(some) for topic, some in found.items()} == {
        "orders": 3,
        "audit": 4,
        "queue://billing": 2,
    }
    assert len({group for some in found.values() for group in some}) == 1
    routed.verified()
    routed.start()


def test_a_duplicate_has_no_second_copy(routed: Gateway, connect: Connect) -> None:
    """Alone, in the midst of a run, in one run twice, in a transaction, and after a start."""
    peer = connect(port=routed.port)
    sender, audit, billing = peer.sender("orders"), peer.receiver("audit"), queue(peer, "billing")
    sender.publish_data([order(1, id="a")])
    sender.publish_data([order(1, id="a")])
    sender.publish_data([order(2, id="b"), order(1, id="a"), order(3, id="c"), order(3, id="c")])
    with Jms(routed.port) as jms:
        session = transacted(jms)
        to = session.producer("orders")
        post(session, to, order(1, id="a"), order(4, id="d"), order(4, id="d"))
        assert session.commit() == ""
        post(session, to, order(4, id="d"))
        assert session.commit() == ""
    got = billing.take(4)
    assert audit.bodies(4) == [one.body for one in got] == [1, 2, 3, 4]
    billing.confirm(got)  # durable before the kill
    assert audit.nothing()
    assert billing.nothing()
    routed.kill()
    peer = connect(port=routed.start().port)
    audit, billing = peer.receiver("audit"), queue(peer, "billing")
    peer.sender("orders").publish_data([order(4, id="d"), order(5, id="e")])
    assert audit.bodies() == billing.bodies() == [5]
    assert audit.nothing()
    assert billing.nothing()


def test_a_full_target_refuses_its_own_senders_alone(routed: Gateway, connect: Connect) -> None:
    """The route goes on, one by one and in a transaction; where the oldest go, they go."""
    peer = connect(port=routed.port)
    tight = peer.sender("tight")
    tight.publish(*range(3))
    with Jms(routed.port) as jms:
        session = transacted(jms)
        to = session.producer("tight")
        post(session, to, encoded(3), encoded(4))
        assert session.commit() == ""
    own = peer.sender("queue://small", capabilities=("queue",))
    assert own.outcome(own.send(encoded("own"))) == Delivery.REJECTED
    manager = Manager(connect(port=routed.port))
    until(lambda: manager.done("READ", "queue", "last")["backlog"] == 2, "the oldest have gone")
    small, last = queue(peer, "small"), queue(peer, "last")
    assert small.bodies(5) == list(range(5))
    assert last.bodies(2) == [3, 4]
    own.publish("own")
    assert small.bodies() == ["own"]


def test_a_deleted_target_is_made_again(routed: Gateway, connect: Connect) -> None:
    """By the next copy. What was there goes with the old queue, from some message on all come, and
    what is sent after the answer surely."""
    peer = connect(port=routed.port)
    sender, manager = peer.sender("orders"), Manager(peer)
    for _ in range(5):
        sender.publish_data([order(n) for n in range(3)])
        deleted = manager.send("DELETE", "queue", "billing", force=True)
        for n in range(3, 9):
            sender.publish_data([order(n)])
        assert manager.answer(deleted).status in {200, 204}
        sender.publish_data([order(n) for n in range(9, 12)])
        billing = queue(peer, "billing")
        got = everything(billing)
        assert got == list(range(12))[-len(got) :]
        assert 3 <= len(got) < 10
        peer.leave(billing, closed=False)


def test_copies_reach_consumers_that_read_from_memory(routed: Gateway, connect: Connect) -> None:
    """Messages with a route are written; a consumer of the target's stream has each copy once,
    between messages that stay in memory, in the order of sending."""
    peer = connect(port=routed.port)
    quick, copies = peer.receiver("quick"), peer.receiver("quick.copies")
    sender, direct = peer.sender("quick"), peer.sender("quick.copies")
    for n in range(0, 30, 3):
        sender.publish(n)
        direct.publish(n + 1)
        sender.publish(n + 2, durable=False)
    assert quick.bodies(20) == [n for n in range(30) if n % 3 != 1]
    assert copies.bodies(30) == list(range(30))
    assert quick.nothing()
    assert copies.nothing()
    routed.stop()
    found = groups(routed)
    assert found["quick"] == found["quick.copies"]
    assert len(found["quick"]) == 20
    routed.verified()
    routed.start()
