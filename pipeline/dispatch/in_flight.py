"""Messages in flight: delivered and not settled, to which consumer, and since when.

Rule 1: a message is in flight to at most one consumer, or belongs to one transaction in which its
        consumer gave it an outcome. Transactions have numbers below 0, and no locks.
Rule 2: an outcome ends the delivery that it was given for. A consumer that lost a message without
        giving an outcome (its lock ended, the subscription was rewound) may give the outcome late:
        it ends nothing, even if the message is in flight to the same consumer again.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from distributary.pipeline.sequences.gathering import common, gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet


@dataclass(frozen=True, slots=True, order=True)
class _Lock:
    """The end of the time for which a delivered run may stay unsettled. Times in microseconds."""

    until: int
    nth: int
    since: int = field(compare=False)
    consumer: int = field(compare=False)
    run: Run = field(compare=False)


class InFlight:
    """The messages in flight of one subscription."""

    __slots__ = (
        "_late",
        "_lock_us",
        "_numbers",
        "_retired",
        "_since",
        "by_consumer",
        "locks",
        "watched",
    )

    def __init__(self) -> None:
        self.by_consumer: dict[int, SequenceSet] = {}  #: consumer -> its unsettled sequences
        self._retired: dict[int, SequenceSet] = {}  #: transaction -> its sequences
        self.watched = False  #: whether `note` must be told of every delivery
        self._lock_us = 0
        self.locks: list[_Lock] = []  #: a heap; locks whose messages were settled leave it late
        self._numbers = count()
        self._late: dict[int, SequenceSet] = {}  #: consumer -> lost without an outcome
        #: sequence -> when it was delivered, for messages in flight that were delivered before and
        #: may have a lock or a late outcome of that delivery.
        self._since: dict[int, int] = {}

    def __len__(self) -> int:
        known = (*self.by_consumer.values(), *self._retired.values())
        return sum([len(held) for held in known])

    def attach(self, consumer: int) -> None:
        assert consumer not in self.by_consumer, f"consumer {consumer} is attached"  # noqa: S101
        self.by_consumer[consumer] = SequenceSet()

    def detach(self, consumer: int) -> Iterator[Run]:
        """Remove a consumer. Returns the runs that it had in flight."""
        self._late.pop(consumer, None)
        held = self.by_consumer.pop(consumer)
        if self._since:
            for run in held.runs():
                self._forget(run)
        self._watch()
        return gathered(held.runs(), len(held))

    def lock(self, lock_us: int) -> None:
        """Set how long new deliveries may stay unsettled, in microseconds; 0: without limit."""
        self._lock_us = lock_us
        self._watch()

    def note(self, consumer: int, run: Run, now: int, *, again: bool) -> None:
        """Note when these messages were delivered to the consumer. Needed only while `watched`.
        `again`: they were delivered before."""
        if again:
            for sequence in run:
                self._since[sequence] = now
        if self._lock_us:
            while self.locks and not self._holds_any(self.locks[0]):
                heappop(self.locks)
            until = now + self._lock_us
            heappush(self.locks, _Lock(until, next(self._numbers), now, consumer, run))

    def take(self, consumer: int, run: Run, delivered_at: int) -> Sequence[Run]:
        """End the deliveries of these messages that were made to the consumer at `delivered_at`.
        Returns their runs."""
        held = self.by_consumer.get(consumer)
        if held is None:
            return self._take_retired(consumer, run)
        if self.watched:
            return self._take_known(consumer, run, delivered_at)
        if held.contains_all(run):
            held.discard(run)
            return (run,)
        parts = common(held, run)
        for part in parts:
            held.discard(part)
        return parts

    def retire(self, consumer: int, run: Run, transaction: int, delivered_at: int) -> list[Run]:
        """Move those of these messages that are in flight to the consumer to a transaction. Returns
        their runs."""
        parts = list(self.take(consumer, run, delivered_at))
        for part in parts:
            self.withhold(transaction, part)
        return parts

    def withhold(self, transaction: int, run: Run) -> None:
        """Give these messages, which are in flight to no consumer, to the transaction."""
        count = self._retired.setdefault(transaction, SequenceSet()).add(run)
        assert count == len(run), f"of {run} {count} weren't in it"  # noqa: S101

    def retired(self, transaction: int, run: Run) -> bool:
        """Whether a transaction holds all of these messages."""
        has = self._retired.get(transaction)
        return has is not None and has.contains_all(run)

    def restore(self, transaction: int, run: Run, consumer: int, now: int) -> bool:
        """Give these messages back from the transaction to the consumer. False if the consumer has
        detached."""
        held = self.by_consumer.get(consumer)
        if held is None:
            return False
        gone = self._retired[transaction].discard(run)
        count = held.add(run)
        assert gone == count == len(run), f"of {run} it had {gone}"  # noqa: S101
        if self._lock_us:
            self.note(consumer, run, now, again=True)
        return True

    def end_transaction(self, transaction: int) -> None:
        """Forget a transaction that has ended, with all of its messages settled."""
        self._retired.pop(transaction, None)

    def lapse(self, now: int) -> Iterator[tuple[int, Run]]:
        """End the deliveries whose locks have ended by `now`: (consumer, run) of each."""
        while self.locks and self.locks[0].until <= now:
            lock = heappop(self.locks)
            held = self.by_consumer.get(lock.consumer)
            if held is None:
                continue
            for part in common(held, lock.run):
                ended = self._as_of(part, lock.since)
                if not ended:
                    continue
                held.discard(ended)
                self._forget(ended)
                self._late.setdefault(lock.consumer, SequenceSet()).add(ended)
                self._watch()
                yield lock.consumer, ended

    @property
    def next_lapse(self) -> int | None:
        """Time when the next lock ends (microseconds), unless its messages are settled before."""
        return self.locks[0].until if self.locks else None

    def pools(self) -> list[SequenceSet]:
        """Return copies of the messages of each consumer and each transaction."""
        return [held.copy() for held in (*self.by_consumer.values(), *self._retired.values())]

    def clear(self) -> None:
        """Forget all deliveries. Their outcomes that still come are late."""
        for consumer, held in self.by_consumer.items():
            late = self._late.setdefault(consumer, SequenceSet())
            for run in held.runs():
                late.add(run)
            held.clear()
        self._retired.clear()
        self._late = {consumer: late for consumer, late in self._late.items() if late}
        self.locks.clear()
        self._since.clear()
        self._watch()

    def _take_retired(self, transaction: int, run: Run) -> Sequence[Run]:
        has = self._retired.get(transaction)
        if has is None or not has.contains_all(run):
            return ()
        has.discard(run)
        return (run,)

    def _take_known(self, consumer: int, run: Run, delivered_at: int) -> list[Run]:
        """Take, where `delivered_at` may be that of an earlier delivery."""
        held, late = self.by_consumer[consumer], self._late.get(consumer)
        if late is None and not self._since and held.contains_all(run):
            held.discard(run)
            return [run]
        parts: list[Run] = []
        for part in common(held, run):
            taken = array(
                "q",
                [one for one in part if not 0 < delivered_at < self._since.get(one, 0)],
            )
            if len(taken) == len(part):
                parts.append(part)
            elif taken:
                parts.append(taken)
        ended = {one for part in parts for one in part}
        for part in parts:
            held.discard(part)
            self._forget(part)
        if late is not None:
            late.discard(array("q", [one for one in run if one not in ended]))
            if not late:
                del self._late[consumer]
        self._watch()
        return parts

    def _watch(self) -> None:
        self.watched = bool(self._lock_us or self._late or self._since)

    def _as_of(self, run: Run, since: int) -> Run:
        """Return those of these messages that were delivered at that time, and not again since."""
        if not self._since:
            return run
        return array("q", [one for one in run if self._since.get(one, since) == since])

    def _forget(self, run: Run) -> None:
        if self._since:
            for sequence in run:
                self._since.pop(sequence, None)

    def _holds_any(self, lock: _Lock) -> bool:
        held = self.by_consumer.get(lock.consumer)
        if not held:
            return False
        return next(held.runs_within(lock.run[0], lock.run[-1] + 1), None) is not None
