"""A durable subscription without consumers becomes shared, or exclusive, where a policy allows it;
what it is owed stays."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_peer import Connect, Peer
from gateway_process import Gateway

Make = Callable[..., Gateway]
LOCKED = "amqp:resource-locked"


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_an_idle_subscription_becomes_shared_and_exclusive_again(
    own_gateway: Make, connect: Connect, tmp_path: Path, end: str
) -> None:
    """With its backlog in order, over a restart; while it has a consumer the other kind is locked
    out. Others of another name stay what they are."""
    file = tmp_path / "policies.toml"
    file.write_text('[[subscription]]\nmatch = "container/c/s"\nsharing_may_change = true\n')
    gateway = own_gateway({"delivery": {"policies": str(file)}}).start()
    peer = connect("c", port=gateway.port)
    peer.leave(peer.durable("t", "s"), closed=False)
    peer.leave(peer.durable("t", "other"), closed=False)
    peer.sender("t").publish(*range(6))
    shared = [peer.shared_durable("t", name) for name in ("s", "s|2")]
    assert [link.bodies(1) for link in shared] == [[0], [1]]
    assert peer.amqp_error(again(peer)) == LOCKED
    assert peer.amqp_error(peer.shared_durable("t", "other", opened=False)) == LOCKED
    for link in shared:
        peer.leave(link, closed=False)
    peer.sender("behind").publish("what was settled is durable when this is")
    peer.close()
    gateway.stop() if end == "stopped" else gateway.kill()
    gateway.start()
    peer = connect("c", port=gateway.port)
    shared = [peer.shared_durable("t", name) for name in ("s", "s|2")]
    assert [link.bodies(1) for link in shared] == [[2], [3]]
    for link in shared:
        peer.leave(link, closed=False)
    exclusive = peer.durable("t", "s")
    assert exclusive.bodies(2) == [4, 5]
    assert peer.amqp_error(peer.shared_durable("t", "s|2", opened=False)) == LOCKED
    peer.close()
    gateway.stop()
    columns = ["record", "group", "subscription", "event", "shared", "dropped", "by"]
    rows = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(columns=columns)
    said = [row for row in rows.to_pylist() if is_of(row)]
    assert {row["by"] for row in said} == {"anonymous"}
    events = sorted((r["group"], r["event"], r["shared"]) for r in said)
    assert [(event, shared) for _, event, shared in events] == [
        ("created", False),
        ("configured", True),
        ("configured", False),
    ]


def again(peer: Peer) -> object:
    """The exclusive one wanted, on a session where its name is free."""
    return peer.durable("t", "s", opened=False, session=peer.new_session())


def is_of(row: dict[str, object]) -> bool:
    return row["record"] == "subscription" and row["subscription"] == "container/c/s"
