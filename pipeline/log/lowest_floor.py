"""The lowest of many floors, without looking at all of them.

A floor rises by itself, and a fall is reported by a call (`fell`). So the last seen value of a
floor is never above the floor, and only the first entries of a heap of seen values must be updated.

Rule 1: `lowest` is the present lowest floor of all members.
Rule 2: `lowest` takes one step for each member at the front of the heap whose floor has risen, and
        none for the others.
Rule 3: `bound` is no higher, takes a thousand steps at most, and goes on where it stopped.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Protocol

#: Stale entries at which the heap is rebuilt: makes leaving O(1) on average.
_STALE_MAX: Final = 64
#: Steps of `bound`, a microsecond or two each: peers wait while it is called.
_STEPS_MAX: Final = 1_000


class Floored(Protocol):
    """An object with a floor, a dispatcher; hashable by identity."""

    @property
    def floor(self) -> int: ...


class LowestFloor:
    """The lowest floor of its members."""

    __slots__ = ("_heap", "_next", "_numbers")

    def __init__(self) -> None:
        #: Last seen floor, number of the entry, and its member. An entry is stale unless its number
        #: is its member's.
        self._heap: list[tuple[int, int, Floored]] = []
        self._numbers: dict[Floored, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, member: Floored) -> None:
        """Add a member, or renew the entry of one whose floor may have fallen."""
        self._next += 1
        self._numbers[member] = self._next
        heappush(self._heap, (member.floor, self._next, member))
        self._tidy()

    def fell(self, member: Floored) -> None:
        """Take note that a floor may have fallen; ignored for an object that is no member."""
        if member in self._numbers:
            self.add(member)

    def discard(self, member: Floored) -> None:
        """Remove a member. To discard it again is no error."""
        if self._numbers.pop(member, None) is not None:
            self._tidy()

    def lowest(self, default: int) -> int:
        """Return the lowest floor, or the default without any member."""
        return self._lowest(default, len(self._heap))

    def bound(self, default: int) -> int:
        """Return a lower bound of all floors: the lowest one, or an earlier value of it where many
        have risen since; the default without any member."""
        return self._lowest(default, _STEPS_MAX)

    def _lowest(self, default: int, steps: int) -> int:
        heap = self._heap
        while heap:
            seen, number, member = heap[0]
            if self._numbers.get(member) != number:
                heappop(heap)
                continue
            if not steps:
                return seen
            steps -= 1
            floor = member.floor
            if floor == seen:
                return floor
            heapreplace(heap, (floor, number, member))
        return default

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._numbers) + _STALE_MAX:
            known = self._numbers
            self._heap = [one for one in self._heap if known.get(one[2]) == one[1]]
            heapify(self._heap)
