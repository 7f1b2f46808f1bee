"""Bitmaps and columns of sequences as the core's sets: numpy's and roaring's way in, without a loop
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

#: A set of sequences as it lies in Spark's table, for rooms that don't know who makes it.
Bitmap: TypeAlias = BitMap64
#: Sequences that are looked at at once: four containers of roaring's.
WINDOW = 1 << 18

_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Members of a set as `pipeline.sequences.chunks` packs them: of each chunk its lane, none
    empty or full, and stretches of full chunks."""

    packed: dict[int, bytes] = field(default_factory=dict)
    full: list[range] = field(default_factory=list)

    def add_mask(self, first: int, mask: _Bytes) -> None:
        """Put in those of `first`, `first + 1`, ... of which the mask has a 1, and not a 0."""
        before = first % CHUNK
        after = -(before + len(mask)) % CHUNK
        rows = np.pad(mask, (before, after)).reshape(-1, CHUNK)
        self._add_rows(first // CHUNK + np.arange(len(rows)), rows)

    def add(self, sequences: Int64s) -> None:
        """Put these in: ascending, and no chunk that has any before."""
        self._add_places(sequences, 1)

    def add_all_but(self, start: int, stop: int, others: Int64s) -> None:
        """Put in all from `start` to `stop - 1`, both at borders of chunks, but for these:
        ascending, and at least one."""
        own = self._add_places(others, 0)
        ends = [start // CHUNK - 1, *own.tolist(), stop // CHUNK]
        self.full.extend(
            range(before + 1, after)
            for before, after in itertools.pairwise(ends)
            if before + 1 < after
        )

    def _add_places(self, sequences: Int64s, which: int) -> Int64s:
        """Chunks by their ones, or by their zeros; which chunks these are."""
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
        """Chunks by a byte for each sequence."""
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
        """Put all of it into a set."""
        members.add_packed(self.packed, self.full)


def _places(lane: npt.NDArray[np.bool_] | _Bytes) -> bytes:
    return np.flatnonzero(lane).astype(np.uint16).tobytes()


def read_bitmap(data: bytes) -> Bitmap:
    """The set in a portable 64-bit roaring bitmap. Raises ValueError for what is none."""
    return BitMap64.deserialize(data)


def bitmap_of(values: Int64s) -> BitMap64:
    """The set of these sequences, best in ascending order; repeated ones count once."""
    # Of what it takes, an array of this type is the only one that isn't read number by number.
    return BitMap64(array("Q", values.tobytes()))


def set_of(bitmap: BitMap64) -> SequenceSet:
    """The same set; what is dense costs neither time nor memory."""
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
    """The windows in which there are any, full ones behind each other as one."""
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
    """The end of the last whole window from `start` on before which all are members."""
    step = WINDOW
    while bitmap.contains_range(start, start + step):
        start += step
        step *= 2
    while step > WINDOW:
        step //= 2
        if bitmap.contains_range(start, start + step):
            start += step
    return start
