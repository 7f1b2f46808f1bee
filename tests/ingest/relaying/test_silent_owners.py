"""An owner is connected and answers nothing: a client waits for it for `fleet.owner_wait_ms`, and
nothing of that is left when it answers."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_fleet import Fleet
from gateway_jms import QUEUE, Jms
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway
from gateway_transactions import condition_of, transacted
from proton import Delivery, Endpoint

Make = Callable[..., Gateway]
FORCED = "amqp:link:detach-forced"
UNKNOWN = "amqp:transaction:unknown-id"
#: Heartbeats are missed a minute later than answers.
SETTINGS = {"owner": {"lease_ms": 60_000}, "fleet": {"owner_wait_ms": 1_000}}


@pytest.fixture
def fleet(tmp_path: Path, own_gateway: Make) -> Iterator[Fleet]:
    with Fleet(tmp_path, own_gateway, SETTINGS) as fleet:
        yield fleet
        assert not fleet.main.events("relay.lost")


@contextmanager
def silent(fleet: Fleet) -> Iterator[None]:
    """The owner of `orders` answers nothing meanwhile; its connection stays."""
    fleet.orders.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        fleet.orders.process.send_signal(signal.SIGCONT)


def test_attaches_and_detaches(fleet: Fleet, connect: Connect) -> None:
    peer = connect("silent", port=fleet.main.port)
    sender = peer.sender("orders.silent")
    consumer = peer.durable("orders.silent", "mine")
    with silent(fleet):
        late = peer.receiver("orders.silent", "late", opened=False)
        peer.until(lambda: peer.refused(late.link), "a refusal")
        said = late.link.remote_condition.description
        assert said == "the owner of the log 'orders' didn't answer for 1 s (fleet.owner_wait_ms)"
        assert peer.amqp_error(late) == FORCED
        assert peer.leave(consumer, closed=False) == FORCED
        taken = peer.durable("orders.silent", "mine", opened=False)  # the name isn't free there
        assert peer.amqp_error(taken) == FORCED
    sender.publish("one")
    assert peer.durable("orders.silent", "mine").bodies() == ["one"]
    assert peer.receiver("orders.silent", "late").nothing()


def test_a_detach_behind_what_has_no_outcome(fleet: Fleet, connect: Connect) -> None:
    peer = connect("behind", port=fleet.main.port)
    sender, consumer = peer.sender("orders.behind"), peer.receiver("orders.behind")
    sender.publish("one")
    [one] = consumer.take()
    with silent(fleet):
        sender.send(encoded("more"))
        assert peer.leave(sender, closed=True) == FORCED
        one.delivery.update(Delivery.ACCEPTED)  # and waits for the owner's word
        assert peer.leave(consumer, closed=True) == FORCED
    peer.sender("orders.behind").publish("last")


def test_ends_of_sessions_and_connections(fleet: Fleet, connect: Connect) -> None:
    peer = connect("ends", port=fleet.main.port)
    session = peer.new_session()
    peer.durable("orders.ends", "mine", session=session)
    peer.sender("orders.ends").publish("one")
    with silent(fleet):
        session.close()
        peer.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "the answer to an end")
        peer.close()
    again = connect("ends", port=fleet.main.port)
    assert again.durable("orders.ends", "mine").bodies() == ["one"]


def test_requests(fleet: Fleet, connect: Connect) -> None:
    manager = Manager(connect("asks", port=fleet.main.port))
    other = Manager(connect("late", port=fleet.main.port))
    manager.done("CREATE", "queue", "orders.q")
    with silent(fleet):
        said = manager.refused(500, "READ", "queue", "orders.q")
        assert "didn't answer for 1 s (fleet.owner_wait_ms): what was asked for may be" in said
        said = other.refused(500, "READ", "queue", "orders.q")
        assert said.endswith("didn't answer for 1 s (fleet.owner_wait_ms)")
    for one in (manager, other):
        assert one.done("READ", "queue", "orders.q")["name"] == "orders.q"


def test_transactions(fleet: Fleet, connect: Connect) -> None:
    """The first work of a client in the log: the owner has yet to let its coordinator in."""
    with Jms(fleet.main.port) as jms:
        session = transacted(jms)
        to = session.producer("orders.to", QUEUE)
        with silent(fleet):
            [posted] = session.post(to, "one")
            assert condition_of(session.answer(posted)) == UNKNOWN
            assert session.roll_back() == ""
        [posted] = session.post(to, "two")
        assert session.commit() == ""
        assert condition_of(session.answer(posted)) == ""
    queue = connect(port=fleet.orders.port).receiver("orders.to", capabilities=("queue",))
    assert queue.bodies() == ["two"]
