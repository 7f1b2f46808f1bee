"""Transactions where operators have decided something: duplicates, full backlogs, dead letters."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_fields import make
from gateway_jms import QUEUE, Jms, source, text_message, text_of
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway
from gateway_schemas import schema
from gateway_transactions import Transacted, condition_of, transacted
from test_frames_deliveries import count_of

Make = Callable[..., Gateway]

POLICIES = """
[[topic]]
match = "once"
duplicates_messages = 1000
[[topic]]
match = "queue://again"
duplicates_messages = 1000
[[subscription]]
match = "queue/again"
backlog_messages_max = 2
[[subscription]]
match = "queue/small"
backlog_messages_max = 2
[[subscription]]
match = "queue/tried"
delivery_attempts_max = 2
[[subscription]]
match = "queue/locked"
lock_ms = 1_500
[[subscription]]
match = "queue/held"
lock_ms = 60_000
"""


@pytest.fixture
def ruled(own_gateway: Make, tmp_path: Path) -> Gateway:
    """A gateway with these policies."""
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    return own_gateway({"delivery": {"policies": str(file)}}).start()


def post(session: Transacted, handle: int, body: str, number: int) -> None:
    """Post a message with an id of this number, from 0 to 9."""
    payload = text_message(body).replace(b"0001:1-1", b"0001:1-%d" % number)
    state = make("transactional-state", txn_id=session.id)
    assert condition_of(session.answer(session.transfer(handle, payload, state=state))) == ""


def test_a_duplicate_is_what_was_committed_before(ruled: Gateway) -> None:
    """A message rolled back was never there: sent again it is new. So a client that lost the answer
    to a commit can do all of it once more."""
    with Jms(ruled.port) as jms, Jms(ruled.port, "c") as other:
        other.subscribed("N", source("once", durable=True))
        session = transacted(jms)
        to = session.producer("once")
        post(session, to, "one", 1)
        assert session.roll_back() == ""
        for _ in range(2):
            post(session, to, "one", 1)
            assert session.commit() == ""
        post(session, to, "one", 1)
        post(session, to, "two", 2)
        post(session, to, "two", 2)
        assert session.commit() == ""
        other.credit(5)
        assert other.bodies(2) == ["one", "two"]
        assert other.empty(count=2)


def test_what_goes_to_a_full_backlog_fails_the_commit(ruled: Gateway) -> None:
    """All of it: nothing else of the transaction was done. What fits is committed later."""
    with Jms(ruled.port) as jms, Jms(ruled.port, "c") as other:
        other.subscribed("N", source("other", durable=True))
        session = transacted(jms)
        small, also = session.producer("small", QUEUE), session.producer("other")
        for count, condition in ((3, "amqp:resource-limit-exceeded"), (2, "")):
            for nth in range(count):
                post(session, small, f"{count}", nth)
            post(session, also, f"{count}", 9)
            assert session.commit() == condition
        post(session, small, "too much", 8)
        assert session.commit() == "amqp:resource-limit-exceeded"
        other.credit(2)
        assert other.bodies(1) == ["2"]
        assert other.empty(count=1)
        other.subscribed("small", source("small", QUEUE), handle=1)
        other.credit(5, handle=1)
        assert other.bodies(2) == ["2", "2"]
        post(session, small, "fits again", 8)
        assert session.commit() == ""
        assert other.bodies(1) == ["fits again"]


def test_what_is_rejected_in_a_transaction_is_buried_by_its_commit(ruled: Gateway) -> None:
    """Not by a rollback."""
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        other.publish("work", "bad", capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source("work", QUEUE), 1)
        rejected = make("rejected", error=make("error", condition="x:y"))
        session.retire(session.transfers(1)[0], outcome=rejected)
        assert session.roll_back() == ""
        jms.credit(1, handle=handle, channel=session.channel, count=1)
        [again] = session.transfers(1)
        assert count_of(again) == 1
        session.retire(again, outcome=rejected)
        assert session.commit() == ""
        other.subscribed("dead", source("DLQ.queue/work", QUEUE))
        other.credit(1)
        assert other.bodies(1) == ["bad"]


def test_rollbacks_are_failed_attempts(ruled: Gateway) -> None:
    """A message that was rolled back as often as it may fail goes to the dead letters."""
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        other.publish("tried", "poison", capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source("tried", QUEUE), 1)
        for nth in range(2):
            [one] = session.transfers(1)
            assert (text_of(one.payload), count_of(one)) == ("poison", nth)
            session.retire(one)
            assert session.roll_back() == ""
            jms.credit(1, handle=handle, channel=session.channel, count=nth + 1)
        other.subscribed("dead", source("DLQ.queue/tried", QUEUE))
        other.credit(1)
        assert other.bodies(1) == ["poison"]
        assert session.commit() == ""


def test_what_somebody_else_was_given_cant_be_committed(ruled: Gateway) -> None:
    """A lock has ended before the delivery was settled in the transaction: its commit fails, with
    what it posted, or the work would be done twice. A lock doesn't end what was settled in time."""
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        other.publish("locked", "work", capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source("locked", QUEUE), 1)
        to = session.producer("done", QUEUE)
        [work] = session.transfers(1)
        other.subscribed("q", source("locked", QUEUE))
        other.credit(1)
        [taken] = other.expect("transfer")
        post(session, to, "done", 1)
        session.retire(work)
        assert session.commit() == "amqp:illegal-state"
        other.settle(taken, None, make("released"))
        other.detach(closed=True)
        other.expect("detach")
        jms.credit(1, handle=handle, channel=session.channel, count=1)
        [work] = session.transfers(1)
        session.retire(work)
        post(session, to, "done", 2)
        other.subscribed("q", source("locked", QUEUE), handle=1)
        assert other.empty(handle=1)
        time.sleep(2)  # the stimulus: longer than a lock
        assert session.commit() == ""
        other.subscribed("done", source("done", QUEUE), handle=2)
        other.credit(2, handle=2)
        assert other.bodies(1) == ["done"]
        assert other.empty(handle=2, count=1)


def test_what_a_rollback_gives_back_may_be_settled_under_its_new_lock(ruled: Gateway) -> None:
    """In a transaction or in none: the outcome is for this delivery, though its lock is another
    one than before."""
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        other.publish("held", "plain", "in a transaction", capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source("held", QUEUE), 2)
        plain, transacted_one = session.transfers(2)
        session.retire(plain, transacted_one, settled=False)
        assert session.roll_back() == ""
        jms.settle(plain, None, make("accepted"), channel=session.channel)
        session.retire(transacted_one)
        assert session.commit() == ""
        jms.detach(handle=handle, channel=session.channel, closed=True)
        session.until("detach")
        other.subscribed("q", source("held", QUEUE))
        assert other.empty()


def test_a_request_is_no_part_of_a_transaction(ruled: Gateway, connect: Connect) -> None:
    """A rollback couldn't take it back. It is refused, isn't done, and the commit fails with all
    that was to be done with it; a request without a transaction on the same link is done."""
    said = {"operation": "CREATE", "type": "queue", "name": "made"}
    request = encoded({}, properties=said, id="1", reply_to="queue://answers")
    manager = Manager(connect(port=ruled.port))
    with Jms(ruled.port) as jms:
        session = transacted(jms)
        node, to = session.producer("$management", ()), session.producer("done", QUEUE)
        post(session, to, "done", 1)
        state = make("transactional-state", txn_id=session.id)
        refused = session.answer(session.transfer(node, request, state=state))
        assert condition_of(refused) == "amqp:not-implemented"
        assert session.commit() == "amqp:not-implemented"
        assert manager.ask("READ", "queue", "made").status == 404
        assert session.answer(session.transfer(node, request)).kind == "accepted"
        session.consumer("q", source("answers", QUEUE), 1)
        session.transfers(1)
        assert manager.done("READ", "queue", "made")["backlog"] == 0
        assert manager.done("READ", "queue", "done")["backlog"] == 0


def test_the_lock_of_what_a_rollback_gave_back_ends_in_its_time(ruled: Gateway) -> None:
    """The transaction took longer than the lock before, and nothing else happens on the queue: a
    waiting consumer gets the message that the other one doesn't settle."""
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        other.publish("locked", "work", capabilities=QUEUE)
        session = transacted(jms)
        session.consumer("q", source("locked", QUEUE), 1)
        [work] = session.transfers(1)
        other.subscribed("q", source("locked", QUEUE))
        other.credit(1)
        session.retire(work, settled=False)
        time.sleep(2)  # the stimulus: longer than a lock
        assert session.roll_back() == ""
        [again] = other.expect("transfer")
        assert count_of(again) == 1


def test_a_commit_that_is_done_once_more_needs_no_room(ruled: Gateway) -> None:
    """The answer to the first commit was lost: a rejection of the second one would say that it was
    rolled back. With a new message it is, as there is no room."""
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        session = transacted(jms)
        to = session.producer("again", QUEUE)
        full = "amqp:resource-limit-exceeded"
        for numbers, said in (((1, 2, 1), ""), ((1, 2), ""), ((1, 3), full)):
            for number in numbers:
                post(session, to, str(number), number)
            assert session.commit() == said
        other.subscribed("q", source("again", QUEUE))
        other.credit(3)
        assert other.bodies(2) == ["1", "2"]


@pytest.mark.parametrize("validate", ["refuse", "dead-letter"])
def test_a_commit_that_is_done_once_more_needs_not_fit_a_later_schema(
    ruled: Gateway, connect: Connect, validate: str
) -> None:
    """A schema was set between a commit, whose answer was lost, and the same once more: it is
    accepted, though nothing else is done in it, and no dead letter is made. What is new is
    checked."""
    manager = Manager(connect(port=ruled.port))
    with Jms(ruled.port) as jms, Jms(ruled.port) as other:
        session = transacted(jms)
        to = session.producer("again", QUEUE)
        post(session, to, "1", 1)
        assert session.commit() == ""
        manager.done("UPDATE", "schema", "queue://again", **schema(validate=validate))
        post(session, to, "1", 1)
        assert session.commit() == ""
        refused = "amqp:decode-error" if validate == "refuse" else ""
        post(session, to, "1", 1)
        payload = text_message("2").replace(b"0001:1-1", b"0001:1-2")
        state = make("transactional-state", txn_id=session.id)
        assert condition_of(session.answer(session.transfer(to, payload, state=state))) == refused
        assert session.commit() == refused
        other.subscribed("q", source("again", QUEUE))
        other.credit(3)
        assert other.bodies(1) == ["1"]
        assert other.empty(count=1)
    letters = connect(port=ruled.port).receiver("DLQ.queue/again", capabilities=("queue",))
    assert len(letters.take(0 if refused else 1)) == (not refused)
    assert letters.nothing()


@pytest.mark.parametrize("committed", [True, False])
def test_a_group_waits_for_the_transaction_of_a_consumer_that_went(
    ruled: Gateway, connect: Connect, committed: bool
) -> None:
    """The next consumer gets what comes behind in the group when the transaction has ended, though
    nothing else happens on the queue; a rollback's message comes first."""
    peer = connect(port=ruled.port)
    sender = peer.sender("queue://grouped")
    groups = [("first", "g"), ("second", "g"), ("of another", "h")]
    sender.publish_data([encoded(body, group_id=group) for body, group in groups])
    with Jms(ruled.port) as jms:
        session = transacted(jms)
        handle = session.consumer("q", source("grouped", QUEUE), 1)
        session.retire(session.transfers(1)[0])
        jms.detach(closed=True, handle=handle, channel=session.channel)
        session.until("detach")
        receiver = peer.receiver("queue://grouped", capabilities=("queue",))
        assert receiver.bodies(1) == ["of another"]
        assert receiver.nothing()
        receiver.link.flow(3)
        peer.heard()
        assert (session.commit() if committed else session.roll_back()) == ""
        expected = ["second"] if committed else ["first", "second"]
        assert [one.body for one in receiver.take(len(expected), credit=False)] == expected
