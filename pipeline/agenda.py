"""What lies ahead in one topic: messages of a high priority, and when messages expire.

One agenda serves all subscriptions of its topic. It decides only order and time, never what is
owed: a subscription finds every message that is owed by reading on, whether it is here or not.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import compress
from typing import Final

from pipeline.traits import PRIORITY, Traits

#: Stretches behind each other become one while it holds no more sequences than this, and while
#: what is in them expires within this time (microseconds): a stretch is looked through as a whole.
STRETCH_MAX: Final = 4_096
TOGETHER_US: Final = 1_000_000
#: Sequences that are gone before a list is cut: makes leaving O(1) on average.
_TRIM_AT: Final = 4_096


@dataclass(slots=True)
class High:
    """The messages of one high priority, ascending. The one at `i` is the `base + i`-th that there
    ever was, so a reader's place stays right when those before it leave."""

    sequences: "array[int]" = field(default_factory=lambda: array("q"))
    base: int = 0

    def trim(self, below: int) -> None:
        gone = bisect_left(self.sequences, below)
        if gone == len(self.sequences) or gone >= max(_TRIM_AT, len(self.sequences) // 2):
            del self.sequences[:gone]
            self.base += gone


class Agenda:
    """High priorities and expiries of a topic's messages that somebody may still be owed."""

    __slots__ = ("_lapses", "_last", "_trimmed", "added", "high")

    def __init__(self) -> None:
        self.high: dict[int, High] = {}  #: priority above 4 -> its messages; the highest first
        self.added = 0  #: messages of a high priority that there ever were
        self._lapses: list[tuple[int, int, int]] = []  #: a heap: earliest expiry, start, stop
        #: The last stretch, which may still grow: (earliest expiry, start, stop); not in the heap.
        self._last: tuple[int, int, int] | None = None
        self._trimmed = 0

    def add(self, first: int, stop: int, traits: Traits) -> None:
        """These messages, all that the topic has from `first` to `stop - 1`, became durable, or
        were found at start. They come in the order of their sequences."""
        priority = bytes(traits.priority)
        if priority and max(priority) > PRIORITY:
            self._add_high(priority, traits)
        if traits.expires_at:
            expiries = memoryview(traits.expires_at).cast("B").cast("q")
            earliest = min(filter(None, expiries), default=0)
            if earliest:
                self._add_stretch(earliest, first, stop)

    def trim(self, below: int) -> None:
        """Nobody is owed anything below this sequence."""
        self._trimmed = max(self._trimmed, below)
        for high in self.high.values():
            high.trim(below)
        if self._last is not None and self._last[2] <= below:
            self._last = None
        if len(self._lapses) > _TRIM_AT and below > self._lapses[0][2]:
            self._lapses = [one for one in self._lapses if one[2] > below]
            heapify(self._lapses)

    def lapsed(self, now: int) -> list[range]:
        """Stretches in which something has expired by now, ascending; they leave the agenda."""
        if self._last is not None and self._last[0] <= now:
            heappush(self._lapses, self._last)
            self._last = None
        return sorted(self._lapsed(now), key=lambda stretch: stretch.start)

    def again(self, stretch: range, at: int) -> None:
        """Something in this stretch expires at this time, too."""
        heappush(self._lapses, (at, stretch.start, stretch.stop))

    @property
    def next_lapse(self) -> int | None:
        """When the next message expires; None if none does."""
        times = [one[0] for one in (*self._lapses[:1], self._last) if one is not None]
        return min(times, default=None)

    def _add_high(self, priority: bytes, traits: Traits) -> None:
        for level in sorted(set(priority), reverse=True):
            if level <= PRIORITY:
                break
            if level not in self.high:
                self.high[level] = High()
                self.high = {one: self.high[one] for one in sorted(self.high, reverse=True)}
            sequences = traits.sequences or range(traits.first, traits.first + len(priority))
            found = array("q", compress(sequences, [one == level for one in priority]))
            self.high[level].sequences.extend(found)
            self.added += len(found)

    def _add_stretch(self, earliest: int, first: int, stop: int) -> None:
        last = self._last
        if last is not None:
            near = abs(earliest - last[0]) <= TOGETHER_US
            if near and stop - last[1] <= STRETCH_MAX:
                self._last = (min(earliest, last[0]), last[1], stop)
                return
            heappush(self._lapses, last)
        self._last = (earliest, first, stop)

    def _lapsed(self, now: int) -> Iterator[range]:
        while self._lapses and self._lapses[0][0] <= now:
            _, start, stop = heappop(self._lapses)
            if stop > self._trimmed:
                yield range(max(start, self._trimmed), stop)
