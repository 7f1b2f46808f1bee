"""Local transactions, frame by frame as the Qpid JMS client sends them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from gateway_fields import Fields, make
from gateway_frames import frame_of
from gateway_jms import QUEUE, Jms, delivery, producer, source, text_message, text_of
from gateway_process import Gateway, past, until
from gateway_transactions import (
    COORDINATOR_HANDLE,
    Transacted,
    condition_of,
    transacted,
    value_of,
)
from proton import Described, symbol
from test_frames_deliveries import count_of

Make = Callable[..., Gateway]
pytestmark = pytest.mark.usefixtures("unharmed")

UNKNOWN = "amqp:transaction:unknown-id"


def durable(topic: str) -> Described:
    return source(topic, durable=True)


@contextmanager
def posting(gateway: Gateway, topic: str) -> Iterator[tuple[Jms, Transacted, int, Jms]]:
    """A connection with a session in a transaction, its producer for the topic, and another
    connection with a durable subscriber."""
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        other.subscribed("N", durable(topic))
        session = transacted(jms)
        yield jms, session, session.producer(topic), other


def test_what_is_posted_is_seen_after_the_commit_and_not_before(
    gateway: Gateway, topic: str
) -> None:
    """Its sender hears at once what becomes of it then; the messages keep their order."""
    with posting(gateway, topic) as (_, session, to, other):
        for id_ in session.post(to, *range(5)):
            state = session.answer(id_)
            assert (state.kind, state["txn-id"]) == ("transactional-state", session.id)
            assert condition_of(state) == ""
        assert other.empty()
        assert session.commit() == ""
        other.credit(5, count=1)
        assert other.bodies(5) == [0, 1, 2, 3, 4]


def test_what_is_rolled_back_never_was(gateway: Gateway, topic: str) -> None:
    """The next transaction's messages come, and no others."""
    with posting(gateway, topic) as (_, session, to, other):
        session.post(to, "rolled back")
        assert session.roll_back() == ""
        session.post(to, "committed")
        assert session.commit() == ""
        other.credit(2)
        assert other.bodies(1) == ["committed"]
        assert other.empty(count=1)


def test_a_commit_is_one_for_all_topics_and_subscriptions(gateway: Gateway, topic: str) -> None:
    """Two topics, a queue and a retired delivery: none of it before, all of it after."""
    topics = [f"{topic}-a", f"{topic}-b"]
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        for handle, name in enumerate(topics):
            other.subscribed(name, durable(name), handle=handle)
        other.publish(topic, "work", capabilities=QUEUE)
        session = transacted(jms)
        session.consumer("q", source(topic, QUEUE), 1)
        [work] = session.transfers(1)
        session.retire(work)
        for name in topics:
            session.post(session.producer(name), f"to {name}")
        session.post(session.producer(f"{topic}-q", QUEUE), "to the queue")
        other.subscribed("q", source(f"{topic}-q", QUEUE), handle=2)
        assert all(other.empty(handle=handle) for handle in range(3))
        assert session.commit() == ""
        for handle, body in enumerate([*(f"to {name}" for name in topics), "to the queue"]):
            other.credit(1, handle=handle, count=1)
            assert other.bodies(1) == [body]
        session.jms.detach(closed=True, handle=1, channel=session.channel)
        session.until("detach")
        other.subscribed("work", source(topic, QUEUE), handle=3)
        assert other.empty(handle=3)


def test_what_was_retired_comes_back_in_its_place(gateway: Gateway, topic: str) -> None:
    """As JMS clients roll back: drained first, then what was prefetched and not seen is released.
    All of it comes again in the old order, and counted is what was seen."""
    with Jms(gateway.port, topic) as jms:
        jms.publish(topic, *range(6), capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source(topic, QUEUE), 6)
        came = session.transfers(6)
        for one in came[:3]:
            session.retire(one)
        jms.credit(10, handle=handle, channel=session.channel, count=6, drain=True)
        session.until("flow")
        assert session.roll_back() == ""
        jms.settle(came[3], came[-1], make("released"), channel=session.channel)
        jms.credit(10, handle=handle, channel=session.channel, count=16)
        again = session.transfers(6)
        assert [text_of(one.payload) for one in again] == list(range(6))
        assert [count_of(one) for one in again] == [1, 1, 1, 0, 0, 0]
        session.retire(again[0], again[-1])
        assert session.commit() == ""
        jms.detach(closed=True, handle=handle, channel=session.channel)
        session.until("detach")
        jms.subscribed("q", source(topic, QUEUE))
        assert jms.empty()


def test_what_is_retired_is_nobody_elses_until_the_end(gateway: Gateway, topic: str) -> None:
    """Not even when its consumer has gone: the transaction has it."""
    with Jms(gateway.port) as jms, Jms(gateway.port) as other:
        other.publish(topic, "one", capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source(topic, QUEUE), 1)
        [one] = session.transfers(1)
        session.retire(one)
        jms.detach(closed=True, handle=handle, channel=session.channel)
        session.until("detach")
        other.subscribed("q", source(topic, QUEUE))
        assert other.empty()
        assert session.roll_back() == ""
        other.credit(1, count=1)
        [again] = other.expect("transfer")
        assert count_of(again) == 1


ENDS = ("session", "connection", "socket", "coordinator")


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_undischarged_is_rolled_back(gateway: Gateway, topic: str, end: str) -> None:
    """Its messages never were, what it retired comes again, counted; prefetch comes uncounted, but
    for that of a lost connection, which may have been seen."""
    with Jms(gateway.port) as other:
        other.publish(topic, 0, 1, 2, capabilities=QUEUE)
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            session.consumer("q", source(topic, QUEUE), 3)
            seen, *_ = session.transfers(3)
            session.retire(seen)
            session.post(session.producer(f"{topic}-to", QUEUE), "never")
            match end:
                case "session":
                    jms.send(frame_of("end", channel=session.channel))
                    session.until("end")
                case "connection":
                    jms.send(frame_of("close"))
                    session.until("close")
                case "coordinator":
                    jms.detach(closed=True, handle=COORDINATOR_HANDLE, channel=session.channel)
                    session.until("detach")
                    jms.send(frame_of("end", channel=session.channel))
                    session.until("end")
                case _:
                    jms.heard()
        other.subscribed("q", source(topic, QUEUE))
        other.credit(3)
        again = other.expect(*["transfer"] * 3)
        assert [text_of(one.payload) for one in again] == [0, 1, 2]
        assert [count_of(one) for one in again] == ([1, 1, 1] if end == "socket" else [1, 0, 0])
        other.subscribed("to", source(f"{topic}-to", QUEUE), handle=1)
        assert other.empty(handle=1)


def test_transactions_of_one_connection_keep_apart(gateway: Gateway, topic: str) -> None:
    """Two on one session, one on another; each ends by itself, in any order."""
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        other.subscribed("N", durable(topic))
        one, two = transacted(jms), transacted(jms)
        first, to, also = one.id, one.producer(topic), two.producer(topic)
        second = one.declare()
        assert len({first, second, two.id}) == 3
        one.post(to, "first", of=first)
        one.post(to, "second", of=second)
        two.post(also, "two")
        two.post(also, "first, from the other session", of=first)
        assert two.roll_back() == ""
        state = one.answer(one.send_discharge(fail=False, of=second))
        assert condition_of(state) == ""
        state = one.answer(one.send_discharge(fail=False, of=first))
        assert condition_of(state) == ""
        other.credit(4)
        assert other.bodies(3) == ["second", "first", "first, from the other session"]
        assert other.empty(count=3)


def test_outside_a_transaction_all_is_as_ever(gateway: Gateway, topic: str) -> None:
    """Messages and outcomes between those of a transaction, on the same links."""
    with posting(gateway, topic) as (_, session, to, other):
        session.post(to, "in 1")
        outside = session.transfer(to, text_message("outside"))
        session.post(to, "in 2")
        assert session.answer(outside).kind == "accepted"
        other.credit(1)
        assert other.bodies(1) == ["outside"]
        assert session.commit() == ""
        other.credit(2, count=1)
        assert other.bodies(2) == ["in 1", "in 2"]


@pytest.mark.parametrize("outcome", ["rejected", "released", "modified", "failed"])
def test_every_outcome_may_be_one_of_a_transaction(
    gateway: Gateway, topic: str, outcome: str
) -> None:
    """It comes to be at the commit, as it would have at once."""
    states = {
        "rejected": (make("rejected", error=make("error", condition="x:y")), []),
        "released": (make("released"), [0]),
        "modified": (make("modified", delivery_failed=False), [0]),
        "failed": (make("modified", delivery_failed=True), [1]),
    }
    state, counts = states[outcome]
    with Jms(gateway.port) as jms, Jms(gateway.port) as other:
        other.publish(topic, "one", capabilities=QUEUE)
        other.subscribed("q", source(topic, QUEUE))
        session = transacted(jms)
        session.consumer("q", source(topic, QUEUE), 1)
        session.retire(session.transfers(1)[0], outcome=state)
        assert other.empty()
        assert session.commit() == ""
        other.credit(1, count=1, drain=True)
        [came] = other.expect("transfer" if counts else "flow")
        assert not counts or [count_of(came)] == counts


def test_outcomes_by_name_are_those_by_number(gateway: Gateway, topic: str) -> None:
    """In a transaction, too, and for its own state."""
    with Jms(gateway.port) as jms:
        jms.publish(topic, 0, 1, capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source(topic, QUEUE), 2)
        first, second = session.transfers(2)
        accepted = Described(symbol("amqp:accepted:list"), [])
        session.retire(first, outcome=accepted)
        state = Described(symbol("amqp:transactional-state:list"), [session.id, accepted])
        jms.settle(second, None, state, channel=session.channel)
        assert session.commit() == ""
        jms.detach(closed=True, handle=handle, channel=session.channel)
        session.until("detach")
        jms.subscribed("q", source(topic, QUEUE))
        assert jms.empty()


def test_what_is_retired_unsettled_is_settled_by_the_commit(gateway: Gateway, topic: str) -> None:
    """Its peer hears the outcome in the transaction, when it is durable."""
    with Jms(gateway.port) as jms:
        jms.publish(topic, 0, 1, 2, capabilities=QUEUE)
        session = transacted(jms)
        session.consumer("q", source(topic, QUEUE), 3)
        first, *_, last = session.transfers(3)
        session.retire(first, last, settled=False)
        discharge = session.send_discharge(fail=False)
        settled = []
        while len(settled) < 3:
            [one] = session.until("disposition")
            if not one["role"]:
                state = one["state"]
                assert isinstance(state, Fields)
                assert (one["settled"], state.kind) == (True, "transactional-state")
                assert state["txn-id"] == session.id
                settled.append(one["first"])
        assert condition_of(session.answer(discharge)) == ""


def test_what_is_retired_unsettled_is_its_peers_again_after_a_rollback(
    gateway: Gateway, topic: str
) -> None:
    """It may get another outcome, in another transaction or in none."""
    with Jms(gateway.port) as jms:
        jms.publish(topic, 0, 1, 2, capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source(topic, QUEUE), 3)
        came = session.transfers(3)
        session.retire(came[0], came[-1], settled=False)
        assert session.roll_back() == ""
        session.retire(came[0])
        jms.settle(came[1], None, make("accepted"), channel=session.channel)
        jms.settle(came[2], None, make("released"), channel=session.channel)
        assert session.commit() == ""
        jms.credit(5, handle=handle, channel=session.channel, count=3, drain=True)
        [again] = session.transfers(1)
        assert (text_of(again.payload), count_of(again)) == (2, 0)


def test_what_was_settled_since_comes_back_after_a_rollback(gateway: Gateway, topic: str) -> None:
    """Retired unsettled, then settled within the transaction: it can't be its peer's again."""
    with Jms(gateway.port) as jms:
        jms.publish(topic, 0, 1, capabilities=QUEUE)
        session = transacted(jms)
        handle = session.consumer("q", source(topic, QUEUE), 2)
        first, second = session.transfers(2)
        session.retire(first, second, settled=False)
        session.retire(first)
        assert session.roll_back() == ""
        jms.credit(1, handle=handle, channel=session.channel, count=2)
        [again] = session.transfers(1)
        assert (text_of(again.payload), count_of(again)) == (0, 1)
        session.retire(second)
        session.retire(again)
        assert session.commit() == ""


def test_presettled_messages_are_posted_too(gateway: Gateway, topic: str) -> None:
    """They have no outcome; they are in the commit, or not."""
    with posting(gateway, topic) as (_, session, to, other):
        for body, commit in (("no", False), ("yes", True)):
            state = make("transactional-state", txn_id=session.id)
            session.transfer(to, text_message(body), state=state, settled=True)
            assert (session.commit() if commit else session.roll_back()) == ""
        other.credit(2)
        assert other.bodies(1) == ["yes"]
        assert other.empty(count=1)


def test_the_relay_posts_where_each_message_says(gateway: Gateway, topic: str) -> None:
    """A message without a destination is rejected, and then its transaction can't be committed."""
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        for nth, name in enumerate(("a", "b")):
            other.subscribed(name, durable(f"{topic}-{name}"), handle=nth)
        session = transacted(jms)
        relay = session.producer(None)
        state = make("transactional-state", txn_id=session.id)
        for name in ("a", "b"):
            session.transfer(relay, text_message(name, f"{topic}-{name}"), state=state)
        assert session.commit() == ""
        for nth, name in enumerate(("a", "b")):
            other.credit(1, handle=nth)
            assert other.bodies(1) == [name]
        state = make("transactional-state", txn_id=session.id)
        good = session.transfer(relay, text_message("good", f"{topic}-a"), state=state)
        bad = session.transfer(relay, text_message("bad", ""), state=state)
        assert condition_of(session.answer(good)) in ("", "amqp:not-found")
        assert condition_of(session.answer(bad)) == "amqp:not-found"
        after = session.transfer(relay, text_message("after", f"{topic}-a"), state=state)
        assert condition_of(session.answer(after)) == "amqp:not-found"
        assert session.commit() == "amqp:not-found"
        assert other.empty(count=1)
        state = make("transactional-state", txn_id=session.id)
        session.transfer(relay, text_message("again", f"{topic}-a"), state=state)
        assert session.commit() == ""
        other.credit(1, count=2)
        assert other.bodies(1) == ["again"]


def test_a_finished_transaction_is_unknown(gateway: Gateway, topic: str) -> None:
    """Its discharge is rejected; a message in it ends its link, an outcome in it its consumer's,
    whose messages go back, marked. The condition isn't the one that leaves JMS clients in doubt."""
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        other.subscribed("N", durable(topic))
        other.publish(f"{topic}-q", "kept", capabilities=QUEUE)
        session = transacted(jms)
        old = session.id
        to = session.producer(topic)
        session.consumer("q", source(f"{topic}-q", QUEUE), 1)
        [kept] = session.transfers(1)
        assert session.commit() == ""
        for fail in (False, True):
            state = session.answer(session.send_discharge(fail=fail, of=old))
            assert condition_of(state) == UNKNOWN
        session.post(to, "late", of=old)
        [detach] = session.until("detach")
        assert (detach["closed"], detach.error) == (True, UNKNOWN)
        session.retire(kept, of=b"?")
        [detach] = session.until("detach")
        assert (detach["closed"], detach.error) == (True, UNKNOWN)
        assert other.empty()
        other.subscribed("q", source(f"{topic}-q", QUEUE), handle=1)
        other.credit(1, handle=1)
        [again] = other.expect("transfer")
        assert (text_of(again.payload), count_of(again)) == ("kept", 1)


def test_another_connections_transaction_is_unknown(gateway: Gateway, topic: str) -> None:
    """A client that guesses an id changes nothing."""
    with Jms(gateway.port) as jms, Jms(gateway.port) as other, Jms(gateway.port, topic) as third:
        third.subscribed("N", durable(topic))
        session, stranger = transacted(jms), transacted(other)
        session.post(session.producer(topic), "mine")
        state = stranger.answer(stranger.send_discharge(fail=True, of=session.id))
        assert condition_of(state) == UNKNOWN
        assert session.commit() == ""
        third.credit(1)
        assert third.bodies(1) == ["mine"]


BAD = {
    "no command": text_message("text"),
    "another value": value_of(make("declared", txn_id=b"1")),
    "no message": b"\x00\x53",
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_command_ends_the_coordinators_link(
    gateway: Gateway, topic: str, kind: str
) -> None:
    """With what it declared; the session lives on, and may attach another."""
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        other.subscribed("N", durable(topic))
        session = transacted(jms)
        session.post(session.producer(topic), "never")
        session.transfer(COORDINATOR_HANDLE, BAD[kind])
        [detach] = session.until("detach")
        assert (detach["closed"], detach.error) == (True, "amqp:decode-error")
        jms.detach(closed=True, handle=COORDINATOR_HANDLE, channel=session.channel)
        again = Transacted(jms)
        again.declare()
        again.post(again.producer(topic), "yes")
        assert again.commit() == ""
        other.credit(2)
        assert other.bodies(1) == ["yes"]
        assert other.empty(count=1)


def test_a_distributed_transaction_is_refused(gateway: Gateway) -> None:
    """A declare with a global id is rejected; a link for nothing but such ones isn't attached."""
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        declare = value_of(make("declare", global_id=b"xa"))
        state = session.answer(session.transfer(COORDINATOR_HANDLE, declare))
        assert condition_of(state) == "amqp:not-implemented"
        target = make("coordinator", capabilities=["amqp:distributed-transactions"])
        jms.send(producer("x", target=target, handle=1, channel=session.channel, name="xa"))
        attach, detach = session.until("attach", "detach")
        assert (attach["target"], detach.error) == (None, "amqp:not-implemented")


def test_a_connection_may_have_so_many_transactions(own_gateway: Make) -> None:
    """The declare that is one too many is rejected; one that ends makes room."""
    limits = {"amqp": {"transactions_max": 2}}
    with own_gateway(limits) as gateway, Jms(gateway.port) as jms:
        one, two = transacted(jms), transacted(jms)
        state = two.answer(two.send_declare())
        assert condition_of(state) == "amqp:resource-limit-exceeded"
        with Jms(gateway.port) as other:
            transacted(other)
        assert condition_of(one.answer(one.send_discharge(fail=True))) == ""
        two.declare()


def test_a_message_of_many_frames_is_one_of_its_transaction(gateway: Gateway, topic: str) -> None:
    """Each of its frames says so, or the first alone."""
    body = "x" * 300_000
    with posting(gateway, topic) as (jms, session, to, other):
        for every in (True, False):
            state = make("transactional-state", txn_id=session.id)
            payload = text_message(body)
            session.deliveries += 1
            parts = [payload[at : at + 100_000] for at in range(0, len(payload), 100_000)]
            for nth, part in enumerate(parts):
                jms.send(frame_of("transfer", channel=session.channel, handle=to,
                                  delivery_id=session.deliveries if not nth else None,
                                  delivery_tag=b"t" if not nth else None, message_format=0,
                                  more=nth < len(parts) - 1,
                                  state=state if every or not nth else None,
                                  payload=part))  # fmt: skip
            assert condition_of(session.answer(session.deliveries)) == ""
            assert other.empty(count=0 if every else 2)
            assert session.commit() == ""
            other.credit(1, count=1 if every else 3)
            assert other.bodies(1) == [body]


def test_a_message_that_says_too_late_that_it_is_part_of_a_transaction_ends_its_link(
    gateway: Gateway, topic: str
) -> None:
    """It would be there whatever became of the transaction."""
    with posting(gateway, topic) as (jms, session, to, other):
        state = make("transactional-state", txn_id=session.id)
        payload = text_message("x" * 1_000)
        common = {"channel": session.channel, "handle": to, "message_format": 0}
        jms.send(
            frame_of("transfer", **common, delivery_id=2, delivery_tag=b"t", more=True,
                     payload=payload[:500]),
            frame_of("transfer", **common, state=state, payload=payload[500:]),
        )  # fmt: skip
        [detach] = session.until("detach")
        assert (detach["closed"], detach.error) == (True, "amqp:not-allowed")
        assert other.empty()


def test_messages_cant_be_acquired_in_a_transaction(gateway: Gateway, topic: str) -> None:
    """A flow that asks for it ends its link: nothing is sent as what it isn't."""
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        handle = session.consumer("c", source(topic), 0)
        jms.send(frame_of("flow", channel=session.channel, next_incoming_id=0,
                          incoming_window=2_047, next_outgoing_id=2, outgoing_window=2_047,
                          handle=handle, delivery_count=0, link_credit=1,
                          properties={symbol("txn-id"): session.id}))  # fmt: skip
        [detach] = session.until("detach")
        assert (detach["closed"], detach.error) == (True, "amqp:not-implemented")


def test_a_plain_delivery_has_no_state(gateway: Gateway, topic: str) -> None:
    """A producer that never heard of transactions, on the connection of one that did."""
    with Jms(gateway.port) as jms, Jms(gateway.port, topic) as other:
        other.subscribed("N", durable(topic))
        plain = jms.session()
        session = transacted(jms)
        session.post(session.producer(topic), "never")
        jms.send(producer(topic, channel=plain))
        session.until("attach", "flow")
        jms.send(delivery(1, text_message("now"), channel=plain))
        session.until("disposition")
        other.credit(1)
        assert other.bodies(1) == ["now"]
        assert session.roll_back() == ""


def test_a_transaction_holds_so_many_bytes(own_gateway: Make) -> None:
    """The message that is too much is rejected, and so is the commit, which loses no other's; the
    next transaction has all of the room again. A commit may be as large as a transaction."""
    limits = {"amqp": {"transaction_bytes_max": 100_000, "message_bytes_max": 90_000}}
    with own_gateway(limits) as gateway, Jms(gateway.port) as jms, Jms(gateway.port, "c") as other:
        other.subscribed("N", durable("t"))
        session = transacted(jms)
        to = session.producer("t")
        [first] = session.post(to, "a" * 60_000)
        assert condition_of(session.answer(first)) == ""
        [second] = session.post(to, "b" * 60_000)
        assert condition_of(session.answer(second)) == "amqp:resource-limit-exceeded"
        assert session.commit() == "amqp:resource-limit-exceeded"
        session.post(to, "c" * 80_000)
        assert session.commit() == ""
        other.credit(2)
        assert other.bodies(1) == ["c" * 80_000]
        assert other.empty(count=1)


def test_all_connections_transactions_hold_so_many_bytes(own_gateway: Make) -> None:
    """`amqp.transactions_together_bytes_max`: a transaction that wants more can only roll back,
    earlier ones go on; a connection that is lost gives its room back."""
    limits = {"transaction_bytes_max": 100_000, "transactions_together_bytes_max": 100_000}
    with own_gateway({"amqp": limits}) as gateway, Jms(gateway.port) as jms:
        session = transacted(jms)
        to = session.producer("t")
        with Jms(gateway.port, "c") as other:
            greedy = transacted(other)
            [first] = greedy.post(greedy.producer("t"), "a" * 60_000)
            assert condition_of(greedy.answer(first)) == ""
            [second] = session.post(to, "b" * 60_000)
            assert condition_of(session.answer(second)) == "amqp:resource-limit-exceeded"
            assert session.roll_back() == ""
        until(lambda: gateway.events("connection.closed"), "the other one is gone")
        session.post(to, "c" * 60_000)
        assert session.commit() == ""


def test_a_transaction_has_so_much_time(own_gateway: Make) -> None:
    """From its first work on: what it holds is given back then, and its commit fails. One in which
    nothing was done yet lasts."""
    limits = {"amqp": {"transaction_timeout_seconds": 1}}
    with own_gateway(limits) as gateway, Jms(gateway.port) as jms, Jms(gateway.port) as other:
        other.publish("q", "one", capabilities=QUEUE)
        idle, session = transacted(jms), transacted(jms)
        session.consumer("q", source("q", QUEUE), 1)
        began = time.monotonic()
        session.retire(session.transfers(1)[0])
        session.post(session.producer("q", QUEUE), "never")
        other.subscribed("q", source("q", QUEUE))
        other.credit(1)
        [one] = other.expect("transfer")
        assert time.monotonic() - began >= 0.99
        assert (text_of(one.payload), count_of(one)) == ("one", 1)
        other.settle(one, None, make("accepted"))
        assert session.commit() == "amqp:transaction:timeout"
        idle.post(idle.producer("q", QUEUE), "two")
        assert idle.commit() == ""
        other.credit(1, count=1)
        assert other.bodies(1) == ["two"]
        assert session.roll_back() == ""


def test_a_message_that_expires_before_the_commit_rolls_it_back(
    gateway: Gateway, topic: str
) -> None:
    """All of it: what was sent beside it never was, what was retired comes again. While it lasts
    the commit is as ever."""
    with posting(gateway, topic) as (jms, session, to, other):
        jms.publish(topic, "taken", capabilities=QUEUE)
        session.consumer("consumer", source(topic, QUEUE), 1)
        session.retire(session.transfers(1)[0])
        state = make("transactional-state", txn_id=session.id)
        session.post(to, "beside it")
        session.transfer(to, text_message("short", ttl=50), state=state)
        past(time.time() + 0.06)  # it began a moment later, where it arrived
        assert session.commit() == "amqp:transaction:timeout"
        other.credit(3)
        jms.credit(1, handle=session.links, channel=session.channel, count=1)
        [again] = session.transfers(1)
        assert (text_of(again.payload), count_of(again)) == ("taken", 1)
        session.retire(again)
        state = make("transactional-state", txn_id=session.id)
        session.transfer(to, text_message("long", ttl=60_000), state=state)
        assert session.commit() == ""
        assert other.bodies(1) == ["long"]


def test_what_was_open_at_a_kill_never_was(own_gateway: Make) -> None:
    """A persistent message that its sender was told will be accepted with the commit: it isn't
    there, its transaction is unknown, and what was retired comes again. All of it done once more
    is there once."""
    with own_gateway() as gateway:
        with Jms(gateway.port) as jms, Jms(gateway.port, "c") as other:
            other.subscribed("N", durable("t"))
            jms.publish("q", "taken", capabilities=QUEUE)
            session = transacted(jms)
            session.consumer("consumer", source("q", QUEUE), 1)
            session.retire(session.transfers(1)[0])
            [posted] = session.post(session.producer("t"), "never")
            assert condition_of(session.answer(posted)) == ""
            jms.publish("other", "written after it")
            gateway.kill()
        gateway.start()
        with Jms(gateway.port) as jms, Jms(gateway.port, "c") as other:
            other.subscribed("N", durable("t"))
            other.credit(2)
            former = session.id
            session = transacted(jms)
            assert session.answer(session.send_discharge(fail=False, of=former)).kind == "rejected"
            session.consumer("consumer", source("q", QUEUE), 1)
            [again] = session.transfers(1)
            assert text_of(again.payload) == "taken"
            session.retire(again)
            session.post(session.producer("t"), "once")
            assert session.commit() == ""
            assert other.bodies(1) == ["once"]
        gateway.stop()
        gateway.verified()
