"""Bitmaps of sequences as the core's sets: numpy's and roaring's way in, without a loop over
sequences."""

from array import array

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from pipeline.sequences import CHUNK, SequenceSet
from pipeline.tables.arrow import Int64s

#: Where one of so many sequences is a member, all chunks between the first and the last are made.
SPARSE = 64


def bitmap_of(values: Int64s) -> BitMap64:
    """The set of these sequences, best in ascending order; repeated ones count once."""
    # Of what it takes, an array of this type is the only one that isn't read number by number.
    return BitMap64(array("Q", values.tobytes()))


def set_of(bitmap: BitMap64) -> SequenceSet:
    """The same set with a byte for each sequence, in chunks that have any."""
    values = np.frombuffer(bitmap.to_array(), np.int64)
    if not len(values):
        return SequenceSet()
    first, chunks = int(values[0]) // CHUNK, int(values[-1] - values[0]) // CHUNK + 2
    if chunks * CHUNK > SPARSE * len(values):
        numbers, lanes = _sparse(values)
    else:
        numbers, flat = np.arange(first, first + chunks), np.zeros(chunks * CHUNK, np.uint8)
        flat[values - first * CHUNK] = 1
        lanes = flat.reshape(chunks, CHUNK)
    return SequenceSet.of_lanes(
        {number: bytearray(lane) for number, lane in zip(numbers.tolist(), lanes, strict=True)}
    )


def _sparse(values: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    """The chunks that have any, and a lane for each."""
    chunk = values // CHUNK
    cuts = np.flatnonzero(np.diff(chunk, prepend=-1))
    nth = np.repeat(np.arange(len(cuts)), np.diff(cuts, append=len(values)))
    lanes = np.zeros((len(cuts), CHUNK), np.uint8)
    lanes[nth, values % CHUNK] = 1
    return chunk[cuts], lanes
