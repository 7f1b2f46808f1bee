"""While messages wait for the check by a schema, their destination, their transaction or its
controller may end: each peer is told the truth of it, as if its frames had been handled at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from gateway_fields import make
from gateway_frames import Frame, frame_of
from gateway_jms import Jms
from gateway_links import Outgoing, encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, Settings
from gateway_schemas import checkers, schema, sent
from gateway_transactions import COORDINATOR_HANDLE, Transacted, condition_of, transacted
from proton import Delivery

Make = Callable[..., Gateway]
FITS = b'{"id": 1}'
CHECKED: Settings = {"schemas": {"check_ms_max": 60_000}}


@pytest.fixture
def checked(own_gateway: Make, connect: Connect) -> Gateway:
    """A gateway whose topic `orders` has a schema, and the process that checks it. What is sent to
    other topics is checked, too: a copy of it goes to `orders`."""
    gateway = own_gateway({**CHECKED, "topic": {"routes": "orders"}}).start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    assert sent(peer, "orders", FITS)[0].remote_state == Delivery.ACCEPTED
    return gateway


@contextmanager
def no_checks(gateway: Gateway) -> Iterator[None]:
    """Messages wait for their check as long as this lasts."""
    [pid] = checkers(gateway)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def post(session: Transacted, handle: int) -> int:
    state = make("transactional-state", txn_id=session.id)
    return session.transfer(handle, encoded(FITS), state=state)


@pytest.mark.parametrize("relay", [False, True])
def test_what_waits_for_a_destination_that_has_ended_is_refused(
    checked: Gateway, connect: Connect, *, relay: bool
) -> None:
    """A temporary queue is deleted while messages to it are checked: they are owed to no consumer,
    so none is accepted; neither are their copies sent."""
    maker, sender, peer = (connect(port=checked.port) for _ in range(3))
    copies = peer.receiver("orders")
    made = maker.sender(None, dynamic=True, capabilities=("temporary-queue",))
    address = made.link.remote_target.address
    producer = sender.sender(None if relay else address)

    def send(*, durable: bool = True) -> Delivery:
        return producer.send(encoded(FITS, address=address, durable=durable))

    assert producer.outcome(send()) == Delivery.ACCEPTED
    assert len(copies.take(1)) == 1
    with no_checks(checked):
        waiting = [send(), send(durable=False)]
        sender.heard()
        maker.leave(made, closed=True)
    assert [outcome(producer, one) for one in waiting] == ["amqp:not-found"] * 2
    assert copies.nothing()


def test_what_waits_for_a_queue_that_is_deleted_with_its_link_is_refused(
    checked: Gateway, connect: Connect
) -> None:
    """The link ends with the queue, so the queue isn't made again for what came on it."""
    peer, other = connect(port=checked.port), connect(port=checked.port)
    copies = other.receiver("orders")
    producer = peer.sender("queue://deleted")
    assert producer.outcome(producer.send(encoded(FITS))) == Delivery.ACCEPTED
    assert len(copies.take(1)) == 1
    with no_checks(checked):
        waiting = producer.send(encoded(FITS))
        peer.heard()
        Manager(other).done("DELETE", "queue", "deleted", force=True)
        peer.until(lambda: peer.refused(producer.link), "the end of its link")
    assert outcome(producer, waiting) == "amqp:resource-deleted"
    assert copies.nothing()


def outcome(producer: Outgoing, delivery: Delivery) -> str:
    assert producer.outcome(delivery) == Delivery.REJECTED
    return str(delivery.remote.condition.name)


def test_a_controller_leaves_after_its_commit(checked: Gateway, connect: Connect) -> None:
    """Its detach comes behind the commit, and is handled so."""
    copies = connect(port=checked.port).receiver("orders")
    with Jms(checked.port) as jms:
        session = transacted(jms)
        handle = session.producer("orders")
        with no_checks(checked):
            posted, commit = post(session, handle), session.send_discharge(fail=False)
            jms.send(leaving(session))
            jms.session()  # the gateway has read all of it
        assert condition_of(session.answer(commit)) == ""
        assert condition_of(session.answer(posted)) == ""
        [detach] = session.until("detach")
        assert (detach["handle"], detach["error"]) == (COORDINATOR_HANDLE, None)
    assert len(copies.take(1)) == 1


def leaving(session: Transacted) -> bytes:
    """The detach of its controller."""
    return frame_of("detach", channel=session.channel, handle=COORDINATOR_HANDLE, closed=True)


def test_what_waits_for_a_transaction_that_has_ended_is_refused_alone(
    checked: Gateway, connect: Connect
) -> None:
    """The controller's session ends, which rolls the transaction back: messages of another session
    that came before are refused, and their link goes on."""
    copies = connect(port=checked.port).receiver("orders")
    with Jms(checked.port) as jms:
        controls, session = transacted(jms), transacted(jms)
        handle = session.producer("orders")
        with no_checks(checked):
            state = make("transactional-state", txn_id=controls.id)
            waiting = session.transfer(handle, encoded(FITS), state=state)
            jms.send(frame_of("end", channel=controls.channel))
            until_end(jms)
        assert condition_of(session.answer(waiting)) == "amqp:transaction:unknown-id"
        posted = post(session, handle)
        assert condition_of(session.answer(posted)) == ""
        assert session.commit() == ""
    assert len(copies.take(1)) == 1
    assert copies.nothing()


def until_end(jms: Jms) -> Frame:
    while (one := jms.read()).kind != "end":
        assert one.kind in ("flow", "disposition"), one
    return one
