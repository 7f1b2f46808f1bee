"""Deliveries that were settled in transactions, against a model of where each message is."""

from array import array
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributary.pipeline.dispatch.dispatcher import DeadLetter, Deliver, Dispatcher
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.policy import DEFAULT, Policy
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

CONSUMERS, TRANSACTIONS = (1, 2, 3), (-11, -12, -13)


def delivered(dispatcher: Dispatcher, stop: int, now: int = 0) -> list[Deliver]:
    """Offer all messages for as long as a consumer takes any of them."""
    found: list[Deliver] = []
    while (wanted := dispatcher.wanted(stop)) is not None:
        effects = dispatcher.offer(wanted, stop, now=now)
        found += [one for one in effects if isinstance(one, Deliver)]
    return found


def begun(count: int, policy: Policy = DEFAULT) -> Dispatcher:
    """A consumer, 1, that holds so many messages from 0 on."""
    dispatcher = Dispatcher(0, policy=policy)
    dispatcher.attach(1)
    dispatcher.credit(1, count)
    delivered(dispatcher, count)
    return dispatcher


def test_what_a_transaction_has_is_neither_held_nor_owed_to_others() -> None:
    """Its consumer may hold as many more, and the floor waits for it."""
    dispatcher = begun(4)
    assert dispatcher.retire(1, range(1, 3), -7) == [range(1, 3)]
    assert dispatcher.retired(-7, range(1, 3))
    assert (len(dispatcher.unsettled(1)), dispatcher.in_flight) == (2, 4)
    dispatcher.attach(2)
    dispatcher.credit(2, 9)
    assert delivered(dispatcher, 4) == []
    dispatcher.settle(1, range(1), Outcome.ACCEPTED)
    assert dispatcher.floor == 1


def test_a_commit_settles_and_a_rollback_gives_back() -> None:
    """Also when the consumer has gone meanwhile: what it held itself is given back at once."""
    dispatcher = begun(4)
    dispatcher.retire(1, range(2), -7)
    dispatcher.retire(1, range(2, 3), -8)
    assert [one.run for one in dispatcher.detach(1)] == [range(3, 4)]
    [settled] = dispatcher.settle(-7, range(2), Outcome.ACCEPTED)
    assert settled.final
    assert dispatcher.floor == 2
    [settled] = dispatcher.settle(-8, range(2, 3), Outcome.MODIFIED, failed=True)
    assert not settled.final
    dispatcher.attach(2)
    dispatcher.credit(2, 9)
    assert [(one.run, one.delivery_count) for one in delivered(dispatcher, 4)] == [
        (range(2, 3), 1),
        (range(3, 4), 0),
    ]


def test_what_a_consumer_does_not_hold_it_cant_retire() -> None:
    """Nor what it lost, and was given again, since it was given."""
    dispatcher = begun(2, Policy(lock_ms=1))
    dispatcher.wake(5_000)
    assert dispatcher.retire(1, range(2), -7, delivered_at=1) == []
    assert dispatcher.retire(2, range(2), -7) == []
    dispatcher.credit(1, 2)
    assert delivered(dispatcher, 2, now=9_000)
    assert dispatcher.retire(1, range(2), -7, delivered_at=1) == []
    assert dispatcher.retire(1, range(2), -7, delivered_at=9_000) != []


def test_a_lock_does_not_end_what_a_transaction_has() -> None:
    """It has a time of its own; what comes back unsettled has a new one."""
    dispatcher = begun(2, Policy(lock_ms=1))
    dispatcher.retire(1, range(2), -7)
    assert dispatcher.wake(5_000) == []
    assert dispatcher.restore(-7, range(1), 1, 6_000)
    assert dispatcher.next_due == 7_000
    [failed] = dispatcher.wake(7_000)
    assert not isinstance(failed, Deliver | DeadLetter)
    assert (list(failed.run), failed.final) == ([0], False)


def test_a_rewind_takes_from_transactions_what_they_have() -> None:
    """Their outcomes change nothing then."""
    dispatcher = begun(3)
    dispatcher.retire(1, range(3), -7)
    dispatcher.rewind(0)
    assert not dispatcher.retired(-7, range(3))
    assert dispatcher.settle(-7, range(3), Outcome.ACCEPTED) == []
    dispatcher.credit(1, 3)
    assert [one.run for one in delivered(dispatcher, 3)] == [range(3)]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_rollback_is_a_failed_attempt(attempts: int) -> None:
    """The last one gives the message up."""
    dispatcher = begun(1, Policy(delivery_attempts_max=attempts, dead_letter=False))
    dispatcher.retire(1, range(1), -7)
    [settled] = dispatcher.settle(-7, range(1), Outcome.MODIFIED, failed=True)
    assert not isinstance(settled, DeadLetter)
    assert settled.final is (attempts == 1)


class RetiredMachine(RuleBasedStateMachine):
    """Random lives of messages, consumers and transactions: each message is in one place."""

    @initialize(attempts=st.sampled_from([0, 3]))
    def begin(self, attempts: int) -> None:
        self.policy = Policy(delivery_attempts_max=attempts, dead_letter=False)
        self.real = Dispatcher(0, policy=self.policy)
        self.stop = 0
        self.place: dict[int, int | None] = {}  #: its holder; 0: none, None: it is gone
        self.failures: Counter[int] = Counter()
        self.attempts = attempts
        self.attached: set[int] = set()

    def deliver(self) -> None:
        for one in delivered(self.real, self.stop):
            for sequence in one.run:
                assert self.place[sequence] == 0, f"{sequence} is with {self.place[sequence]}"
                assert one.delivery_count == self.failures[sequence]
                self.place[sequence] = one.consumer

    def of(self, who: int) -> list[int]:
        return sorted(one for one, transaction in self.place.items() if transaction == who)

    def fail(self, sequences: list[int]) -> None:
        for one in sequences:
            self.failures[one] += 1
            self.place[one] = None if self.failures[one] == self.attempts else 0

    @rule(count=st.integers(1, 6))
    def publish(self, count: int) -> None:
        for sequence in range(self.stop, self.stop + count):
            self.place[sequence] = 0
        self.stop += count
        self.deliver()

    @rule(consumer=st.sampled_from(CONSUMERS))
    def come_or_go(self, consumer: int) -> None:
        if consumer in self.attached:
            self.real.detach(consumer)
            self.attached.discard(consumer)
            for sequence in self.of(consumer):
                self.place[sequence] = 0
        else:
            self.real.attach(consumer)
            self.attached.add(consumer)
        self.deliver()

    @precondition(lambda self: self.attached)
    @rule(data=st.data(), credit=st.integers(0, 5))
    def credit(self, data: st.DataObject, credit: int) -> None:
        self.real.credit(data.draw(st.sampled_from(sorted(self.attached))), credit)
        self.deliver()

    def some(self, data: st.DataObject, who: int) -> list[Run]:
        """Runs of some messages that a consumer or transaction has."""
        chosen = sorted(data.draw(st.sets(st.sampled_from(self.of(who)), min_size=1)))
        if data.draw(st.booleans()):
            return [range(one, one + 1) for one in chosen]
        first = chosen[0]
        last = first
        while last + 1 in chosen:
            last += 1
        return [range(first, last + 1)]

    @rule(
        data=st.data(),
        consumer=st.sampled_from(CONSUMERS),
        transaction=st.sampled_from(TRANSACTIONS),
    )
    def retire(self, data: st.DataObject, consumer: int, transaction: int) -> None:
        if not self.of(consumer):
            return
        for run in self.some(data, consumer):
            [part] = self.real.retire(consumer, run, transaction)
            assert list(part) == list(run)
            for sequence in run:
                self.place[sequence] = transaction

    @rule(data=st.data(), consumer=st.sampled_from(CONSUMERS))
    def accept(self, data: st.DataObject, consumer: int) -> None:
        if not self.of(consumer):
            return
        for run in self.some(data, consumer):
            self.real.settle(consumer, run, Outcome.ACCEPTED)
            for sequence in run:
                self.place[sequence] = None

    @rule(transaction=st.sampled_from(TRANSACTIONS), commit=st.booleans())
    def discharge(self, transaction: int, commit: bool) -> None:
        has = self.of(transaction)
        for sequence in has:
            run = range(sequence, sequence + 1)
            assert self.real.retired(transaction, run)
            if commit:
                [settled] = self.real.settle(transaction, run, Outcome.ACCEPTED)
                assert settled.final
                self.place[sequence] = None
            else:
                self.real.settle(transaction, run, Outcome.MODIFIED, failed=True)
        if not commit:
            self.fail(has)
        self.real.forget(transaction)
        self.deliver()

    @rule(
        data=st.data(),
        transaction=st.sampled_from(TRANSACTIONS),
        consumer=st.sampled_from(CONSUMERS),
    )
    def restore(self, data: st.DataObject, transaction: int, consumer: int) -> None:
        if not self.of(transaction):
            return
        for run in self.some(data, transaction):
            done = self.real.restore(transaction, run, consumer)
            assert done is (consumer in self.attached)
            for sequence in run if done else ():
                self.place[sequence] = consumer

    @rule()
    def restart(self) -> None:
        """Consumers are gone; the transactions are prepared, and have what they had."""
        floor, settled = self.real.floor, SequenceSet()
        settled.add(array("q", [s for s, who in self.place.items() if who is None and s >= floor]))
        known = {s: n for s, n in self.failures.items() if self.place[s] is not None}
        attempts = Attempts(known, 0)
        self.real = Dispatcher(floor, settled, attempts=attempts, policy=self.policy)
        self.attached.clear()
        for sequence, who in self.place.items():
            self.place[sequence] = 0 if who in CONSUMERS else who
        for transaction in TRANSACTIONS:
            if has := self.of(transaction):
                self.real.withhold(transaction, array("q", has))

    @invariant()
    def each_is_where_it_was_put(self) -> None:
        for consumer in self.attached:
            held = [one for run in self.real.unsettled(consumer).runs() for one in run]
            assert held == self.of(consumer)
        assert self.real.in_flight == sum(1 for one in self.place.values() if one)
        owed = [one for one, who in self.place.items() if who is not None]
        assert self.real.floor <= min(owed, default=self.stop)


TestRetiredMachine = RetiredMachine.TestCase
TestRetiredMachine.settings = settings(max_examples=150, stateful_step_count=40)
