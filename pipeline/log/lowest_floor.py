"""The lowest of many floors, without looking at all of them.

A floor rises by itself, and falls only when somebody says so. So what was seen of it last is never
above it, and of a heap of what was seen only the first ones must be looked at again.

Rule 1: `lowest` is the lowest floor of all members, as it is now.
Rule 2: it takes one step for each member whose floor has risen since it was last the lowest one,
        and none for the others.
Rule 3: `bound` is no higher, takes a thousand steps at most, and goes on where it stopped.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Protocol

#: Entries that mean nothing any more before the heap is made anew: makes leaving O(1) on average.
_STALE_MAX: Final = 64
#: Steps of `bound`, a microsecond or two each: it is asked while peers wait.
_STEPS_MAX: Final = 1_000


class Floored(Protocol):
    """What has a floor: a dispatcher. It is its own key."""

    @property
    def floor(self) -> int: ...


class LowestFloor:
    """The lowest floor of its members."""

    __slots__ = ("_heap", "_next", "_numbers")

    def __init__(self) -> None:
        #: What was seen of a floor last, the number of the entry, and whose it is. An entry that
        #: hasn't its member's number means nothing.
        self._heap: list[tuple[int, int, Floored]] = []
        self._numbers: dict[Floored, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, member: Floored) -> None:
        """A new member; or the floor of one that is there has fallen, perhaps."""
        self._next += 1
        self._numbers[member] = self._next
        heappush(self._heap, (member.floor, self._next, member))
        self._tidy()

    def fell(self, member: Floored) -> None:
        """Its floor may have fallen. Of one that is no member nothing is known."""
        if member in self._numbers:
            self.add(member)

    def discard(self, member: Floored) -> None:
        """It is no member any more. To discard it again is no error."""
        if self._numbers.pop(member, None) is not None:
            self._tidy()

    def lowest(self, default: int) -> int:
        """The lowest floor, or the default without any member."""
        return self._lowest(default, len(self._heap))

    def bound(self, default: int) -> int:
        """A floor below which none is: the lowest one, or what was seen of it before where many
        have risen since. The default without any member."""
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
