"""The chunks of a set of sequences: runs cut at their ends, and lanes in little memory.

A *lane* is a byte for each sequence of a chunk, 0 or 1; that is what sets work on. A *packed* lane
is `bytes` of one of three kinds, told apart by their length: a bit for each sequence, the first one
the highest (PACKED bytes); where there are few members, two bytes for each of them, its place in
the chunk (an even length below PACKED); where there are few others, ALL_BUT and the same of these
(an odd length). `pipeline.tables.arrow.bitmaps` makes them of roaring bitmaps and of columns.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

#: Sequences per chunk: a power of two. A lone member of a set costs this many bytes while it is
#: touched now and then.
CHUNK: Final = 4096
SHIFT: Final = 12
MASK: Final = CHUNK - 1
#: Bytes of a chunk with a bit for each sequence.
PACKED: Final = CHUNK // 8
#: Up to this many members, or non-members, are packed as their places.
FEW: Final = 128
#: First byte of a packed lane whose places are those of the sequences that are no members.
ALL_BUT: Final = b"\0"

#: A full lane.
ONES: Final = b"\1" * CHUNK

#: Bits that are kept while eight bytes of a lane become one, step by step: of each 16, 32, 64.
_TWO: Final = int.from_bytes(b"\0\3" * (CHUNK // 2), "big")
_FOUR: Final = int.from_bytes(b"\0\0\0\x0f" * (CHUNK // 4), "big")
_EIGHT: Final = int.from_bytes((bytes(7) + b"\xff") * PACKED, "big")
_EACH: Final = int.from_bytes(b"\1" * CHUNK, "big")


def packed(lane: bytearray, count: int) -> bytes:
    """Return a lane with this number of members in few bytes."""
    if count <= FEW:
        return _places(lane, 1)
    if count >= CHUNK - FEW:
        return ALL_BUT + _places(lane, 0)
    bits = int.from_bytes(lane, "big")
    bits = (bits | bits >> 7) & _TWO
    bits = (bits | bits >> 14) & _FOUR
    bits = (bits | bits >> 28) & _EIGHT
    return bits.to_bytes(CHUNK, "big")[7::8]


def _places(lane: bytearray, which: int) -> bytes:
    """Return the places of the zeros, or of the ones."""
    places = array("H")
    at = lane.find(which)
    while at >= 0:
        places.append(at)
        at = lane.find(which, at + 1)
    return places.tobytes()


def unpacked(data: bytes) -> bytearray:
    """Return the lane that was packed."""
    if len(data) == PACKED:
        lane = bytearray(CHUNK)
        lane[7::8] = data
        bits = int.from_bytes(lane, "big")
        bits = (bits | bits << 28) & _FOUR
        bits = (bits | bits << 14) & _TWO
        bits = (bits | bits << 7) & _EACH
        return bytearray(bits.to_bytes(CHUNK, "big"))
    others = len(data) % 2
    lane = bytearray(ONES) if others else bytearray(CHUNK)
    for place in memoryview(data)[others:].cast("H"):
        lane[place] = 1 - others
    return lane


def members(data: bytes) -> int:
    """Return the number of members of a packed lane."""
    if len(data) == PACKED:
        return int.from_bytes(data, "big").bit_count()
    return CHUNK - len(data) // 2 if len(data) % 2 else len(data) // 2


def by_chunk(run: "array[int]") -> Iterator[tuple[int, "array[int]"]]:
    """Cut the array into parts within one chunk each; yield each with its chunk."""
    at = 0
    while at < len(run):
        chunk = run[at] >> SHIFT
        stop = bisect_left(run, (chunk + 1) << SHIFT, at)
        yield chunk, run[at:stop]
        at = stop


def pieces(run: range) -> Iterable[tuple[int, int, int, int]]:
    """Yield the run as (chunk, start and stop in its lane, count), a piece for each chunk."""
    count = len(run)
    if not count:
        return ()
    first = run.start
    chunk = first >> SHIFT
    if count == 1:
        start = first & MASK
        return ((chunk, start, start + 1, 1),)
    last = run[-1]
    if last >> SHIFT == chunk:
        return ((chunk, first & MASK, (last & MASK) + 1, count),)
    return _pieces_of_many(first, run.step, count)


def _pieces_of_many(first: int, step: int, left: int) -> Iterator[tuple[int, int, int, int]]:
    while left:
        start = first & MASK
        count = min(left, (CHUNK - start + step - 1) // step)
        yield first >> SHIFT, start, start + (count - 1) * step + 1, count
        first += count * step
        left -= count


def in_lane(lane: bytearray | bytes, base: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of a lane from place `begin` to `end`, as first sequence and the one behind the
    last; `base` is the sequence of place 0."""
    at = lane.find(1, begin, end)
    while at >= 0:
        after = lane.find(0, at, end)
        after = end if after < 0 else after
        yield base + at, base + after
        at = lane.find(1, after, end)


def merged(parts: Iterable[tuple[int, int]]) -> Iterator[range]:
    """Ascending stretches as ranges, those that touch as one."""
    start = stop = -1  # the stretch that may still grow; none yet
    for at, after in parts:
        if at != stop:
            if stop >= 0:
                yield range(start, stop)
            start = at
        stop = after
    if stop >= 0:
        yield range(start, stop)


def lowest_of(chunks: int | range) -> int:
    """Return the chunk, or the first of several."""
    return chunks.start if isinstance(chunks, range) else chunks


def highest_of(chunks: int | range) -> int:
    """Return the chunk, or the last of several."""
    return chunks.stop - 1 if isinstance(chunks, range) else chunks
