"""A hint: the sequences of old messages that may match a selector, found before they are read.

Rule 1: a hint is about a topic, a selector and a range of sequences. Messages don't change, so a
        hint stays true, even when the subscription changes.
Rule 2: a hint names all messages that match, and may name more. The selector is evaluated for the
        messages that it names; the others aren't read.
Rule 3: no promise rests on a hint: it may be forgotten at any time, and then all messages are
        evaluated.
"""

import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from distributary.pipeline.errors import InvalidRequest

#: A match is written as its distance from the first sequence of its part: 32 bits, big-endian.
OFFSET_BYTES = 4
#: Sequences that one part is about, at most.
SPAN_MAX = 1 << 32


class HintFilter(msgspec.Struct, frozen=True, eq=False):
    """Of the messages below `stop` only those in `sequences` (int64, ascending) may match."""

    sequences: "array[int]"
    stop: int


class Part(msgspec.Struct, frozen=True, eq=False):
    """A hint for `start .. stop - 1`: all sequences that may match, ascending."""

    start: int
    stop: int
    sequences: "array[int]"


class Hint:
    """The parts of a hint, which follow each other without a gap; those below the position are
    forgotten."""

    __slots__ = ("_count", "_parts")

    def __init__(self, first: Part) -> None:
        self._parts = deque([first])
        self._count = len(first.sequences)

    def __len__(self) -> int:
        """The number of sequences that the hint names."""
        return self._count

    @property
    def start(self) -> int:
        return self._parts[0].start

    @property
    def stop(self) -> int:
        """The sequence from which on the hint says nothing."""
        return self._parts[-1].stop

    def follow(self, part: Part) -> bool:
        """Add a part that begins where this hint ends, or is known already; else return False."""
        if self.start <= part.start and part.stop <= self.stop:
            return True
        if part.start != self.stop:
            return False
        self._parts.append(part)
        self._count += len(part.sequences)
        return True

    def covers(self, sequence: int) -> bool:
        """Whether the hint says anything of this sequence."""
        return self.start <= sequence < self.stop

    def next(self, sequence: int) -> int:
        """Return the first sequence from `sequence` on that may match; `stop` if there is none. The
        hint must cover `sequence`."""
        for part in self._parts:
            if part.stop > sequence:
                at = bisect_left(part.sequences, sequence)
                if at < len(part.sequences):
                    return part.sequences[at]
        return self.stop

    def filter(self, sequence: int) -> HintFilter | None:
        """Return the filter from this sequence to the end of its part; None if the hint doesn't
        cover the sequence."""
        for part in self._parts:
            if part.start <= sequence < part.stop:
                return HintFilter(part.sequences, part.stop)
        return None

    def forget(self, below: int) -> bool:
        """Forget the parts below a sequence; return whether any part is left."""
        while self._parts and self._parts[0].stop <= below:
            self._count -= len(self._parts.popleft().sequences)
        return bool(self._parts)


def cut(start: int, stop: int, sequences: "array[int]", most: int) -> Iterator[Part]:
    """Cut `start .. stop - 1` into parts that name `most` sequences each at most (`most` >= 1). Of
    the ascending `sequences`, those outside of the range are ignored."""
    at, end = bisect_left(sequences, start), bisect_left(sequences, stop)
    while start < stop:
        last = min(start + SPAN_MAX, stop)
        behind = bisect_left(sequences, last, at, end)
        if behind - at > most:
            behind, last = at + most, sequences[at + most]
        yield Part(start, last, sequences[at:behind])
        at, start = behind, last


def packed(start: int, sequences: Sequence[int]) -> bytes:
    """Return the matches of a part that begins at `start` as bytes."""
    offsets = array("I", [one - start for one in sequences])
    if sys.byteorder == "little":
        offsets.byteswap()
    return offsets.tobytes()


def unpacked(start: int, stop: int, matches: bytes) -> Part:
    """Return the part of packed matches. Raises InvalidRequest for malformed ones."""
    if not start < stop <= start + SPAN_MAX:
        raise InvalidRequest(
            f"a hint is about the sequences 'start' to 'stop' - 1, {SPAN_MAX} at most; "
            f"it says {start} to {stop}"
        )
    if len(matches) % OFFSET_BYTES:
        raise InvalidRequest(f"'matches' has {len(matches)} bytes; each match takes {OFFSET_BYTES}")
    offsets = array("I", matches)
    if sys.byteorder == "little":
        offsets.byteswap()
    if any(a >= b for a, b in pairwise(offsets)) or (offsets and offsets[-1] >= stop - start):
        raise InvalidRequest("'matches' must ascend and lie below 'stop'")
    return Part(start, stop, array("q", [start + one for one in offsets]))
