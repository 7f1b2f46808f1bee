"""Questions to a queue's state: which message goes next and which consumers may have it
(`Candidates`), and how many messages are in which state (`QueueReport`). Nothing is changed here.

Rule 1: of all messages that a consumer in line may have, the highest priority goes first; of one
        priority the lowest sequence, whether it was read before or not.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from distributary.pipeline.dispatch.in_flight import InFlight
from distributary.pipeline.dispatch.message_groups import PARKED_MAX, Groups
from distributary.pipeline.dispatch.read_cursor import FOREVER, ReadCursor
from distributary.pipeline.dispatch.ready import Eligibility, Ready
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.gathering import common, gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet


class Best(NamedTuple):
    """The message that goes next."""

    priority: int
    sequence: int
    unread: bool
    #: The first message of the same priority that is read if this one is unread, or unread if it is
    #: read. Messages from there on have to wait for it.
    before: int


class Candidates:
    """Messages of one subscription that could be delivered now."""

    __slots__ = ("_attempts", "_groups", "_head", "_ready", "_turns", "_unread")

    def __init__(
        self,
        unread: ReadCursor,
        ready: Ready,
        turns: ServiceQueue,
        groups: Groups,
        attempts: Attempts,
    ) -> None:
        self._unread, self._ready = unread, ready
        self._turns, self._groups = turns, groups
        self._attempts = attempts
        self._head = FOREVER  #: the sequence after the last message of the topic

    def wanted(self, head: int) -> int | None:
        """Return the sequence that would be delivered next; None if no consumer is in line. There
        are no messages from `head` on yet."""
        self._head = head
        if not self._turns.queued:
            return None
        if self._unread.position >= head and not self._ready.others:
            return self._ready.usual.first()
        if not self.plain():
            best = self.best()
            return None if best is None else best.sequence
        first = self._ready.usual.first()
        position = self._unread.position
        if position >= head:
            return first
        return position if first is None else min(first, position)

    def heads(self) -> tuple[int | None, int]:
        """Return the first ready message of the usual priority that any consumer may have, and the
        position: the first sequence that wasn't read."""
        return self._ready.usual.first(), self._unread.position

    def plain(self) -> bool:
        """Whether all ready and unread messages are of the usual priority and for any consumer."""
        if self._ready.others or self._turns.selectors:
            return False
        unread = self._unread
        return (
            unread.priority_index is None
            or unread.priority_index.added == unread.seen
            or unread.ahead() is None
        )

    def best(self) -> Best | None:
        """Return the message that goes next to a consumer in line (rule 1)."""
        if not self._turns.queued:
            return None
        found = self._best_ready()
        if not self.parked_full():
            if self._unread.position < self._head:
                found.append((-PRIORITY, self._unread.position, True))
            if (ahead := self._unread.ahead()) is not None:
                found.append((-ahead[0], ahead[1], True))
        if not found:
            return None
        below, sequence, unread = min(found)
        others = [one for level, one, other in found if level == below and other is not unread]
        return Best(-below, sequence, unread, min(others, default=FOREVER))

    @property
    def queued(self) -> int:
        """Number of consumers in line."""
        return self._turns.queued

    @property
    def room(self) -> int:
        """Sum of the credit of the consumers in line."""
        return self._turns.room

    @property
    def selectors(self) -> frozenset[str]:
        """The selectors of the consumers, in line or not."""
        return self._turns.selectors

    def was_read(self, sequence: int) -> bool:
        """Whether this unread message was read before a rewind."""
        return sequence < self._unread.read_before

    def tries(self, run: Run) -> list[tuple[Run, int]]:
        """Split the run into parts whose messages have the same number of failed attempts."""
        return self._attempts.parts(run)

    def unread(
        self, start: int, stop: int, sequences: "array[int] | None", room: int
    ) -> Iterable[Run]:
        """Return the unread messages of `start .. stop - 1`; `sequences`, if given, lists all
        messages there. They may be read during the iteration."""
        return self._unread.runs(start, stop, sequences, room)

    def plain_unread(
        self, start: int, stop: int, sequences: "array[int] | None"
    ) -> Iterable[tuple[Run, int]]:
        """Return the same with their failed attempts, in runs of at most the credit in line."""
        if sequences is None and not self._unread.passed:
            return self._attempts.parts(range(start, stop)) if start < stop else ()
        runs = self._unread.runs(start, stop, sequences, self._turns.room)
        return (part for run in runs for part in self._attempts.parts(run))

    def plain_ready(self, start: int, stop: int) -> Iterator[tuple[Run, int]]:
        """Return the ready messages of `start .. stop - 1` of the usual priority that any consumer
        may have, with their failed attempts. They may be delivered during the iteration."""
        runs = gathered(self._ready.usual.runs_within(start, stop), self._turns.room)
        return (part for run in runs for part in self._attempts.parts(run))

    def waiting(
        self, priority: int, eligible: Eligibility, start: int, stop: int
    ) -> Iterable[range]:
        """Return the messages of `start .. stop - 1` in this pool. They may be delivered during the
        iteration."""
        return self._ready.within(priority, eligible, start, stop)

    def pools(self, priority: int) -> list[Eligibility]:
        """Return the pools of this priority whose messages a consumer in line may have."""
        selectors = self._turns.waiting_selectors()
        eligible = [one for level, one in self._ready.others if level == priority]
        if priority == PRIORITY:
            eligible.append(None)
        return [one for one in eligible if self._may_go(one, selectors)]

    def room_for(self, eligible: Eligibility) -> int:
        """Return the credit of the consumers in line that may have the messages of this pool."""
        turns = self._turns
        if eligible is None:
            return turns.room
        if isinstance(eligible, int):
            return turns.credit[eligible] if turns.waits(eligible) else 0
        return sum([turns.credit[one] for one in turns.order() if turns.may(one, eligible)])

    def parked_full(self) -> bool:
        """Whether so many messages wait for the consumers of their groups that no more are read."""
        if not self._groups.parks:
            return False
        others = self._ready.others.items()
        parked = [len(pool) for (_, eligible), pool in others if isinstance(eligible, int)]
        return sum(parked) >= PARKED_MAX

    def _best_ready(self) -> list[tuple[int, int, bool]]:
        """Return the first message of each pool that a consumer in line may have: negated priority,
        sequence, False (not unread)."""
        found = []
        usual = self._ready.usual.first()
        if usual is not None:
            found.append((-PRIORITY, usual, False))
        if self._ready.others:
            selectors = self._turns.waiting_selectors()
            for (priority, eligible), pool in self._ready.others.items():
                if self._may_go(eligible, selectors):
                    first = pool.first()
                    assert first is not None  # noqa: S101
                    found.append((-priority, first, False))
        return found

    def _may_go(self, eligible: Eligibility, selectors: frozenset[str | None]) -> bool:
        """Whether a consumer in line may have the messages of this pool."""
        if isinstance(eligible, int):
            return eligible >= 0 and self._turns.waits(eligible)
        return eligible is None or None in selectors or not eligible.isdisjoint(selectors)


class QueueReport(msgspec.Struct, frozen=True):
    """Counts of one subscription's messages by state, always current."""

    _unread: ReadCursor
    _ready: Ready
    _in_flight: InFlight
    _outstanding: SequenceSet
    _dead_lettering: SequenceSet
    _groups: Groups
    _turns: ServiceQueue
    _attempts: Attempts

    @property
    def position(self) -> int:
        """First sequence that wasn't read yet."""
        return self._unread.position

    @property
    def reach(self) -> int:
        """Sequence from which on no message was ever delivered."""
        return max(self._unread.reach, self._unread.position)

    @property
    def floor(self) -> int:
        """Sequence below which every owed message is settled."""
        first = self._outstanding.first()
        position = self._unread.position
        return position if first is None else min(first, position)

    def outstanding(self, below: int = FOREVER) -> int:
        """Return the number of messages below this one that were read and aren't settled."""
        if below == FOREVER:
            return len(self._outstanding)
        return sum(map(len, self._outstanding.runs_within(0, below)))

    def beyond(self, below: int = FOREVER) -> int:
        """Return the number of messages between the position and this one that are settled or were
        read early."""
        if below == FOREVER:
            return len(self._unread.passed)
        return sum(map(len, self._unread.passed.runs_within(0, below)))

    @property
    def dead_lettering(self) -> int:
        """Number of messages that are given up while their copies aren't durable."""
        return len(self._dead_lettering)

    @property
    def ready(self) -> int:
        """Number of messages that wait for their turn, or for the end of a delay."""
        return len(self._ready)

    @property
    def in_flight(self) -> int:
        """Number of messages that consumers and transactions hold."""
        return len(self._in_flight)

    @property
    def consumers(self) -> int:
        """Number of attached consumers."""
        return len(self._in_flight.by_consumer)

    def unsettled(self, consumer: int) -> SequenceSet:
        """Return the messages in flight to this consumer: to be read, not changed."""
        return self._in_flight.by_consumer[consumer]

    def retired(self, transaction: int, run: Run) -> bool:
        """Whether a transaction holds all of these messages."""
        return self._in_flight.retired(transaction, run)

    def buckets(self, run: Run) -> Sequence[int]:
        """Return the bucket of each delivered message's group, -1 for one without; empty if none
        has a group."""
        return self._groups.buckets(run)

    def active(self, consumer: int) -> bool:
        """Whether this consumer is served when it has credit."""
        return self._turns.active(consumer)

    def turns(self) -> list[tuple[int, int]]:
        """Return the consumers in line and their credit, the next one first."""
        return [(one, self._turns.credit[one]) for one in self._turns.order()]

    def failures(self, sequence: int) -> int:
        """Return the failed attempts of an owed message (delivery-count)."""
        return self._attempts.of(sequence)

    def acquired(self, sequence: int) -> int:
        """Return how often an owed message was delivered and returned."""
        return self._attempts.acquired(sequence)

    def failed(self) -> list[tuple[int, int]]:
        """Return the messages with failed attempts and their number, ascending."""
        return [(one, self._attempts.of(one)) for one in sorted(self._attempts.failures)]

    def owed(self, head: int) -> list[tuple[Run, int]]:
        """Return all owed messages below `head` as (run, failed attempts): those that were read,
        then the unread ones."""
        unread = self._unread.among(range(self._unread.position, head))
        runs = [*self._outstanding.runs(), *unread]
        return [part for run in runs for part in self._attempts.parts(run)]

    def returned(self, run: Run) -> tuple[list[Run], SequenceSet]:
        """Split messages that were held: those that are ready now, and those still held."""
        back, held = self._ready.among(run), SequenceSet()
        for part in common(self._outstanding, run):
            held.add(part)
        for part in (*back, *common(self._dead_lettering, run)):
            held.discard(part)
        return back, held

    @property
    def next_due(self) -> int | None:
        """Time when the next delay or lock ends (microseconds)."""
        if not (self._ready.due_times or self._in_flight.locks):
            return None
        due, lapse = self._ready.next_due, self._in_flight.next_lapse
        if due is None or lapse is None:
            return lapse if due is None else due
        return min(due, lapse)

    def places(self) -> list[SequenceSet]:
        """Return the messages of each state of an outstanding message: no message is in two."""
        return [
            *self._ready.pools(),
            *self._in_flight.pools(),
            self._dead_lettering.copy(),
        ]

    @property
    def remembered(self) -> int:
        """Number of facts kept of single messages beside their states: 0 when none is owed."""
        return len(self._ready.levels) + len(self._groups.members) + len(self._attempts)
