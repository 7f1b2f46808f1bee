"""Full queues whose dead letters can't go on keep them: nothing goes round, nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_links import Incoming, Outgoing, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from proton import Delivery

Make = Callable[..., Gateway]
ACCEPTED, REJECTED = Delivery.ACCEPTED, Delivery.REJECTED
ONE = 'backlog_messages_max = 1\nbacklog_overflow = "dead_letter"\n'


def queue(peer: Peer, name: str) -> Incoming:
    return peer.receiver(f"queue://{name}", capabilities=("queue",))


def outcomes(link: Outgoing, *bodies: object) -> list[object]:
    return [link.outcome(link.send(encoded(body))) for body in bodies]


def leads(name: str, other: str) -> str:
    return f'[[subscription]]\nmatch = "queue/{name}"\ndead_letter_address = "{other}"\n{ONE}'


def started(own_gateway: Make, tmp_path: Path, written: str) -> Gateway:
    file = tmp_path / "policies.toml"
    file.write_text(written)
    return own_gateway({"delivery": {"policies": str(file), "expiry_scan_ms": 50}}).start()


def in_force(manager: Manager, name: str) -> object:
    return manager.done("READ", "queue", name)["policy_in_force"]["backlog_overflow"]


def owed(manager: Manager, *names: str) -> list[object]:
    return [manager.done("READ", "queue", name)["backlog"] for name in names]


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]], ids=len)
def test_queues_in_a_circle_keep_what_is_too_much(
    own_gateway: Make, connect: Connect, tmp_path: Path, names: list[str]
) -> None:
    """They refuse publishers; a message that comes from outside of the circle is kept, too."""
    circle = zip(names, names[1:] + names[:1], strict=True)
    written = "".join(leads(*pair) for pair in circle) + leads("outside", "a")
    gateway = started(own_gateway, tmp_path, written)
    peer, manager = connect(port=gateway.port), Manager(connect(port=gateway.port))
    for name in names:
        manager.done("CREATE", "queue", name)
    for name in names:
        link = peer.sender(f"queue://{name}")
        assert outcomes(link, f"{name}0", f"{name}1") == [ACCEPTED, REJECTED]
    peer.sender("queue://outside").publish(1, 2, 3)
    until(lambda: owed(manager, "outside", "a") == [1, 3], "the oldest went there")
    assert queue(peer, "a").bodies(3) == ["a0", 1, 2]
    for name in names[1:]:
        assert queue(peer, name).bodies(1) == [f"{name}0"]
    assert queue(peer, "outside").bodies(1) == [3]


def test_full_dead_letters_stay(own_gateway: Make, connect: Connect, tmp_path: Path) -> None:
    """A limit that is meant for all queues, whose dead letters have no dead letters of their own:
    none is dropped, and those who publish there themselves are refused."""
    written = f'[[subscription]]\nmatch = "queue/*"\n{ONE}'
    gateway = started(own_gateway, tmp_path, written)
    peer = connect(port=gateway.port)
    peer.sender("queue://q").publish(*range(5))
    dead = queue(peer, "DLQ.queue/q")
    taken = dead.take(4)
    assert [got.body for got in taken] == [0, 1, 2, 3]
    own = peer.sender("queue://DLQ.queue/q")
    assert outcomes(own, "own") == [REJECTED]
    dead.confirm(taken)
    assert outcomes(own, "own", "more") == [ACCEPTED, REJECTED]


def test_a_circle_may_be_closed_and_opened(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """By the policy of any queue in it: it holds for the others at once."""
    gateway = started(own_gateway, tmp_path, leads("a", "b"))
    peer, manager = connect(port=gateway.port), Manager(connect(port=gateway.port))
    a, b = peer.sender("queue://a"), peer.sender("queue://b")
    a.publish(1, 2)
    until(lambda: owed(manager, "a", "b") == [1, 1], "the oldest went there")
    assert in_force(manager, "a") == "dead_letter"
    back = {"dead_letter_address": "a", "backlog_overflow": "dead_letter"}
    manager.done("UPDATE", "queue", "b", policy=back | {"backlog_messages_max": 3})
    until(lambda: outcomes(a, "x") == [REJECTED], "a keeps its own")
    assert {in_force(manager, "a"), in_force(manager, "b")} == {"refuse"}
    b.publish(*range(10, 12))
    assert outcomes(b, "x") == [REJECTED]
    manager.done("UPDATE", "queue", "b", policy={})
    until(lambda: outcomes(a, "y") == [ACCEPTED], "a passes them on again")
    until(lambda: owed(manager, "a", "b") == [1, 4], "the oldest went there")
