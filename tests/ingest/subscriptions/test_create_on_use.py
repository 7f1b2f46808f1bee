"""Queues and subscriptions that may not begin with their use are not-found, in any way in which a
client asks for them, until an operator makes them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]
NOT_FOUND = "amqp:not-found"
POLICIES = """
[[topic]]
match = "*"
create_on_use = false
[[topic]]
match = "open.*"
create_on_use = true
[[topic]]
match = "queue://*"
create_on_use = false
[[subscription]]
match = "container/*/kept"
create_on_use = false
[[subscription]]
match = "queue/DLQ*"
create_on_use = false
"""


@pytest.fixture
def strict(own_gateway: Make, tmp_path: Path) -> Iterator[Gateway]:
    """Topics but those of `open.`, queues, and subscriptions named `kept` aren't created by use."""
    (tmp_path / "policies.toml").write_text(POLICIES)
    with own_gateway({"delivery": {"policies": str(tmp_path / "policies.toml")}}) as gateway:
        yield gateway


def relayed(peer: Peer, address: str) -> object:
    """The outcome of a message that names this address."""
    sender = peer.sender(None)
    return sender.outcome(sender.send(encoded("x", address=address)))


def nothing_there(peer: Peer, address: str, capability: str) -> None:
    """A producer, a message on the relay and consumers of each kind find nothing."""
    assert peer.amqp_error(peer.sender(address, opened=False)) == NOT_FOUND
    assert relayed(peer, address) == Delivery.REJECTED
    for options in ({}, {"durable": True}, {"copy": True}):
        link = peer.receiver(address, capabilities=(capability,), opened=False, **options)
        assert "create_on_use" in why(peer, link.link)
        assert peer.amqp_error(link) == NOT_FOUND


def why(peer: Peer, link: object) -> str:
    """The sentence of a refusal."""
    peer.until(lambda: peer.refused(link), "a refusal")
    return str(link.remote_condition.description)  # type: ignore[attr-defined]


def test_a_queue_is_made_by_an_operator(strict: Gateway, connect: Connect) -> None:
    """Clients find it then, and no longer when it is deleted."""
    peer, manager = connect(port=strict.port), Manager(connect(port=strict.port))
    nothing_there(peer, "queue://orders", "queue")
    manager.done("CREATE", "queue", "orders")
    peer.sender("queue://orders").publish("1")
    assert relayed(peer, "queue://orders") == Delivery.ACCEPTED
    consumer = peer.receiver("queue://orders", capabilities=("queue",))
    assert consumer.bodies(2) == ["1", "x"]
    peer.leave(consumer, closed=True)
    manager.done("DELETE", "queue", "orders", force=True)
    assert peer.amqp_error(peer.sender("queue://orders", opened=False)) == NOT_FOUND


def test_a_topic_is_there_while_a_subscription_is_on_it(strict: Gateway, connect: Connect) -> None:
    """An operator has made the subscription, or a policy lets it begin; others are untouched."""
    peer, manager = connect("c", port=strict.port), Manager(connect(port=strict.port))
    nothing_there(peer, "closed", "topic")
    manager.done("CREATE", "subscription", "global/s", topic="closed")
    plain = peer.receiver("closed")
    peer.sender("closed").publish("1")
    assert plain.bodies() == ["1"]
    peer.leave(plain, closed=True)
    manager.done("DELETE", "subscription", "global/s", force=True)
    assert peer.amqp_error(peer.receiver("closed", opened=False)) == NOT_FOUND
    consumer = peer.durable("open.a", "s")
    peer.sender("open.a").publish("2")
    assert consumer.bodies() == ["2"]


def test_a_subscription_is_made_by_an_operator(strict: Gateway, connect: Connect) -> None:
    """A durable one of that pattern; others begin with their use, and so does what doesn't
    last."""
    peer, manager = connect("c", port=strict.port), Manager(connect(port=strict.port))
    refused = peer.durable("open.a", "kept", opened=False)
    assert "container/c/kept" in why(peer, refused.link)
    assert peer.amqp_error(refused) == NOT_FOUND
    peer.leave(peer.shared("open.a", "kept"), closed=True)
    peer.durable("open.a", "other")
    manager.done("CREATE", "subscription", "container/c/kept", topic="open.a")
    kept = peer.durable("open.a", "kept")
    peer.sender("open.a").publish("1")
    assert kept.bodies(accept=False) == ["1"]
    kept.peer.leave(kept, closed=False)
    assert peer.durable("open.a", "kept").bodies() == ["1"]


def test_what_the_gateway_makes_for_itself_is_made(strict: Gateway, connect: Connect) -> None:
    """Temporary destinations, and queues of dead letters although no client may create these."""
    peer, manager = connect("c", port=strict.port), Manager(connect(port=strict.port))
    dynamic = peer.receiver(None, capabilities=("temporary-queue",), dynamic=True)
    peer.sender(dynamic.link.remote_source.address).publish("1")
    assert dynamic.bodies() == ["1"]
    consumer = peer.durable("open.a", "s")
    peer.sender("open.a").publish("bad")
    consumer.settle(consumer.take(), Delivery.REJECTED)
    peer.until(
        lambda: manager.ask("READ", "queue", "DLQ.container/c/s").status == 200, "dead letters"
    )
