"""Bitmaps of sequences as the core's sets: numpy's and roaring's way in, without a loop over
sequences.
"""

from array import array
from itertools import pairwise

import numpy as np
from pyroaring import BitMap64

from pipeline.chunks import CHUNK, FEW, PACKED
from pipeline.sequences import SequenceSet
from pipeline.tables.arrow import Int64s

#: Sequences that are looked at at once: a container of roaring's.
WINDOW = 1 << 16


def bitmap_of(values: Int64s) -> BitMap64:
    """The set of these sequences, best in ascending order; repeated ones count once."""
    # Of what it takes, an array of this type is the only one that isn't read number by number.
    return BitMap64(array("Q", values.tobytes()))


def set_of(bitmap: BitMap64) -> SequenceSet:
    """The same set; what is dense costs neither time nor memory."""
    lanes: dict[int, bytes] = {}
    full: list[range] = []
    start = int(bitmap.min()) // WINDOW * WINDOW if bitmap else 0
    last = int(bitmap.max()) if bitmap else -1
    while start <= last:
        stop = start + WINDOW
        count = bitmap.range_cardinality(start, stop)
        if count == WINDOW:
            stop = _full_up_to(bitmap, stop)
            full.append(range(start // CHUNK, stop // CHUNK))
        elif count:
            _pack(bitmap, start, lanes, full)
        else:
            stop = int(bitmap.next_set_bit(stop)) // WINDOW * WINDOW
        start = stop
    return SequenceSet.of_packed(lanes, full)


def _full_up_to(bitmap: BitMap64, start: int) -> int:
    """The end of the last window from `start` on before which all are members."""
    step = WINDOW
    while bitmap.contains_range(start, start + step):
        start += step
        step *= 2
    while step > WINDOW:
        step //= 2
        if bitmap.contains_range(start, start + step):
            start += step
    return start


def _pack(bitmap: BitMap64, start: int, lanes: dict[int, bytes], full: list[range]) -> None:
    """The chunks of one window, packed as `pipeline.chunks` says it."""
    window = bitmap & BitMap64(range(start, start + WINDOW))
    places = np.frombuffer(window.to_array(), np.int64) - start
    flat = np.zeros(WINDOW, np.uint8)
    flat[places] = 1
    bits = np.packbits(flat).tobytes()
    cuts = np.searchsorted(places, np.arange(0, WINDOW + 1, CHUNK)).tolist()
    for nth, (begin, end) in enumerate(pairwise(cuts)):
        chunk = start // CHUNK + nth
        if end - begin == CHUNK:
            full.append(range(chunk, chunk + 1))
        elif end - begin > FEW:
            lanes[chunk] = bits[nth * PACKED : (nth + 1) * PACKED]
        elif end > begin:
            lanes[chunk] = (places[begin:end] - nth * CHUNK).astype(np.uint16).tobytes()
