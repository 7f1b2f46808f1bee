"""Stretches of whole numbers: a dense set takes memory for its gaps only, however long it is."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Spans:
    """A set of whole numbers as stretches: ascending, none empty, no two touching."""

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __contains__(self, number: int) -> bool:
        nth = bisect_right(self._starts, number) - 1
        return nth >= 0 and number < self._stops[nth]

    def __iter__(self) -> Iterator[range]:
        return map(range, self._starts, self._stops)

    def first(self) -> int | None:
        """Return the lowest member, or None if there is none."""
        return self._starts[0] if self._starts else None

    def next(self, number: int) -> int | None:
        """Return the lowest member from this number on."""
        nth = bisect_right(self._stops, number)
        return max(self._starts[nth], number) if nth < len(self._starts) else None

    def stop(self, number: int) -> int:
        """Return the end of the stretch with this member."""
        return self._stops[bisect_right(self._starts, number) - 1]

    def within(self, start: int, stop: int) -> list[range]:
        """Return the stretches of the members with start <= member < stop."""
        begin, end = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        pairs = zip(self._starts[begin:end], self._stops[begin:end], strict=True)
        return [range(max(first, start), min(last, stop)) for first, last in pairs]

    def add(self, start: int, stop: int) -> None:
        """Add all numbers with start <= number < stop."""
        begin, end = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if begin < end:  # they touch
            start = min(start, self._starts[begin])
            stop = max(stop, self._stops[end - 1])
        self._starts[begin:end] = [start]
        self._stops[begin:end] = [stop]

    def discard(self, start: int, stop: int) -> None:
        """Remove all numbers with start <= number < stop."""
        begin, end = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        if begin >= end:
            return
        left = [(self._starts[begin], start), (stop, self._stops[end - 1])]
        left = [(first, last) for first, last in left if first < last]
        self._starts[begin:end] = [first for first, _ in left]
        self._stops[begin:end] = [last for _, last in left]

    def copy(self) -> "Spans":
        """Return an independent copy."""
        made = Spans()
        made._starts, made._stops = self._starts[:], self._stops[:]
        return made
