"""The priority and expiry index of one topic: messages of a high priority, and when messages
expire.

One index serves all subscriptions of its topic. It decides only order and time, never what is owed:
a subscription finds every owed message by reading on, whether the index has it or not.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress
from typing import Final, NamedTuple

from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.model.sorting import as_run
from distributary.pipeline.sequences.sequence_set import SequenceSet

#: Stretches behind each other become one while it holds no more sequences than this, and while
#: their messages expire within this time (microseconds): a stretch is looked through as a whole.
STRETCH_MAX: Final = 4_096
TOGETHER_US: Final = 1_000_000
#: Stretches that have lapsed before the heap is made anew: makes leaving O(1) on average.
_TRIM_AT: Final = 4_096

#: The priorities above the usual one; a header that says more means 9.
HIGH: Final = range(9, PRIORITY, -1)
#: Priority -> translation table that makes a 1 of its bytes and a 0 of all others.
_MASKS: Final = [bytes(one == level for one in range(256)) for level in range(10)]


class Ahead(NamedTuple):
    """High priorities and expiries of some of a topic's messages, read from the table."""

    topic: str
    #: Priority above 4 -> its messages, as `SequenceSet.add_packed` takes them.
    high: Mapping[int, tuple[Mapping[int, bytes], Sequence[range]]]
    #: Stretches in which messages expire: earliest expiry, start, stop.
    lapses: Sequence[tuple[int, int, int]]


class PriorityIndex:
    """High priorities and expiries of a topic's messages that some subscription may still be
    owed."""

    __slots__ = ("_lapses", "_last", "_trimmed", "added", "high")

    def __init__(self) -> None:
        #: Priority above 4 -> its messages; the highest first.
        self.high: dict[int, SequenceSet] = {}
        self.added = 0  #: messages of a high priority that were ever added
        self._lapses: list[tuple[int, int, int]] = []  #: a heap: earliest expiry, start, stop
        #: The last stretch, which may still grow: (earliest expiry, start, stop); not in the heap.
        self._last: tuple[int, int, int] | None = None
        self._trimmed = 0

    def add(self, first: int, stop: int, attributes: HeaderAttributes) -> None:
        """Add the messages that became durable: all that the topic has from `first` to `stop -
        1`. Calls come in the order of sequences."""
        priority = bytes(attributes.priority)
        if priority:
            self._add_high(priority, attributes)
        if earliest := attributes.earliest_expiry:
            self._add_stretch(earliest, first, stop)

    def seed(self, ahead: Ahead) -> None:
        """Add the table's statistics at the start; no sequence comes twice."""
        for level, (lanes, full) in ahead.high.items():
            high = self._level(level)
            before = len(high)
            high.add_packed(lanes, full)
            self.added += len(high) - before
        for lapse in ahead.lapses:
            self._add_stretch(*lapse)

    def trim(self, below: int) -> None:
        """Forget all messages below this sequence: no subscription is owed any of them."""
        self._trimmed = max(self._trimmed, below)
        for high in self.high.values():
            first = high.first()
            if first is not None and first < below:
                high.discard(range(first, below))
        if self._last is not None and self._last[2] <= below:
            self._last = None
        if len(self._lapses) > _TRIM_AT and below > self._lapses[0][2]:
            self._lapses = [one for one in self._lapses if one[2] > below]
            heapify(self._lapses)

    def lapsed(self, now: int) -> list[range]:
        """Remove and return the stretches in which a message has expired by now, ascending."""
        if self._last is not None and self._last[0] <= now:
            heappush(self._lapses, self._last)
            self._last = None
        return sorted(self._lapsed(now), key=lambda stretch: stretch.start)

    def again(self, stretch: range, at: int) -> None:
        """Note that a message in this stretch expires at this time (microseconds), too. It may be
        one that was forgotten."""
        self._trimmed = min(self._trimmed, stretch.start)
        heappush(self._lapses, (at, stretch.start, stretch.stop))

    @property
    def empty(self) -> bool:
        """Whether the index has no message."""
        return not (self._lapses or self._last or any(map(len, self.high.values())))

    @property
    def next_lapse(self) -> int | None:
        """Time when the next message expires (microseconds); None if none does."""
        times = [one[0] for one in (*self._lapses[:1], self._last) if one is not None]
        return min(times, default=None)

    def _add_high(self, priority: bytes, attributes: HeaderAttributes) -> None:
        for level in HIGH:
            if level not in priority:
                continue
            high = self._level(level)
            mask = priority.translate(_MASKS[level])
            self.added += mask.count(1)
            if attributes.sequences is None:
                high.add_mask(attributes.first, mask)
            else:
                high.add(as_run(array("q", compress(attributes.sequences, mask))))

    def _level(self, level: int) -> SequenceSet:
        if level not in self.high:
            self.high[level] = SequenceSet()
            self.high = {one: self.high[one] for one in sorted(self.high, reverse=True)}
        return self.high[level]

    def _add_stretch(self, earliest: int, first: int, stop: int) -> None:
        last = self._last
        if last is not None:
            near = abs(earliest - last[0]) <= TOGETHER_US
            start, end = min(first, last[1]), max(stop, last[2])
            if near and end - start <= STRETCH_MAX:
                self._last = (min(earliest, last[0]), start, end)
                return
            heappush(self._lapses, last)
        self._last = (earliest, first, stop)

    def _lapsed(self, now: int) -> Iterator[range]:
        while self._lapses and self._lapses[0][0] <= now:
            _, start, stop = heappop(self._lapses)
            if stop > self._trimmed:
                yield range(max(start, self._trimmed), stop)
