"""Answers that wait for the disk, and messages after a kill: the classes of docs/durability.md.

A group waits for a second before it is written here. So the order of the answers tells messages
that wait for it from those that don't, and the gateway can be killed in between.
"""

from collections.abc import Callable, Iterator

import pytest
from gateway_links import encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Delivery, Endpoint

Make = Callable[..., Gateway]
WAITS = {"journal": {"linger_ms": 1_000}}


@pytest.fixture
def patient(own_gateway: Make) -> Iterator[Gateway]:
    """A gateway whose groups wait for a second."""
    with own_gateway(WAITS) as gateway:
        yield gateway


@pytest.fixture
def peer(patient: Gateway, connect: Connect) -> Peer:
    return connect("c", port=patient.port)


def left(gateway: Gateway, connect: Connect) -> list[object]:
    """The messages of the durable subscription after a restart."""
    receiver = connect("c", port=gateway.port).durable("t", "mine")
    return receiver.bodies(receiver.drain(10))


def test_a_persistent_message_waits_and_a_non_persistent_one_does_not(peer: Peer) -> None:
    """The second is accepted although it came later: it waits for nothing."""
    sender = peer.sender("t")
    persistent = sender.send(encoded("persistent"))
    volatile = sender.send(encoded("non-persistent", durable=False))
    assert sender.outcome(volatile) == Delivery.ACCEPTED
    assert not persistent.settled
    assert sender.outcome(persistent) == Delivery.ACCEPTED


def test_an_outcome_waits_on_a_durable_subscription_only(peer: Peer) -> None:
    """Both consumers leave their outcome unsettled to hear that it is recorded; where nothing is
    recorded there is nothing to wait for."""
    durable, private = peer.durable("t", "mine"), peer.receiver("t")
    peer.sender("t").publish("one")
    [recorded], [forgotten] = durable.take(), private.take()
    recorded.delivery.update(Delivery.ACCEPTED)
    peer.write()
    forgotten.delivery.update(Delivery.ACCEPTED)
    peer.until(lambda: forgotten.delivery.settled, "a settlement")
    assert not recorded.delivery.settled
    peer.until(lambda: recorded.delivery.settled, "a settlement that is durable")


def test_an_attach_waits_on_a_durable_subscription_only(peer: Peer) -> None:
    durable = peer.durable("t", "mine", opened=False)
    private = peer.receiver("t")
    shared = peer.shared("t", "S|volatile1")
    assert private.link.state & shared.link.state & Endpoint.REMOTE_ACTIVE
    assert not durable.link.state & Endpoint.REMOTE_ACTIVE
    peer.attached(durable.link)


def test_after_a_kill_what_waited_for_nothing_may_be_gone(
    patient: Gateway, peer: Peer, connect: Connect
) -> None:
    """A persistent message that was accepted is there. Of the non-persistent ones that is there
    whose group was written; the other one was killed before."""
    peer.leave(peer.durable("t", "mine"), closed=False)
    sender = peer.sender("t")
    sender.publish("written", durable=False)
    sender.publish("persistent")
    sender.publish("not written", durable=False)
    patient.kill()
    patient.start()
    assert left(patient, connect) == ["written", "persistent"]


def test_an_orderly_stop_keeps_both(patient: Gateway, peer: Peer, connect: Connect) -> None:
    """Waiting messages are written before the end; a durable subscription has all of them."""
    peer.leave(peer.durable("t", "mine"), closed=False)
    sender = peer.sender("t")
    sender.publish("persistent")
    sender.publish("non-persistent", durable=False)
    patient.stop()
    patient.start()
    assert left(patient, connect) == ["persistent", "non-persistent"]


def test_a_non_durable_subscription_ends_with_the_gateway(
    patient: Gateway, peer: Peer, connect: Connect
) -> None:
    """Persistent messages, too, are gone for those who were to have them on it."""
    shared = peer.shared("t", "S|global-volatile1")
    peer.sender("t").publish("persistent")
    shared.take(1)
    patient.kill()
    patient.start()
    again = connect("c", port=patient.port).shared("t", "S|global-volatile1")
    assert again.nothing()
