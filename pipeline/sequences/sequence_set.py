"""Sets of sequences, with a byte for each sequence of the chunks in use, so that an operation on a
run costs about as much as on a single sequence.

Rule 1: a run is a Python `range` with a positive step, or, where sequences are too irregular for
        that, an ascending array of them. It may be long, and it may cross chunks.
Rule 2: a chunk without members isn't kept, so every chunk that is kept has a first member. One
        that is full is kept as part of a stretch of full ones, unless it is touched now.
Rule 3: no loop over the members of a range: operations work on slices of bytes.
Rule 4: chunks that aren't in use take little memory (`pipeline.sequences.lane_store`).
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from distributary.pipeline.sequences.chunks import (
    CHUNK,
    MASK,
    ONES,
    SHIFT,
    by_chunk,
    highest_of,
    in_lane,
    lowest_of,
    members,
    merged,
    pieces,
    unpacked,
)
from distributary.pipeline.sequences.lane_store import LaneStore

#: Ascending sequences, without duplicates. An array is of int64 (`q`).
Run: TypeAlias = "range | array[int]"

#: Chunks that are searched one by one for the next one with members, before all are.
NEAR: Final = 64

_ZEROS = bytes(CHUNK)


class SequenceSet(LaneStore):
    """A set of sequences that takes and returns whole runs.

    Dense parts take memory only for their gaps; else a chunk of 4,096 sequences takes some 300
    bytes and at most 512 more, and the LANES_MAX chunks that were used last take 4,096. `first`
    takes the same time however large the set is.
    """

    __slots__ = ("_size",)

    def __init__(self, runs: Iterable[range] = ()) -> None:
        super().__init__()
        self._size = 0
        for run in runs:
            self.add(run)

    def add_packed(self, lanes: Mapping[int, bytes], full: Iterable[range]) -> None:
        """Add the members of packed lanes, none empty or full, and full stretches of chunks. So a
        set of millions is made without a loop over sequences."""
        known = {chunk for chunk in lanes if self._knows(chunk)}
        new = {chunk: lane for chunk, lane in lanes.items() if chunk not in known}
        counts = {chunk: members(lane) for chunk, lane in new.items()}
        self._put_packed(new, counts)
        self._size += sum(counts.values())
        for chunk in known:
            self._add_lane(chunk, unpacked(lanes[chunk]))
        for chunks in full:
            self.add(range(chunks.start << SHIFT, chunks.stop << SHIFT))

    def copy(self) -> "SequenceSet":
        """Return an independent copy."""
        made = SequenceSet()
        made._lanes = {
            chunk: lane if isinstance(lane, bytes) else lane[:]
            for chunk, lane in self._lanes.items()
        }
        made._counts, made._cold = self._counts.copy(), self._cold
        made._lowest, made._size = self._lowest, self._size
        made._full = None if self._full is None else self._full.copy()
        return made

    def __len__(self) -> int:
        return self._size

    def __contains__(self, sequence: int) -> bool:
        chunk = sequence >> SHIFT
        lane = self._lanes.get(chunk)
        if lane is None:
            return self._full is not None and chunk in self._full
        if isinstance(lane, bytes):
            lane = self._heat(chunk)
        return lane[sequence & MASK] == 1

    def add(self, run: Run) -> int:
        """Add a run and return how many of its sequences weren't members before."""
        before = self._size
        lanes, counts, step = self._lanes, self._counts, 1
        parts: Iterable[tuple[int, int, int, int]]
        if (size := len(run)) == 1:
            at = run[0] & MASK
            parts = ((run[0] >> SHIFT, at, at + 1, 1),)  # as `pieces`, without a call
        elif not isinstance(run, range):
            self._add_each(run)
            return self._size - before
        else:
            step = run.step
            whole = step == 1 and size >= CHUNK
            parts = self._edges(run, self._add_whole) if whole else pieces(run)
        for chunk, start, stop, count in parts:
            lane = lanes.get(chunk)
            if lane is None:
                if self._full is not None and chunk in self._full:
                    continue
                lane = self._new_lane(chunk)
            elif isinstance(lane, bytes):
                lane = self._heat(chunk)
            if count == 1:
                added = 1 - lane[start]
                lane[start] = 1
            else:
                added = count - lane[start:stop:step].count(1)
                lane[start:stop:step] = ONES[:count]
            self._size += added
            counts[chunk] += added
        return self._size - before

    def add_mask(self, first: int, mask: bytes) -> None:
        """Add those of `first`, `first + 1`, ... for which the mask has a 1, not a 0."""
        at = 0
        while at < len(mask):
            chunk, start = (first + at) >> SHIFT, (first + at) & MASK
            part = mask[at : at + CHUNK - start]
            count, stop = part.count(1), start + len(part)
            lane = self._writable(chunk) if count else None
            if count == len(part):
                self.add(range(first + at, first + at + count))
            elif count and lane is None and (self._full is None or chunk not in self._full):
                self._new_lane(chunk)[start:stop] = part
                self._counts[chunk] = count
                self._size += count
            elif lane is not None and lane.find(1, start, stop) < 0:
                lane[start:stop] = part
                self._counts[chunk] += count
                self._size += count
            elif lane is not None:
                for one in in_lane(part, first + at, 0, len(part)):
                    self.add(range(*one))
            at += len(part)

    def discard(self, run: Run) -> int:
        """Take the run out and return how many of it were in."""
        before = self._size
        if not before:
            return 0
        lanes, counts, step = self._lanes, self._counts, 1
        parts: Iterable[tuple[int, int, int, int]]
        if (size := len(run)) == 1:
            at = run[0] & MASK
            parts = ((run[0] >> SHIFT, at, at + 1, 1),)  # as `pieces`, without a call
        elif not isinstance(run, range):
            return self._discard_each(run)
        else:
            step = run.step
            whole = step == 1 and size >= CHUNK
            parts = self._edges(run, self._discard_whole) if whole else pieces(run)
        for chunk, start, stop, count in parts:
            lane = lanes.get(chunk)
            if lane is None:
                if self._full is None or chunk not in self._full:
                    continue
                lane = self._broken(chunk)
            elif isinstance(lane, bytes):
                lane = self._heat(chunk)
            if count == 1:
                found = lane[start]
                lane[start] = 0
            else:
                found = lane[start:stop:step].count(1)
                lane[start:stop:step] = _ZEROS[:count]
            self._size -= found
            left = counts[chunk] = counts[chunk] - found
            if not left:
                self._drop_lane(chunk)
        return before - self._size

    def contains_all(self, run: Run) -> bool:
        """Whether every sequence of the run is a member; true for an empty run."""
        if len(run) == 1:
            return run[0] in self
        if not isinstance(run, range):
            return all(map(self.__contains__, run))
        lanes = self._lanes
        for chunk, start, stop, count in pieces(run):
            lane = lanes.get(chunk)
            if isinstance(lane, bytes):
                lane = self._heat(chunk)
            if lane is None:
                if self._full is None or chunk not in self._full:
                    return False
            elif count == 1:
                if not lane[start]:
                    return False
            elif 0 in lane[start : stop : run.step]:
                return False
        return True

    def first(self) -> int | None:
        """Return the lowest member, or None if there is none."""
        if not self._size:
            return None
        lowest = self._lowest
        if lowest is None and self._lanes:
            lowest = self._lowest = min(self._lanes)
        if self._full is not None:
            full = self._full.first()
            assert full is not None  # noqa: S101
            if lowest is None or full < lowest:
                return full << SHIFT
        assert lowest is not None  # noqa: S101
        lane = self._lanes[lowest]
        if isinstance(lane, bytes):
            lane = self._heat(lowest)
        return (lowest << SHIFT) + lane.find(1)

    def gap(self, start: int) -> int:
        """Return the lowest sequence from `start` on that is no member."""
        chunk, at = start >> SHIFT, start & MASK
        while True:
            lane = self._writable(chunk)
            if lane is not None:
                found = lane.find(0, at)
                if found >= 0:
                    return (chunk << SHIFT) + found
                chunk += 1
            elif self._full is not None and chunk in self._full:
                chunk = self._full.stop(chunk)
            else:
                return (chunk << SHIFT) + at
            at = 0

    def next(self, start: int) -> int | None:
        """Return the lowest member from `start` on, or None if there is none."""
        if not self._size:
            return None
        chunk = start >> SHIFT
        lane = self._writable(chunk)
        if lane is not None:
            found = lane.find(1, start & MASK)
            if found >= 0:
                return (chunk << SHIFT) + found
            chunk += 1
        elif self._full is not None and chunk in self._full:
            return start
        full = None if self._full is None else self._full.next(chunk)
        near = (one for one in range(chunk, chunk + NEAR) if one in self._lanes)
        first = next(near, None)
        if first is None:
            first = min([one for one in self._lanes if one >= chunk], default=full)
        if first is None or (full is not None and full <= first):
            return None if full is None else full << SHIFT
        lane = self._writable(first)
        assert lane is not None  # noqa: S101
        return (first << SHIFT) + lane.find(1)

    def runs(self) -> Iterator[range]:
        """Yield the members as stretches of consecutive ones, ascending, no two touching."""
        return self._stretches(sorted([*self._lanes, *(self._full or ())], key=lowest_of), 0, CHUNK)

    def runs_within(self, start: int, stop: int) -> Iterator[range]:
        """Do `runs` for the members with start <= member < stop.

        Yielded runs may be discarded during the iteration.
        """
        if start >= stop:
            return iter(())
        first, last = start >> SHIFT, (stop - 1) >> SHIFT
        chunks: list[int | range]
        if last - first < len(self._lanes):
            chunks = [chunk for chunk in range(first, last + 1) if chunk in self._lanes]
        else:
            chunks = [*sorted([chunk for chunk in self._lanes if first <= chunk <= last])]
        if self._full is not None:
            chunks = sorted([*chunks, *self._full.within(first, last + 1)], key=lowest_of)
        if not chunks:
            return iter(())
        begin = start & MASK if lowest_of(chunks[0]) == first else 0
        end = ((stop - 1) & MASK) + 1 if highest_of(chunks[-1]) == last else CHUNK
        return self._stretches(chunks, begin, end)

    def clear(self) -> None:
        self._lanes.clear()
        self._counts.clear()
        self._cold = 0
        self._full = None
        self._lowest = None
        self._size = 0

    def _add_lane(self, chunk: int, members: bytearray) -> None:
        """Add members to a chunk that has a lane or is full."""
        lane = self._writable(chunk)
        if lane is not None:
            both = int.from_bytes(lane, "big") | int.from_bytes(members, "big")
            lane[:] = both.to_bytes(CHUNK, "big")
            added = lane.count(1) - self._counts[chunk]
            self._counts[chunk] += added
            self._size += added

    def _knows(self, chunk: int) -> bool:
        """Whether the chunk has a lane, or is full."""
        return chunk in self._lanes or (self._full is not None and chunk in self._full)

    def _add_each(self, run: "array[int]") -> None:
        for chunk, part in by_chunk(run):
            lane = self._writable(chunk)
            if lane is None:
                if self._full is not None and chunk in self._full:
                    continue
                lane = self._new_lane(chunk)
            added = 0
            for one in part:
                if not lane[one & MASK]:
                    lane[one & MASK] = 1
                    added += 1
            self._size += added
            self._counts[chunk] += added

    def _discard_each(self, run: "array[int]") -> int:
        before = self._size
        for chunk, part in by_chunk(run):
            lane = self._writable(chunk)
            if lane is None:
                if self._full is None or chunk not in self._full:
                    continue
                lane = self._broken(chunk)
            found = 0
            for one in part:
                if lane[one & MASK]:
                    lane[one & MASK] = 0
                    found += 1
            self._size -= found
            left = self._counts[chunk] = self._counts[chunk] - found
            if not left:
                self._drop_lane(chunk)
        return before - self._size

    def _edges(
        self, run: range, whole: Callable[[int, int], None]
    ) -> Iterable[tuple[int, int, int, int]]:
        """Yield the pieces of the run, except whole chunks, which are handled at once here."""
        first, last = -(-run.start >> SHIFT), run.stop >> SHIFT
        if first >= last:
            return pieces(run)
        whole(first, last)
        before = pieces(range(run.start, first << SHIFT))
        return (*before, *pieces(range(last << SHIFT, run.stop)))

    def _add_whole(self, first: int, last: int) -> None:
        had = self._drop_whole(first, last)
        self._fill(first, last)
        self._size += (last - first) * CHUNK - had

    def _discard_whole(self, first: int, last: int) -> None:
        had = self._drop_whole(first, last)
        self._unfill(first, last)
        self._size -= had

    def _stretches(self, chunks: list[int | range], begin: int, end: int) -> Iterator[range]:
        """Yield the stretches in these chunks, from `begin` in the first to `end` in the last."""
        return merged(
            part
            for nth, chunk in enumerate(chunks, 1)
            for part in self._parts(
                chunk, begin if nth == 1 else 0, end if nth == len(chunks) else CHUNK
            )
        )

    def _parts(self, chunk: int | range, begin: int, end: int) -> Iterable[tuple[int, int]]:
        """Yield the stretches in a chunk, or in consecutive full ones."""
        if isinstance(chunk, range):
            return (((chunk.start << SHIFT) + begin, (chunk.stop - 1 << SHIFT) + end),)
        lane = self._lanes.get(chunk)
        if lane is None:  # it is full since then
            lane = ONES if self._full is not None and chunk in self._full else _ZEROS
        elif isinstance(lane, bytes):
            lane = unpacked(lane)
        return in_lane(lane, chunk << SHIFT, begin, end)
