"""Every way into a topic obeys its schema: transactions, messages that name their destination,
routed copies, redriven dead letters, delayed messages. A misfit is refused if its sender hears
that, and kept among dead letters if there is no sender, or if the schema says so."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from gateway_fields import make
from gateway_jms import Jms
from gateway_links import Got, Incoming, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from gateway_schemas import ORDER, checkers, schema, sent, why
from gateway_transactions import Transacted, condition_of, transacted
from proton import Delivery, symbol

Make = Callable[..., Gateway]
FITS, MISFIT = b'{"id": 1}', b'{"id": "two"}'
SENTENCE = '/id: "two" is not of type "integer"'


@pytest.fixture
def manager(connect: Connect) -> Manager:
    return Manager(connect())


@pytest.fixture
def jms(gateway: Gateway) -> Iterator[Jms]:
    with Jms(gateway.port) as opened:
        yield opened


def queue(peer: Peer, name: str) -> Incoming:
    """A consumer of a queue."""
    return peer.receiver(name, capabilities=("queue",))


def body_of(got: Got) -> bytes:
    message = got.message  # its body is a view of it
    return bytes(message.body)


def bodies(some: Iterable[Got]) -> list[bytes]:
    return [body_of(one) for one in some]


def said(letter: Got) -> dict[str, object]:
    """The annotations of a dead letter about itself, without their common prefix."""
    found = letter.message.annotations or {}
    return {
        str(key).removeprefix("x-opt-dead-letter-"): value
        for key, value in found.items()
        if str(key).startswith("x-opt-dead-letter-")
    }


def post(session: Transacted, handle: int, *bodies: bytes) -> list[str]:
    """The conditions with which messages of a transaction were rejected."""
    state = make("transactional-state", txn_id=session.id)
    ids = [session.transfer(handle, encoded(body), state=state) for body in bodies]
    return [condition_of(session.answer(one)) for one in ids]


def test_a_misfit_is_accepted_and_kept_with_its_reason(
    connect: Connect, manager: Manager, topic: str
) -> None:
    manager.done("UPDATE", "schema", topic, **schema(validate="dead-letter"))
    peer = connect()
    consumer = peer.shared_durable(topic, f"{topic}|global")
    outcomes = sent(peer, topic, FITS, MISFIT, FITS)
    assert {one.remote_state for one in outcomes} == {Delivery.ACCEPTED}
    assert bodies(consumer.take(2)) == [FITS, FITS]
    assert consumer.nothing()
    [letter] = queue(peer, f"DLQ.topic/{topic}").take(1)
    assert body_of(letter) == MISFIT
    told = said(letter)
    assert abs(float(told.pop("at")) / 1_000 - time.time()) < 60
    assert told == {"topic": topic, "reason": "misfit", "description": f"'{topic}': {SENTENCE}"}


@pytest.mark.parametrize("validate", ["refuse", "dead-letter"])
def test_a_message_that_names_its_destination_is_checked(
    connect: Connect, manager: Manager, topic: str, validate: str
) -> None:
    """Messages of other topics in the same run aren't checked, and all keep their order."""
    manager.done("UPDATE", "schema", topic, **schema(validate=validate))
    peer = connect()
    consumers = {one: peer.shared_durable(one, f"{one}|global") for one in (topic, f"{topic}.free")}
    relay = peer.sender(None)
    peer.until(lambda: relay.link.credit >= 4, "credit")
    pairs = [(topic, FITS), (f"{topic}.free", MISFIT), (topic, MISFIT), (topic, b'{"id": 2}')]
    found = [relay.send(encoded(body, address=to)) for to, body in pairs]
    states = [relay.outcome(one) for one in found]
    third = Delivery.REJECTED if validate == "refuse" else Delivery.ACCEPTED
    assert states == [Delivery.ACCEPTED, Delivery.ACCEPTED, third, Delivery.ACCEPTED]
    assert bodies(consumers[topic].take(2)) == [FITS, b'{"id": 2}']
    assert bodies(consumers[f"{topic}.free"].take(1)) == [MISFIT]
    if validate == "refuse":
        assert why(found[2]) == f"'{topic}': {SENTENCE}"
    else:
        assert bodies(queue(peer, f"DLQ.topic/{topic}").take(1)) == [MISFIT]


@pytest.mark.parametrize("named", [True, False])
def test_a_refused_message_spoils_its_transaction(
    connect: Connect, manager: Manager, topic: str, jms: Jms, named: bool
) -> None:
    """Its sender may not have looked at the outcome: the commit fails with the refusal's reason,
    and nothing of it is published. The next one is a new one."""
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    consumer = connect().shared_durable(topic, f"{topic}|global")
    session = transacted(jms)
    handle = session.producer(topic if named else None)
    state = make("transactional-state", txn_id=session.id)

    def posted(*bodies: bytes) -> list[str]:
        messages = [encoded(one, address=None if named else topic) for one in bodies]
        ids = [session.transfer(handle, one, state=state) for one in messages]
        return [condition_of(session.answer(one)) for one in ids]

    assert posted(FITS) == [""]
    assert posted(MISFIT, FITS) == ["amqp:decode-error"] * 2
    assert session.roll_back() == ""
    state = make("transactional-state", txn_id=session.id)
    assert posted(FITS) == [""]
    assert posted(MISFIT) == ["amqp:decode-error"]
    assert session.commit() == "amqp:decode-error"
    assert consumer.nothing()
    state = make("transactional-state", txn_id=session.id)
    assert posted(b'{"id": 7}', b'{"id": 8}') == ["", ""]
    assert session.commit() == ""
    assert bodies(consumer.take(2)) == [b'{"id": 7}', b'{"id": 8}']
    assert consumer.nothing()


def test_a_commit_right_behind_its_messages_waits_for_their_check(
    connect: Connect, manager: Manager, topic: str, jms: Jms
) -> None:
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    consumer = connect().shared_durable(topic, f"{topic}|global")
    session = transacted(jms)
    handle = session.producer(topic)
    for number in range(5):
        state = make("transactional-state", txn_id=session.id)
        body = b'{"id": %d}' % number
        ids = [session.transfer(handle, encoded(one), state=state) for one in (body, MISFIT)]
        assert session.commit() == "amqp:decode-error"
        found = [condition_of(session.answer(one)) for one in ids]
        assert found[1] == "amqp:decode-error"
        state = make("transactional-state", txn_id=session.id)
        session.transfer(handle, encoded(body), state=state)
        assert session.commit() == ""
        assert bodies(consumer.take(1)) == [body]


def test_a_refusal_that_nobody_hears_spoils_its_transaction(
    connect: Connect, manager: Manager, topic: str, jms: Jms
) -> None:
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    consumer = connect().shared_durable(topic, f"{topic}|global")
    session = transacted(jms)
    handle = session.producer(topic)
    assert post(session, handle, FITS) == [""]
    state = make("transactional-state", txn_id=session.id)
    session.transfer(handle, encoded(MISFIT), state=state, settled=True)
    assert session.commit() == "amqp:decode-error"
    assert consumer.nothing()


def test_a_misfit_of_a_transaction_is_kept_with_its_commit(
    connect: Connect, manager: Manager, topic: str, jms: Jms
) -> None:
    manager.done("UPDATE", "schema", topic, **schema(validate="dead-letter"))
    peer = connect()
    letters = queue(peer, f"DLQ.topic/{topic}")
    session = transacted(jms)
    handle = session.producer(topic)
    assert post(session, handle, MISFIT) == [""]
    assert session.roll_back() == ""
    assert letters.nothing()
    assert post(session, handle, MISFIT, FITS) == ["", ""]
    assert session.commit() == ""
    assert bodies(letters.take(1)) == [MISFIT]


def test_a_delayed_message_is_checked_when_it_comes(
    connect: Connect, manager: Manager, topic: str
) -> None:
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    peer = connect()
    link = peer.sender(topic)
    peer.until(lambda: link.link.credit > 1, "credit")
    later = {symbol("x-opt-delivery-delay"): 60_000}
    found = [link.send(encoded(one, annotations=later)) for one in (FITS, MISFIT)]
    assert [link.outcome(one) for one in found] == [Delivery.ACCEPTED, Delivery.REJECTED]


@pytest.fixture
def routed(own_gateway: Make, tmp_path: Path) -> Gateway:
    file = tmp_path / "policies.toml"
    file.write_text(
        """
[[topic]]
match = "raw"
routes = ["orders", "queue://all"]
[[topic]]
match = "orders"
dead_letter_address = "odd-ones"
"""
    )
    return own_gateway({"delivery": {"policies": str(file)}}).start()


@pytest.mark.parametrize("validate", ["refuse", "dead-letter"])
def test_a_routed_copy_that_does_not_fit_is_kept(
    routed: Gateway, connect: Connect, validate: str
) -> None:
    """Its publisher sent it to another topic, which takes it."""
    peer = connect(port=routed.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate=validate))
    orders = peer.shared_durable("orders", "orders|global")
    raw = peer.shared_durable("raw", "raw|global")
    everything = queue(peer, "all")
    outcomes = sent(peer, "raw", FITS, MISFIT, FITS)
    assert {one.remote_state for one in outcomes} == {Delivery.ACCEPTED}
    for all_of_it in (raw, everything):
        assert bodies(all_of_it.take(3)) == [FITS, MISFIT, FITS]
    assert bodies(orders.take(2)) == [FITS, FITS]
    [letter] = queue(peer, "odd-ones").take(1)
    assert body_of(letter) == MISFIT
    assert said(letter)["topic"] == "orders"


def test_misfits_go_back_when_the_schema_allows_them(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Until then they stay, and the answer says why. All subscriptions of the topic get them: it
    is the first time that they are messages of it."""
    manager.done("UPDATE", "schema", topic, **schema(validate="dead-letter"))
    peer = connect()
    consumers = [peer.shared_durable(topic, f"{topic}.{one}|global") for one in "ab"]
    sent(peer, topic, MISFIT, FITS)
    for one in consumers:
        one.settle(one.take(1))
    letters = f"DLQ.topic/{topic}"
    done = manager.done("REDRIVE", "queue", letters)
    assert (done["redriven"], done["stayed"], done["misfits"]) == (0, 1, 1)
    both = {**ORDER, "properties": {"id": {"type": ["integer", "string"]}}}
    manager.done("UPDATE", "schema", topic, **schema(both, validate="dead-letter"))
    done = manager.done("REDRIVE", "queue", letters)
    assert (done["redriven"], done["stayed"], done["misfits"]) == (1, 0, 0)
    for one in consumers:
        [got] = one.take(1)
        assert body_of(got) == MISFIT
        assert not said(got)


def test_a_dead_letter_of_a_subscription_goes_back_if_it_fits(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """It became one before there was a schema; into the dead letters it goes unchecked."""
    peer = connect()
    consumer = peer.shared_durable(topic, f"{topic}|global")
    sent(peer, topic, MISFIT, FITS)
    manager.done("UPDATE", "schema", f"queue://DLQ.global/{topic}", **schema(validate="refuse"))
    consumer.confirm(consumer.take(2), Delivery.REJECTED)
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    done = manager.done("REDRIVE", "subscription", f"global/{topic}")
    assert (done["redriven"], done["stayed"], done["misfits"]) == (1, 1, 1)
    assert bodies(consumer.take(1)) == [FITS]


def test_a_dead_letter_stays_whose_subscription_ends_while_it_is_checked(
    own_gateway: Make, connect: Connect
) -> None:
    gateway = own_gateway({"schemas": {"check_ms_max": 60_000}}).start()
    peer, asking, ending = (connect(port=gateway.port) for _ in range(3))
    manager, name = Manager(asking), "global/orders"
    manager.done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    consumer = peer.shared_durable("orders", "orders|global")
    sent(peer, "orders", FITS)
    consumer.confirm(consumer.take(1), Delivery.REJECTED)
    [pid] = checkers(gateway)
    os.kill(pid, signal.SIGSTOP)
    number = manager.send("REDRIVE", "subscription", name)
    asking.heard()
    Manager(ending).done("DELETE", "subscription", name, force=True)
    os.kill(pid, signal.SIGCONT)
    done = manager.answer(number).body
    assert (done["redriven"], done["stayed"], done["misfits"]) == (0, 1, 0)
    assert bodies(queue(peer, f"DLQ.{name}").take(1)) == [FITS]


def test_accepted_misfits_outlive_a_kill_and_are_there_once(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """Killed while messages are checked and written: each misfit that was accepted is among the
    dead letters once, also where its publisher sends all of it again with the same ids."""
    file = tmp_path / "policies.toml"
    lines = '[[topic]]\nmatch = "{}"\nduplicates_messages = 10_000\n'
    file.write_text(lines.format("orders") + lines.format("queue://DLQ.*"))
    gateway = own_gateway({"delivery": {"policies": str(file)}}).start()
    Manager(connect(port=gateway.port)).done(
        "UPDATE", "schema", "orders", **schema(validate="dead-letter")
    )
    messages = [encoded(b'{"id": "%d"}' % one, id=f"m{one}") for one in range(300)]
    accepted: set[int] = set()
    for until in (50, 200, len(messages)):
        peer = connect(port=gateway.port)
        link = peer.sender("orders")
        waiting: dict[int, Delivery] = {}
        for nth, message in enumerate(messages):
            peer.until(lambda link=link: link.link.credit > 0, "credit")
            waiting[nth] = link.send(message)
            if len(waiting) == until:
                break
        link.outcome(waiting[until // 2])
        gateway.kill()
        accepted |= {nth for nth, one in waiting.items() if one.remote_state == Delivery.ACCEPTED}
        gateway.start()
    peer = connect(port=gateway.port)
    link = peer.sender("orders")
    link.publish_data(messages)
    letters = queue(peer, "DLQ.topic/orders")
    found = bodies(letters.take(len(messages)))
    assert letters.nothing()
    assert accepted
    assert sorted(found) == sorted(b'{"id": "%d"}' % one for one in range(len(messages)))


def test_a_publisher_that_leaves_meanwhile_harms_nobody(
    own_gateway: Make, connect: Connect
) -> None:
    """Its connection and its transaction are gone when its messages have been checked."""
    gateway = own_gateway({"schemas": {"check_ms_max": 2_000}}).start()
    Manager(connect(port=gateway.port)).done(
        "UPDATE", "schema", "orders", **schema(validate="refuse")
    )
    peer = connect(port=gateway.port)
    assert sent(peer, "orders", FITS)[0].remote_state == Delivery.ACCEPTED
    [pid] = checkers(gateway)
    os.kill(pid, signal.SIGSTOP)
    leaver = connect(port=gateway.port)
    link = leaver.sender("orders")
    leaver.until(lambda: link.link.credit > 2, "credit")
    for body in (FITS, MISFIT):
        link.send(encoded(body))
    leaver.write()
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        handle = session.producer("orders")
        state = make("transactional-state", txn_id=session.id)
        for body in (FITS, MISFIT):
            session.transfer(handle, encoded(body), state=state)
        session.send_discharge(fail=False)
    leaver.drop()
    again = sent(peer, "orders", FITS, MISFIT)
    assert [one.remote_state for one in again] == [Delivery.ACCEPTED, Delivery.REJECTED]
    assert not gateway.events("connection.bug")


def test_a_queue_that_is_deleted_while_a_message_to_it_is_checked_is_made_again(
    own_gateway: Make, connect: Connect
) -> None:
    """As for a message that comes after the deletion: one that is accepted is owed."""
    gateway = own_gateway({"schemas": {"check_ms_max": 60_000}}).start()
    peer, to = connect(port=gateway.port), "queue://orders"
    manager = Manager(connect(port=gateway.port))
    manager.done("UPDATE", "schema", to, **schema(validate="refuse"))
    relay = peer.sender(None)
    peer.until(lambda: relay.link.credit > 1, "credit")
    assert relay.outcome(relay.send(encoded(FITS, address=to))) == Delivery.ACCEPTED
    [pid] = checkers(gateway)
    os.kill(pid, signal.SIGSTOP)
    later = relay.send(encoded(b'{"id": 2}', address=to))
    peer.heard()
    manager.done("DELETE", "queue", "orders", force=True)
    os.kill(pid, signal.SIGCONT)
    assert relay.outcome(later) == Delivery.ACCEPTED
    assert bodies(queue(peer, "orders").take(1)) == [b'{"id": 2}']
