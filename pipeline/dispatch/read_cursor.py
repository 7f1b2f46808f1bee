"""The read cursor of one subscription: its position in the topic, and the messages above it that
aren't to be read.

Rule 1: all owed messages below the position were read; of those above it only the ones in `passed`
        were.
Rule 2: the priority index says which unread messages have a high priority, so that they can be read
        early. A message that isn't in the index is found when the position comes to it.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.sequences.gathering import gaps, gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

#: Number of messages that `skip_early` passes over at a time.
_SKIPPED: Final = 4_096
#: Above every sequence.
FOREVER: Final = 2**63


class ReadCursor:
    """The position of one subscription, and the messages above it that aren't to be read."""

    __slots__ = ("_at", "passed", "position", "priority_index", "reach", "read_before", "seen")

    def __init__(
        self, position: int, passed: SequenceSet, priority_index: PriorityIndex | None
    ) -> None:
        self.passed = passed  #: settled, read early or not owed: above the position only
        self.priority_index = priority_index
        self.reach = 0  #: no message from here on was delivered ahead of the position
        self.read_before = 0  #: messages below it may have been delivered before a rewind
        self._at: dict[int, int] = {}  #: priority -> the sequence from which to search its messages
        #: `added` of the priority index when it had no message to read early.
        self.seen = -1
        self.position = position
        self.move(position)

    def move(self, position: int) -> None:
        """Set the position, and move it behind the passed messages that begin there."""
        self.position = position
        first = self.passed.first()
        if first is None or first > position:
            return
        self.position = self.passed.gap(position)
        self.passed.discard(range(first, self.position))

    def pass_over(self, run: Run) -> None:
        """Note that messages were read, or aren't owed."""
        self.passed.add(run)
        self.move(self.position)

    def reached(self, run: Run) -> None:
        """Note that messages were delivered, below or above the position."""
        if run and run[-1] >= self.reach:
            self.reach = run[-1] + 1

    def rewind(self, position: int) -> None:
        """Make all messages from this position on unread."""
        self.read_before = max(self.read_before, self.reach, self.position)
        self.passed.clear()
        self._at.clear()
        self.seen = -1
        self.reach = 0
        self.position = position

    def runs(
        self, start: int, stop: int, sequences: "array[int] | None", room: int
    ) -> Iterable[Run]:
        """Return the unread messages of `start .. stop - 1`; `sequences`, if given, lists all
        messages there."""
        if sequences is not None:
            return self._listed(sequences, start, stop, room)
        if not self.passed:
            return (range(start, stop),)
        return gathered(gaps(self.passed.runs_within(start, stop), start, stop), room)

    def among(self, run: Run) -> list[Run]:
        """Return the unread messages of the run."""
        run = run[bisect_left(run, self.position) :]
        if not run:
            return []
        if isinstance(run, range) and run.step == 1:
            return list(self.runs(run.start, run.stop, None, len(run)))
        left = array("q", [one for one in run if one not in self.passed])
        return [left] if left else []

    def ahead(self) -> tuple[int, int] | None:
        """Return the first unread message of the highest priority above the usual, as (priority,
        sequence); None if the priority index has none."""
        if self.priority_index is None or self.priority_index.added == self.seen:
            return None
        for priority, high in self.priority_index.high.items():
            found = self._next(priority, high)
            if found is not None:
                return priority, found
        self.seen = self.priority_index.added
        return None

    def urgent(self, run: Run) -> Iterator[tuple[int, Run]]:
        """Return the messages of the run that are in the priority index, by priority."""
        if self.priority_index is None or not run:
            return
        for priority, high in self.priority_index.high.items():
            found = array("q", [one for one in run if one in high])
            if found:
                yield priority, found

    def early(self, priority: int, stop: int, sequences: Run, most: int) -> Run:
        """Return at most `most` unread messages of this priority below `stop` that are among these
        sequences. The index's other messages there aren't owed: they are passed over."""
        assert self.priority_index is not None  # noqa: S101
        high = self.priority_index.high[priority]
        first = self._next(priority, high)
        if first is None:
            return range(0)
        known = chain.from_iterable(high.runs_within(first, stop))
        part = array("q", islice(known, most))
        listed = sequences if isinstance(sequences, range) else frozenset(sequences)
        found = array("q", [one for one in part if one not in self.passed and one in listed])
        strangers = array("q", [one for one in part if one not in listed])
        if strangers:
            self.pass_over(strangers)
        return range(found[0], found[-1] + 1) if _dense(found) else found

    def skip_early(self, priority: int, stop: int) -> None:
        """Pass over the messages of this priority below `stop` in the priority index: the topic
        doesn't have them."""
        while (ahead := self.ahead()) is not None and ahead[0] == priority and ahead[1] < stop:
            self.early(priority, stop, range(0), _SKIPPED)

    def _next(self, priority: int, high: SequenceSet) -> int | None:
        """Return the first unread message of this priority."""
        at = max(self._at.get(priority, 0), self.position)
        while (found := high.next(at)) is not None and found in self.passed:
            at = self.passed.gap(found)
        self._at[priority] = at if found is None else found
        return found

    def _listed(
        self, sequences: "array[int]", start: int, stop: int, room: int
    ) -> Iterator["array[int]"]:
        """Return the unread ones of these sequences, in parts of at most `room`."""
        at = bisect_left(sequences, start)
        end = len(sequences)
        if end and sequences[-1] >= stop:
            end = bisect_left(sequences, stop)
        while at < end:
            part = sequences[at : min(at + max(room, 1), end)]
            at += len(part)
            if self.passed:
                part = array("q", [one for one in part if one not in self.passed])
            if part:
                yield part


def _dense(sequences: "array[int]") -> bool:
    return len(sequences) > 0 and sequences[-1] - sequences[0] == len(sequences) - 1
