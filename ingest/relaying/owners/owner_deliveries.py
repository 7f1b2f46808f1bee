"""An owner's deliveries that a client holds, by the numbers under which the client has them."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from distributary.pipeline.sequences.sequence_set import Run


class _Row:
    """Deliveries whose numbers follow each other; 0 for one that isn't held any more. `left` counts
    the held ones."""

    __slots__ = ("deliveries", "first", "left")

    def __init__(self, first: int, deliveries: "array[int]") -> None:
        self.first, self.deliveries, self.left = first, deliveries, len(deliveries)

    @property
    def stop(self) -> int:
        return self.first + len(self.deliveries)


class OwnerDeliveries:
    """Deliveries of one link. Numbers are given in order, and mostly given back in order:
    deliveries that came together lie in one row until all of them are gone."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[_Row] = []

    def add(self, first: int, deliveries: "array[int]") -> None:
        """Add deliveries, the first one under a number above all numbers that were added so."""
        self._rows.append(_Row(first, deliveries))

    def have_again(self, number: int, delivery: int) -> None:
        """Add a delivery under a number that was taken before."""
        nth = self._nth(number)
        if nth >= 0 and number < self._rows[nth].stop:
            row = self._rows[nth]
            row.left += not row.deliveries[number - row.first]
            row.deliveries[number - row.first] = delivery
        else:
            self._rows.insert(nth + 1, _Row(number, array("Q", (delivery,))))

    def take(self, numbers: Run) -> "array[int]":
        """Remove and return the deliveries with these numbers, 0 where none is held."""
        if not isinstance(numbers, range) or numbers.step != 1:
            return array("Q", map(self._take_one, numbers))
        found, at = array("Q"), numbers.start
        while at < numbers.stop:
            some = self._take(at, numbers.stop)
            found.extend(some)
            at += len(some)
        return found

    def _take_one(self, number: int) -> int:
        nth = self._nth(number)
        if nth < 0 or number >= (row := self._rows[nth]).stop:
            return 0
        at = number - row.first
        found, row.deliveries[at] = row.deliveries[at], 0
        row.left -= bool(found)
        if not row.left:
            del self._rows[nth]
        return found

    def _take(self, start: int, stop: int) -> "array[int]":
        """Take deliveries from `start` on, of one row at most; zeros for numbers before that
        row."""
        nth = self._nth(start)
        row = self._rows[nth] if nth >= 0 else None
        if row is None or start >= row.stop:
            if nth + 1 < len(self._rows):
                stop = min(stop, self._rows[nth + 1].first)
            return array("Q", bytes(8 * (stop - start)))
        begin, end = start - row.first, min(stop, row.stop) - row.first
        found = row.deliveries[begin:end]
        row.deliveries[begin:end] = array("Q", bytes(8 * len(found)))
        row.left -= len(found) - found.count(0)
        if not row.left:
            del self._rows[nth]
        return found

    def take_all(self) -> "tuple[array[int], array[int]]":
        """Remove all held deliveries; return their numbers and the deliveries."""
        pairs = list(self._pairs())
        self._rows.clear()
        return array("Q", [number for number, _ in pairs]), array("Q", [one for _, one in pairs])

    def clear(self) -> None:
        """Remove all deliveries."""
        self._rows.clear()

    def _pairs(self) -> Iterator[tuple[int, int]]:
        for row in self._rows:
            for number, delivery in enumerate(row.deliveries, row.first):
                if delivery:
                    yield number, delivery

    def _nth(self, number: int) -> int:
        """Return the index of the last row that begins at or below this number; -1 if none does."""
        return bisect_right(self._rows, number, key=_first) - 1


def _first(row: _Row) -> int:
    return row.first
