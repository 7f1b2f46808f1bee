"""Messages that were read and are ready: they wait for their turn, for an eligible consumer, or for
the end of their delay.

Rule 1: a ready message is in one pool, or delayed.
Rule 2: there is a pool for each priority and eligibility; the lowest sequence of a pool is next.
Rule 3: the priority of an outstanding message is known if it isn't the usual one.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.sequences.gathering import common, gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

#: The consumers that may get a message: all (None, or not known yet); one, by its number; those
#: with one of these selectors or without one; or none until its message group goes on (`stuck`).
Eligibility: TypeAlias = "int | frozenset[str] | None"

#: Due times are rounded up to this many microseconds, so that many delays cost few entries.
GRAIN_US: Final = 10_000


def stuck(bucket: int) -> int:
    """Return the eligibility of messages that wait until this bucket of message groups goes on.
    Numbers of consumers are never negative."""
    return -1 - bucket


class Ready:
    """The ready messages of one subscription."""

    __slots__ = ("_delayed", "_due", "due_times", "levels", "others", "usual")

    def __init__(self) -> None:
        self.usual = SequenceSet()  #: of the usual priority, for any consumer
        #: (priority, eligibility) -> the other pools; none is empty.
        self.others: dict[tuple[int, Eligibility], SequenceSet] = {}
        #: priority, but for the usual one -> its outstanding messages.
        self.levels: dict[int, SequenceSet] = {}
        self._delayed = SequenceSet()
        self._due: dict[int, array[int]] = {}  #: time / GRAIN_US -> messages due then
        self.due_times: list[int] = []  #: a heap of the keys of `_due`

    def __len__(self) -> int:
        pools = sum([len(pool) for pool in self.others.values()])
        return len(self.usual) + pools + len(self._delayed)

    def note(self, run: Run, priority: int) -> None:
        """Note the priority of these messages, which were just read."""
        if priority != PRIORITY:
            self.levels.setdefault(priority, SequenceSet()).add(run)

    def put(self, run: Run, eligible: Eligibility = None) -> None:
        """Put these messages into the pools of this eligibility."""
        for part, priority in self.by_priority(run):
            if part:
                added = self._pool(priority, eligible).add(part)
                assert added == len(part), f"of {part} only {added} didn't wait"  # noqa: S101

    def delay(self, run: Run, at: int) -> None:
        """Delay these messages until this time (microseconds)."""
        added = self._delayed.add(run)
        assert added == len(run), f"of {run} only {added} weren't delayed"  # noqa: S101
        time = -(-at // GRAIN_US)
        if time not in self._due:
            self._due[time] = array("q")
            heappush(self.due_times, time)
        self._due[time].extend(run)

    def due(self, now: int) -> Iterator[Run]:
        """Remove the messages whose delay has ended by `now`, and return them."""
        while self.due_times and self.due_times[0] * GRAIN_US <= now:
            time = heappop(self.due_times)
            there = sorted({one for one in self._due.pop(time) if one in self._delayed})
            if there:
                run = array("q", there)
                self._delayed.discard(run)
                yield from gathered((range(one, one + 1) for one in run), len(run))

    @property
    def next_due(self) -> int | None:
        """Time when the next delay ends (microseconds)."""
        return self.due_times[0] * GRAIN_US if self.due_times else None

    def within(
        self, priority: int, eligible: Eligibility, start: int, stop: int
    ) -> Iterable[range]:
        """Return the runs of `start .. stop - 1` in this pool. A yielded run may be removed during
        the iteration."""
        pool = self._find(priority, eligible)
        return () if pool is None else pool.runs_within(start, stop)

    def remove(self, run: Run, priority: int, eligible: Eligibility) -> int:
        """Remove these messages from this pool. Returns how many of them were in it."""
        pool = self._find(priority, eligible)
        if pool is None:
            return 0
        gone = pool.discard(run)
        if not pool and pool is not self.usual:
            del self.others[priority, eligible]
        return gone

    def pick(self, run: Run) -> list[Run]:
        """Remove those of these messages that are ready or delayed. Returns their runs."""
        picked: list[Run] = []
        for priority, eligible in [(PRIORITY, None), *self.others]:
            pool = self._find(priority, eligible)
            found = [] if pool is None else common(pool, run)
            for part in found:
                self.remove(part, priority, eligible)
            picked += found
        for part in common(self._delayed, run):
            self._delayed.discard(part)
            picked.append(part)
        return picked

    def among(self, run: Run) -> list[Run]:
        """Return those of these messages that are ready or delayed."""
        pools = (self.usual, *self.others.values(), self._delayed)
        return [part for pool in pools for part in common(pool, run)]

    def reacquire(self, run: Run) -> list[Run]:
        """Remove messages, as `pick` does, and their due times: if they are delayed again, the
        earlier time must not end the new delay."""
        picked = self.pick(run)
        if self._due and picked:
            gone = {one for part in picked for one in part}
            for time, due in self._due.items():
                if not gone.isdisjoint(due):
                    self._due[time] = array("q", [one for one in due if one not in gone])
        return picked

    def forget(self, run: Run) -> None:
        """Forget the priorities of messages that are owed no more."""
        for priority in [*self.levels]:
            level = self.levels[priority]
            level.discard(run)
            if not level:
                del self.levels[priority]

    def free(self, which: Callable[[Eligibility], bool]) -> None:
        """Move the messages of these eligibilities to the pools for all consumers: their
        eligibility is decided anew."""
        for priority, eligible in [one for one in self.others if which(one[1])]:
            pool = self.others.pop((priority, eligible))
            for run in pool.runs():
                self._pool(priority, None).add(run)

    def by_priority(self, run: Run) -> Iterable[tuple[Run, int]]:
        """Split the run into parts of one priority each."""
        if not self.levels:
            return ((run, PRIORITY),)
        parts: list[tuple[Run, int]] = []
        left = SequenceSet()
        left.add(run)
        for priority, level in self.levels.items():
            for part in common(level, run):
                left.discard(part)
                parts.append((part, priority))
        usual = gathered(left.runs(), len(left))
        return [*parts, *((part, PRIORITY) for part in usual)]

    def available(self) -> "Ready":
        """Return a copy with the messages of all pools, for all consumers, without delayed ones."""
        copy = Ready()
        copy.usual = self.usual.copy()
        copy.levels = {priority: level.copy() for priority, level in self.levels.items()}
        for (priority, _), pool in self.others.items():
            for run in pool.runs():
                copy._pool(priority, None).add(run)
        return copy

    def all(self) -> SequenceSet:
        """Return the messages of all pools, without delayed ones."""
        found = self.usual.copy()
        for pool in self.others.values():
            for run in pool.runs():
                found.add(run)
        return found

    def pools(self) -> list[SequenceSet]:
        """Return copies of all pools, and of the delayed messages."""
        assert all(self.others.values()), "an empty pool was kept"  # noqa: S101
        return [pool.copy() for pool in (self.usual, *self.others.values(), self._delayed)]

    def clear(self) -> None:
        for known in (self.usual, self.others, self.levels, self._delayed, self._due):
            known.clear()
        self.due_times.clear()

    def _find(self, priority: int, eligible: Eligibility) -> SequenceSet | None:
        if priority == PRIORITY and eligible is None:
            return self.usual
        return self.others.get((priority, eligible))

    def _pool(self, priority: int, eligible: Eligibility) -> SequenceSet:
        if priority == PRIORITY and eligible is None:
            return self.usual
        return self.others.setdefault((priority, eligible), SequenceSet())
