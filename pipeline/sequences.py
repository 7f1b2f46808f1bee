"""Sets of sequences, a byte for each, so that a run costs about as much as a single one.

Rule 1: a run is a Python `range` with a positive step, or, where sequences are too irregular for
        that, an ascending array of them. It may be long, and it may cross chunks.
Rule 2: a chunk without members isn't kept, so every chunk that is kept has a first member.
Rule 3: no loop over the members of a range: what is done to it is done to a slice of bytes.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self, TypeAlias

#: Ascending sequences, without duplicates. An array is of int64 (`q`).
Run: TypeAlias = "range | array[int]"

#: Sequences per chunk: a power of two. A lone member costs this many bytes.
CHUNK: Final = 4096
_SHIFT = 12
_MASK = CHUNK - 1
_ONES = b"\1" * CHUNK
_ZEROS = bytes(CHUNK)

#: A range of this many sequences costs less as it is than in an array.
_LONG = 16
#: Fewer ranges than this behind each other aren't worth an array.
_MANY = 4


class SequenceSet:
    """A set of sequences that takes and gives whole runs.

    Dense sets cost one byte a member. `first` costs the same however large the set is.
    """

    __slots__ = ("_counts", "_lanes", "_lowest", "_size")

    def __init__(self, runs: Iterable[range] = ()) -> None:
        self._lanes: dict[int, bytearray] = {}  #: chunk -> one byte per sequence, 0 or 1
        self._counts: dict[int, int] = {}  #: chunk -> members in it; never 0
        self._lowest: int | None = None  #: the lowest chunk; None: empty, or not known
        self._size = 0
        for run in runs:
            self.add(run)

    @classmethod
    def of_lanes(cls, lanes: Mapping[int, bytearray]) -> Self:
        """The set with these lanes, which it keeps and changes: for chunk n the byte at i, 0 or 1,
        says whether `n * CHUNK + i` is a member. So a set of millions is made without a run."""
        made = cls()
        for chunk, lane in lanes.items():
            assert len(lane) == CHUNK, f"a lane of {len(lane)} bytes"  # noqa: S101
            if count := lane.count(1):
                made._lanes[chunk] = lane
                made._counts[chunk] = count
                made._size += count
        return made

    def copy(self) -> "SequenceSet":
        """The same members in a set of its own."""
        return SequenceSet.of_lanes({chunk: lane[:] for chunk, lane in self._lanes.items()})

    def __len__(self) -> int:
        return self._size

    def __contains__(self, sequence: int) -> bool:
        lane = self._lanes.get(sequence >> _SHIFT)
        return lane is not None and lane[sequence & _MASK] == 1

    def add(self, run: Run) -> None:
        """Put the run in; what is in already stays."""
        if not isinstance(run, range):
            self._add_each(run)
            return
        for chunk, start, stop, count in _pieces(run):
            lane = self._lanes.get(chunk)
            if lane is None:
                lane = self._new_lane(chunk)
            if count == 1:
                added = 1 - lane[start]
                lane[start] = 1
            else:
                added = count - lane[start : stop : run.step].count(1)
                lane[start : stop : run.step] = _ONES[:count]
            self._counts[chunk] += added
            self._size += added

    def discard(self, run: Run) -> int:
        """Take the run out and return how many of it were in."""
        if not self._size:
            return 0
        if not isinstance(run, range):
            return self._discard_each(run)
        removed = 0
        for chunk, start, stop, count in self._known_pieces(run):
            lane = self._lanes.get(chunk)
            if lane is None:
                continue
            if count == 1:
                found = lane[start]
                lane[start] = 0
            else:
                found = lane[start : stop : run.step].count(1)
                lane[start : stop : run.step] = _ZEROS[:count]
            removed += found
            left = self._counts[chunk] = self._counts[chunk] - found
            if not left:
                self._drop_lane(chunk)
        self._size -= removed
        return removed

    def contains_all(self, run: Run) -> bool:
        """Whether every sequence of the run is in; true of an empty run."""
        if not isinstance(run, range):
            return all(map(self.__contains__, run))
        for chunk, start, stop, count in _pieces(run):
            lane = self._lanes.get(chunk)
            if lane is None:
                return False
            if count == 1:
                if not lane[start]:
                    return False
            elif 0 in lane[start : stop : run.step]:
                return False
        return True

    def first(self) -> int | None:
        """The lowest member, or None if there is none."""
        if not self._size:
            return None
        if self._lowest is None:
            self._lowest = min(self._lanes)
        return (self._lowest << _SHIFT) + self._lanes[self._lowest].find(1)

    def runs(self) -> Iterator[range]:
        """The members as stretches of consecutive ones, ascending, no two touching."""
        return self._stretches(sorted(self._lanes), 0, CHUNK)

    def runs_within(self, start: int, stop: int) -> Iterator[range]:
        """As `runs`, of the members with start <= member < stop.

        What was yielded may be discarded while this goes on.
        """
        if start >= stop:
            return iter(())
        first, last = start >> _SHIFT, (stop - 1) >> _SHIFT
        if last - first < len(self._lanes):
            chunks = [chunk for chunk in range(first, last + 1) if chunk in self._lanes]
        else:
            chunks = sorted(chunk for chunk in self._lanes if first <= chunk <= last)
        if not chunks:
            return iter(())
        begin = start & _MASK if chunks[0] == first else 0
        end = ((stop - 1) & _MASK) + 1 if chunks[-1] == last else CHUNK
        return self._stretches(chunks, begin, end)

    def clear(self) -> None:
        self._lanes.clear()
        self._counts.clear()
        self._lowest = None
        self._size = 0

    def _add_each(self, run: "array[int]") -> None:
        for chunk, part in _by_chunk(run):
            lane = self._lanes.get(chunk)
            if lane is None:
                lane = self._new_lane(chunk)
            added = 0
            for one in part:
                if not lane[one & _MASK]:
                    lane[one & _MASK] = 1
                    added += 1
            self._counts[chunk] += added
            self._size += added

    def _discard_each(self, run: "array[int]") -> int:
        removed = 0
        for chunk, part in _by_chunk(run):
            lane = self._lanes.get(chunk)
            if lane is None:
                continue
            found = 0
            for one in part:
                if lane[one & _MASK]:
                    lane[one & _MASK] = 0
                    found += 1
            removed += found
            left = self._counts[chunk] = self._counts[chunk] - found
            if not left:
                self._drop_lane(chunk)
        self._size -= removed
        return removed

    def _new_lane(self, chunk: int) -> bytearray:
        if not self._lanes or (self._lowest is not None and chunk < self._lowest):
            self._lowest = chunk
        lane = self._lanes[chunk] = bytearray(CHUNK)
        self._counts[chunk] = 0
        return lane

    def _drop_lane(self, chunk: int) -> None:
        del self._lanes[chunk], self._counts[chunk]
        if chunk == self._lowest:
            self._lowest = None

    def _known_pieces(self, run: range) -> Iterable[tuple[int, int, int, int]]:
        """The pieces of the run; of a run over more chunks than there are, only those needed."""
        if len(run) <= CHUNK or run.step != 1 or len(run) >> _SHIFT <= len(self._lanes):
            return _pieces(run)
        parts = (
            range(max(run.start, chunk << _SHIFT), min(run.stop, (chunk + 1) << _SHIFT))
            for chunk in tuple(self._lanes)
        )
        return (piece for part in parts for piece in _pieces(part))

    def _stretches(self, chunks: list[int], begin: int, end: int) -> Iterator[range]:
        """The stretches in these chunks, from `begin` in the first one to `end` in the last."""
        start = stop = -1  # the stretch that may still grow; none yet
        for nth, chunk in enumerate(chunks, 1):
            lane = self._lanes[chunk]
            base = chunk << _SHIFT
            limit = end if nth == len(chunks) else CHUNK
            at = lane.find(1, begin if nth == 1 else 0, limit)
            while at >= 0:
                after = lane.find(0, at, limit)
                after = limit if after < 0 else after
                if base + at != stop:
                    if stop >= 0:
                        yield range(start, stop)
                    start = base + at
                stop = base + after
                at = lane.find(1, after, limit)
        if stop >= 0:
            yield range(start, stop)


def stretches(sequences: Iterable[int]) -> Iterator[range]:
    """Ascending sequences as runs that are as long as can be."""
    start = stop = -1
    for one in sequences:
        if one != stop:
            if stop > start:
                yield range(start, stop)
            start = one
        stop = one + 1
    if stop > start:
        yield range(start, stop)


def strided(runs: Iterable[range]) -> Iterator[range]:
    """The same sequences in fewer runs: lone ones at even distances become one run with a step.

    Takes runs that ascend and do not overlap; so are those that it gives.
    """
    waiting: range | None = None
    for run in runs:
        if waiting is None:
            waiting = run
        elif len(run) == 1 and (longer := _longer(waiting, run.start)) is not None:
            waiting = longer
        else:
            yield waiting
            waiting = run
    if waiting is not None:
        yield waiting


def gathered(runs: Iterable[range], most: int) -> Iterator[Run]:
    """The same sequences in few runs: as `strided`, and short ranges behind each other in arrays.

    Of the runs, no more are taken at once than hold `most` sequences.
    """
    short: list[range] = []
    size = 0
    for run in strided(runs):
        if len(run) >= _LONG:
            yield from _joined(short)
            short, size = [], 0
            yield run
            continue
        short.append(run)
        size += len(run)
        if size >= most:
            yield from _joined(short)
            short, size = [], 0
    yield from _joined(short)


def gaps(runs: Iterable[range], start: int, stop: int) -> Iterator[range]:
    """What of `start .. stop - 1` is in none of the runs, which ascend and lie within it."""
    for run in runs:
        if start < run.start:
            yield range(start, run.start)
        start = run.stop
    if start < stop:
        yield range(start, stop)


def _joined(short: list[range]) -> Iterable[Run]:
    if len(short) < _MANY:
        return short
    joined = array("q")
    for run in short:
        joined.extend(run)
    return (joined,)


def _by_chunk(run: "array[int]") -> Iterator[tuple[int, "array[int]"]]:
    """The array in parts, each with the chunk that all of it lies in."""
    at = 0
    while at < len(run):
        chunk = run[at] >> _SHIFT
        stop = bisect_left(run, (chunk + 1) << _SHIFT, at)
        yield chunk, run[at:stop]
        at = stop


def _longer(run: range, sequence: int) -> range | None:
    """The run with one more sequence at its end, if that is a run."""
    step = run.step if len(run) > 1 else sequence - run.start
    if sequence - run[-1] != step:
        return None
    return range(run.start, sequence + 1, step)


def _pieces(run: range) -> Iterable[tuple[int, int, int, int]]:
    """The run as (chunk, start and stop in its lane, count), a piece for each chunk."""
    count = len(run)
    if not count:
        return ()
    first = run.start
    chunk = first >> _SHIFT
    if count == 1:
        start = first & _MASK
        return ((chunk, start, start + 1, 1),)
    last = run[-1]
    if last >> _SHIFT == chunk:
        return ((chunk, first & _MASK, (last & _MASK) + 1, count),)
    return _pieces_of_many(first, run.step, count)


def _pieces_of_many(first: int, step: int, left: int) -> Iterator[tuple[int, int, int, int]]:
    while left:
        start = first & _MASK
        count = min(left, (CHUNK - start + step - 1) // step)
        yield first >> _SHIFT, start, start + (count - 1) * step + 1, count
        first += count * step
        left -= count
