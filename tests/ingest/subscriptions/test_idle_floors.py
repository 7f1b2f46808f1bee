"""The floor of a subscription that is owed nothing moves with the log's end, with a consumer or
without, and is recorded now and then; owed messages stay owed."""

from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from test_backlog import TINY, all_of, committed, fill

Make = Callable[..., Gateway]

SETTINGS = TINY | {"upkeep": {"idle_floor_sequences": 150}}


def floor(manager: Manager, name: str) -> int:
    return int(manager.done("READ", "subscription", f"container/c/{name}")["floor"])


def recorded(gateway: Gateway, name: str) -> int:
    """The highest floor that the table has of the subscription."""
    table = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table()
    rows = [row for row in table.to_pylist() if row["subscription"] == f"container/c/{name}"]
    return max(row["floor"] for row in rows)


def test_a_drained_subscription_holds_nothing_back(own_gateway: Make, connect: Connect) -> None:
    """Attached without credit, and detached; what they settled lies far behind."""
    gateway = own_gateway(SETTINGS).start()
    peer = connect("c", port=gateway.port)
    attached, away = peer.durable("quiet", "attached"), peer.durable("quiet", "away")
    peer.sender("quiet").publish("one")
    for consumer in (attached, away):
        consumer.confirm(consumer.take())
    peer.leave(away, closed=False)
    until(lambda: committed(gateway) == 1, "the message is in the table")
    fill(gateway, connect, "busy", 0, 400)
    manager = Manager(connect(port=gateway.port))
    for name in ("attached", "away"):
        until(lambda name=name: floor(manager, name) == 401, "the floor is at the end")  # type: ignore[misc]
        until(lambda name=name: recorded(gateway, name) > 150, "the floor is recorded")  # type: ignore[misc]
    gateway.stop()
    gateway.verified()
    again = connect("c", port=gateway.start().port)
    assert floor(Manager(again), "away") > 150
    again.sender("quiet").publish("two")
    assert again.durable("quiet", "away").bodies() == ["two"]
    assert again.durable("quiet", "attached").bodies() == ["two"]


def test_what_is_owed_holds_its_place(own_gateway: Make, connect: Connect) -> None:
    """A floor goes no further than the first unsettled message, in memory or in the table, read or
    not; all messages come, in order."""
    gateway = own_gateway(SETTINGS).start()
    peer = connect("c", port=gateway.port)
    peer.leave(peer.durable("owed", "unread"), closed=False)
    holding = peer.durable("owed", "held")
    fill(gateway, connect, "busy", 0, 200)
    fill(gateway, connect, "owed", 0, 300)
    fill(gateway, connect, "busy", 0, 200)
    held = holding.take(3)
    manager = Manager(connect(port=gateway.port))
    until(lambda: floor(manager, "unread") == 200, "the floor is at the first message")
    assert floor(manager, "held") == 200
    holding.confirm(held[1:])
    assert floor(manager, "held") == 200
    gateway.kill()
    peer = connect("c", port=gateway.start().port)
    assert all_of(peer.durable("owed", "unread"), 300) == list(range(300))
    assert all_of(peer.durable("owed", "held"), 298) == [0, *range(3, 300)]


def test_who_reads_a_stream_is_left_alone(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """Its numbers aren't sequences, also where the floors of all that are served count."""
    file = tmp_path / "policies.toml"
    file.write_text('[[topic]]\nmatch = "quick"\nstorage = "memory"\n')
    upkeep = {"idle_floor_sequences": 150, "retention_seconds": 0}
    gateway = own_gateway(TINY | {"upkeep": upkeep, "delivery": {"policies": str(file)}}).start()
    peer = connect("c", port=gateway.port)
    quick, quiet = peer.receiver("quick"), peer.durable("quiet", "away")
    fill(gateway, connect, "busy", 0, 300)
    manager = Manager(connect(port=gateway.port))
    until(lambda: floor(manager, "away") == 300, "all floors have been looked at")
    peer.sender("quick").publish(*range(5))
    assert quick.bodies(5) == list(range(5))
    peer.sender("quiet").publish("one")
    assert quiet.bodies() == ["one"]
