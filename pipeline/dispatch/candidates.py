"""What can be asked of a queue's state: which message goes next and who may have what waits
(`Candidates`), and how much is where (`QueueReport`). Nothing is changed here.

Rule 1: of all that could go to somebody in line, the highest priority goes first; of one priority
        the lowest sequence, whether it was read before or not.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from distributary.pipeline.dispatch.in_flight import InFlight
from distributary.pipeline.dispatch.message_groups import PARKED_MAX, Groups
from distributary.pipeline.dispatch.read_cursor import FOREVER, ReadCursor
from distributary.pipeline.dispatch.ready import Eligibility, Ready
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet


class Best(NamedTuple):
    """The message that goes next."""

    priority: int
    sequence: int
    unread: bool
    #: Of the same priority, and read if this one isn't, unread if it is: that one goes before all
    #: from here on.
    before: int


class Candidates:
    """What of one subscription could go now."""

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
        self._head = FOREVER  #: the sequence after the last message that is there

    def wanted(self, head: int) -> int | None:
        """The sequence that would be delivered next; None if nobody is in line. There are no
        messages from `head` on yet."""
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
        """The first message that waits for anybody and is of the usual priority, and the position:
        the first sequence that wasn't read."""
        return self._ready.usual.first(), self._unread.position

    def plain(self) -> bool:
        """Whether anybody may have all that could go now, and it is of one priority."""
        if self._ready.others or self._turns.selectors:
            return False
        unread = self._unread
        return (
            unread.priority_index is None
            or unread.priority_index.added == unread.seen
            or unread.ahead() is None
        )

    def best(self) -> Best | None:
        """The message that goes next to somebody who is in line now: of the highest priority the
        lowest sequence, whether it was read before or not."""
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
        """How many consumers are in line."""
        return self._turns.queued

    @property
    def room(self) -> int:
        """The sum of the credit of those in line."""
        return self._turns.room

    @property
    def selectors(self) -> frozenset[str]:
        """The selectors of the consumers, in line or not."""
        return self._turns.selectors

    def was_read(self, sequence: int) -> bool:
        """Whether this one, which is unread, was read before a rewinding."""
        return sequence < self._unread.read_before

    def tries(self, run: Run) -> list[tuple[Run, int]]:
        """The run in parts of one number of failed attempts each."""
        return self._attempts.parts(run)

    def unread(
        self, start: int, stop: int, sequences: "array[int] | None", room: int
    ) -> Iterable[Run]:
        """The unread ones of `start .. stop - 1`, of which `sequences`, if given, lists all. They
        may be read while this goes on."""
        return self._unread.runs(start, stop, sequences, room)

    def plain_unread(
        self, start: int, stop: int, sequences: "array[int] | None"
    ) -> Iterable[tuple[Run, int]]:
        """As `unread`, with their failed attempts, as much at once as those in line take."""
        if sequences is None and not self._unread.passed:
            return self._attempts.parts(range(start, stop)) if start < stop else ()
        runs = self._unread.runs(start, stop, sequences, self._turns.room)
        return (part for run in runs for part in self._attempts.parts(run))

    def plain_ready(self, start: int, stop: int) -> Iterator[tuple[Run, int]]:
        """Those of `start .. stop - 1` that wait for anybody and are of the usual priority, with
        their failed attempts. They may be delivered while this goes on."""
        runs = gathered(self._ready.usual.runs_within(start, stop), self._turns.room)
        return (part for run in runs for part in self._attempts.parts(run))

    def waiting(
        self, priority: int, eligible: Eligibility, start: int, stop: int
    ) -> Iterable[range]:
        """Those of `start .. stop - 1` that wait in this pool. They may be delivered while this
        goes on."""
        return self._ready.within(priority, eligible, start, stop)

    def pools(self, priority: int) -> list[Eligibility]:
        """Whose messages of this priority may go to somebody who is in line."""
        selectors = self._turns.waiting_selectors()
        eligible = [one for level, one in self._ready.others if level == priority]
        if priority == PRIORITY:
            eligible.append(None)
        return [one for one in eligible if self._may_go(one, selectors)]

    def room_for(self, eligible: Eligibility) -> int:
        """How many messages those in line take that may have what is in this pool."""
        turns = self._turns
        if eligible is None:
            return turns.room
        if isinstance(eligible, int):
            return turns.credit[eligible] if turns.waits(eligible) else 0
        return sum([turns.credit[one] for one in turns.order() if turns.may(one, eligible)])

    def parked_full(self) -> bool:
        """Whether so much waits for the consumers of its groups that no more is read."""
        if not self._groups.owner:
            return False
        others = self._ready.others.items()
        parked = [len(pool) for (_, eligible), pool in others if isinstance(eligible, int)]
        return sum(parked) >= PARKED_MAX

    def _best_ready(self) -> list[tuple[int, int, bool]]:
        """Of each pool that somebody in line may have, the first message: priority below zero,
        sequence, not unread."""
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
        """Whether somebody in line may have what is in this pool."""
        if isinstance(eligible, int):
            return eligible >= 0 and self._turns.waits(eligible)
        return eligible is None or None in selectors or not eligible.isdisjoint(selectors)


class QueueReport(msgspec.Struct, frozen=True):
    """How much of one subscription is where, now: it changes as the messages move."""

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
        """The first sequence that was not read yet."""
        return self._unread.position

    @property
    def reach(self) -> int:
        """No message from here on was ever delivered."""
        return max(self._unread.reach, self._unread.position)

    @property
    def floor(self) -> int:
        """Everything that is owed below it is settled."""
        first = self._outstanding.first()
        position = self._unread.position
        return position if first is None else min(first, position)

    def outstanding(self, below: int = FOREVER) -> int:
        """How many messages below this one were read and aren't settled."""
        if below == FOREVER:
            return len(self._outstanding)
        return sum(map(len, self._outstanding.runs_within(0, below)))

    def beyond(self, below: int = FOREVER) -> int:
        """How many messages below this one, and above the position, are settled or were read
        early."""
        if below == FOREVER:
            return len(self._unread.passed)
        return sum(map(len, self._unread.passed.runs_within(0, below)))

    @property
    def dead_lettering(self) -> int:
        """How many messages are given up while their copies aren't kept."""
        return len(self._dead_lettering)

    @property
    def ready(self) -> int:
        """How many messages wait, for their turn or a time."""
        return len(self._ready)

    @property
    def in_flight(self) -> int:
        """How many messages consumers and transactions have."""
        return len(self._in_flight)

    @property
    def consumers(self) -> int:
        """How many consumers there are."""
        return len(self._in_flight.by_consumer)

    def unsettled(self, consumer: int) -> SequenceSet:
        """What this consumer has: to be read, not changed."""
        return self._in_flight.by_consumer[consumer]

    def retired(self, transaction: int, run: Run) -> bool:
        """Whether a transaction has all of these."""
        return self._in_flight.retired(transaction, run)

    def active(self, consumer: int) -> bool:
        """Whether this consumer is served when it has credit."""
        return self._turns.active(consumer)

    def turns(self) -> list[tuple[int, int]]:
        """The consumers in line and their credit, the next one first."""
        return [(one, self._turns.credit[one]) for one in self._turns.order()]

    def failures(self, sequence: int) -> int:
        """How often a message that is owed has failed, as consumers are told."""
        return self._attempts.of(sequence)

    def acquired(self, sequence: int) -> int:
        """How often an owed message was delivered and returned."""
        return self._attempts.acquired(sequence)

    def failed(self) -> list[tuple[int, int]]:
        """The messages that are known to have failed, and how often, as consumers are told;
        ascending."""
        return [(one, self._attempts.of(one)) for one in sorted(self._attempts.failures)]

    def owed(self, head: int) -> list[tuple[Run, int]]:
        """All owed messages below `head` as (run, failed attempts): those that were read, then
        those that weren't."""
        unread = self._unread.among(range(self._unread.position, head))
        runs = [*self._outstanding.runs(), *unread]
        return [part for run in runs for part in self._attempts.parts(run)]

    def returned(self, runs: Iterable[Run]) -> tuple["array[int]", SequenceSet]:
        """Of messages that were held: those that are ready now, ascending, and those that are held
        still."""
        back, held = array("q"), SequenceSet()
        for one in (one for run in runs for one in run if one in self._outstanding):
            if one in self._ready:
                back.append(one)
            elif one not in self._dead_lettering:
                held.add(range(one, one + 1))
        return back, held

    @property
    def next_due(self) -> int | None:
        """When the next delay or lock ends."""
        if not (self._ready.due_times or self._in_flight.locks):
            return None
        due, lapse = self._ready.next_due, self._in_flight.next_lapse
        if due is None or lapse is None:
            return lapse if due is None else due
        return min(due, lapse)

    def places(self) -> list[SequenceSet]:
        """Every place of an outstanding message, with what is there: no two have the same one."""
        return [
            *self._ready.pools(),
            *self._in_flight.pools(),
            self._dead_lettering.copy(),
        ]

    @property
    def remembered(self) -> int:
        """How many facts are kept of single messages beside their places: none when nothing is
        owed."""
        return len(self._ready.levels) + len(self._groups.members) + len(self._attempts)
