"""Bitmaps and columns of sequences turned into the core's sets by numpy and roaring, without a loop
over sequences.
"""

import itertools
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from distributary.pipeline.sequences.chunks import ALL_BUT, CHUNK, FEW
from distributary.pipeline.sequences.sequence_set import SequenceSet
from distributary.pipeline.tables.arrow.arrow_types import Int64s

#: A set of sequences as Spark's table stores it, for rooms that don't import roaring.
Bitmap: TypeAlias = BitMap64
#: Sequences in one step of `set_of`: four containers of roaring's.
WINDOW = 1 << 18

_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Members of a set as `pipeline.sequences.chunks` packs them: a lane for each chunk that is
    neither empty nor full, and stretches of full chunks."""

    packed: dict[int, bytes] = field(default_factory=dict)
    full: list[range] = field(default_factory=list)

    def add_mask(self, first: int, mask: _Bytes) -> None:
        """Add `first + i` for each i where the mask has a 1."""
        before = first % CHUNK
        after = -(before + len(mask)) % CHUNK
        rows = np.pad(mask, (before, after)).reshape(-1, CHUNK)
        self._add_rows(first // CHUNK + np.arange(len(rows)), rows)

    def add(self, sequences: Int64s) -> None:
        """Add ascending sequences; none of their chunks may have members yet."""
        self._add_places(sequences, 1)

    def add_all_but(self, start: int, stop: int, others: Int64s) -> None:
        """Add `start` to `stop - 1`, both at borders of chunks, except the sequences `others`:
        ascending, and at least one."""
        own = self._add_places(others, 0)
        ends = [start // CHUNK - 1, *own.tolist(), stop // CHUNK]
        self.full.extend(
            range(before + 1, after)
            for before, after in itertools.pairwise(ends)
            if before + 1 < after
        )

    def _add_places(self, sequences: Int64s, which: int) -> Int64s:
        """Pack chunks by their ones (`which` = 1) or zeros (0); return the chunks' numbers."""
        chunk_of = sequences // CHUNK
        places = sequences - chunk_of * CHUNK
        begins = np.flatnonzero(np.diff(chunk_of, prepend=-1))
        chunks, cuts = chunk_of[begins], np.append(begins, len(places))
        counts = np.diff(cuts)
        few = counts <= FEW
        data, head = places.astype(np.uint16).tobytes(), b"" if which else ALL_BUT
        for chunk, begin, end in zip(
            chunks[few].tolist(), cuts[:-1][few].tolist(), cuts[1:][few].tolist(), strict=True
        ):
            self.packed[chunk] = head + data[2 * begin : 2 * end]
        many = np.flatnonzero(~few)
        rows = np.full((len(many), CHUNK), 1 - which, np.uint8)
        row_of = np.repeat(np.arange(len(many)), counts[many])
        rows[row_of, places[np.repeat(~few, counts)]] = which
        self._add_rows(chunks[many], rows)
        return chunks

    def _add_rows(self, chunks: Int64s, rows: _Bytes) -> None:
        """Pack chunks from rows with one byte for each sequence."""
        counts = np.count_nonzero(rows, axis=1)
        bits = np.packbits(rows, axis=1)
        for nth, (chunk, count) in enumerate(zip(chunks.tolist(), counts.tolist(), strict=True)):
            if count == CHUNK:
                self.full.append(range(chunk, chunk + 1))
            elif CHUNK - count <= FEW:
                self.packed[chunk] = ALL_BUT + _places(rows[nth] == 0)
            elif count > FEW:
                self.packed[chunk] = bits[nth].tobytes()
            elif count:
                self.packed[chunk] = _places(rows[nth])

    def into(self, members: SequenceSet) -> None:
        """Add all members to a set."""
        members.add_packed(self.packed, self.full)


def _places(lane: npt.NDArray[np.bool_] | _Bytes) -> bytes:
    return np.flatnonzero(lane).astype(np.uint16).tobytes()


def read_bitmap(data: bytes) -> Bitmap:
    """Read a portable 64-bit roaring bitmap. Raises ValueError for other bytes."""
    return BitMap64.deserialize(data)


def bitmap_of(values: Int64s) -> BitMap64:
    """Make a set of these sequences, best in ascending order; repeated ones count once."""
    # An array of this type is the only argument that BitMap64 doesn't read number by number.
    return BitMap64(array("Q", values.tobytes()))


def set_of(bitmap: BitMap64) -> SequenceSet:
    """Convert a bitmap into a SequenceSet; dense parts cost neither time nor memory."""
    lanes = Lanes()
    for start, stop in _windows(bitmap):
        if bitmap.contains_range(start, stop):
            lanes.full.append(range(start // CHUNK, stop // CHUNK))
            continue
        window = BitMap64(range(start, stop))
        members = bitmap & window
        if len(members) <= len(window) // 2:
            lanes.add(_sequences(members))
        else:
            lanes.add_all_but(start, stop, _sequences(window - members))
    found = SequenceSet()
    lanes.into(found)
    return found


def _sequences(bitmap: BitMap64) -> Int64s:
    return np.frombuffer(bitmap.to_array(), np.int64)


def _windows(bitmap: BitMap64) -> Iterator[tuple[int, int]]:
    """Return the windows that have members; adjacent full windows are one."""
    start = int(bitmap.min()) // CHUNK * CHUNK if bitmap else 0
    end = (int(bitmap.max()) // CHUNK + 1) * CHUNK if bitmap else 0
    while start < end:
        stop = min(start + WINDOW, end)
        count = bitmap.range_cardinality(start, stop)
        if count == stop - start:
            stop = _full_up_to(bitmap, stop)
        if count:
            yield start, stop
            start = stop
        else:
            start = int(bitmap.next_set_bit(stop)) // CHUNK * CHUNK


def _full_up_to(bitmap: BitMap64, start: int) -> int:
    """Return the end of the last whole window after `start` up to which all are members."""
    step = WINDOW
    while bitmap.contains_range(start, start + step):
        start += step
        step *= 2
    while step > WINDOW:
        step //= 2
        if bitmap.contains_range(start, start + step):
            start += step
    return start
