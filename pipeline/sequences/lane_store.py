"""The chunks of one set of sequences, and the form in which each is kept.

Rule 1: a chunk has a lane, or is one of a stretch of full ones, or has no members.
Rule 2: no more than LANES_MAX lanes have a byte for each sequence: those that were touched last.
        Others are packed (`pipeline.sequences.chunks`), or are full, until they are touched again.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from distributary.pipeline.sequences.chunks import CHUNK, ONES, packed, unpacked
from distributary.pipeline.sequences.spans import Spans

#: Chunks of one set that have a byte for each sequence; half of them are packed when it has more.
LANES_MAX: Final = 64


class LaneStore:
    """Chunks by their number. `SequenceSet` sets their members, and keeps the counts right."""

    __slots__ = ("_cold", "_counts", "_full", "_lanes", "_lowest")

    def __init__(self) -> None:
        #: chunk -> one byte per sequence, 0 or 1; or the same packed, which is bytes. Those that
        #: aren't packed come last, the one that was unpacked or made last at the end.
        self._lanes: dict[int, bytearray | bytes] = {}
        self._counts: dict[int, int] = {}  #: chunk -> members in it; never 0
        self._cold = 0  #: how many lanes are packed
        #: Full chunks, which have no lane; None if there are none.
        self._full: Spans | None = None
        self._lowest: int | None = None  #: the lowest chunk with a lane; None: none, or not known

    def _fill(self, first: int, last: int) -> None:
        """Mark these chunks, which have no lanes, as full."""
        if self._full is None:
            self._full = Spans()
        self._full.add(first, last)

    def _unfill(self, first: int, last: int) -> None:
        """Mark these chunks as not full."""
        if self._full is not None:
            self._full.discard(first, last)
            if not self._full:
                self._full = None

    def _drop_whole(self, first: int, last: int) -> int:
        """Drop these chunks' lanes; return the chunks' members, full chunks included."""
        chunks: Iterable[int] = range(first, last)
        if last - first > len(self._lanes):
            chunks = [*self._lanes]
        full = () if self._full is None else self._full.within(first, last)
        had = sum([len(part) for part in full]) * CHUNK
        for chunk in chunks:
            if first <= chunk < last and chunk in self._lanes:
                had += self._counts[chunk]
                self._drop_lane(chunk)
        return had

    def _writable(self, chunk: int) -> bytearray | None:
        """Return the chunk's lane with a byte for each sequence; None if it has no lane."""
        lane = self._lanes.get(chunk)
        return self._heat(chunk) if isinstance(lane, bytes) else lane

    def _heat(self, chunk: int) -> bytearray:
        """Unpack the lane of a chunk and return it."""
        lane = self._lanes.pop(chunk)
        assert isinstance(lane, bytes)  # noqa: S101
        hot = self._lanes[chunk] = unpacked(lane)
        self._cold -= 1
        if len(self._lanes) - self._cold > LANES_MAX:
            self.pack()
        return hot

    def _broken(self, chunk: int) -> bytearray:
        """Return a new lane for a chunk that was full."""
        self._unfill(chunk, chunk + 1)
        lane = self._new_lane(chunk)
        lane[:] = ONES
        self._counts[chunk] = CHUNK
        return lane

    def _new_lane(self, chunk: int) -> bytearray:
        if not self._lanes or (self._lowest is not None and chunk < self._lowest):
            self._lowest = chunk
        lane = self._lanes[chunk] = bytearray(CHUNK)
        self._counts[chunk] = 0
        if len(self._lanes) - self._cold > LANES_MAX:
            self.pack()
        return lane

    @property
    def unpacked(self) -> int:
        """The number of chunks that have a byte for each sequence now."""
        return len(self._lanes) - self._cold

    def packed(self) -> tuple[dict[int, bytes], list[range]]:
        """Return all members in the form of `SequenceSet.add_packed`, without unpacking any."""
        self.pack(0)
        lanes = {chunk: lane for chunk, lane in self._lanes.items() if isinstance(lane, bytes)}
        return lanes, [] if self._full is None else [*self._full]

    def check(self) -> None:
        """Raise AssertionError where a kept chunk breaks a rule of this module."""
        assert self._counts.keys() == self._lanes.keys()  # noqa: S101
        assert all(0 < count <= CHUNK for count in self._counts.values())  # noqa: S101
        hot = [chunk for chunk, lane in self._lanes.items() if isinstance(lane, bytearray)]
        assert hot == [*self._lanes][self._cold :]  # noqa: S101
        assert len(hot) <= LANES_MAX  # noqa: S101
        assert not any(self._full.within(chunk, chunk + 1) for chunk in self._lanes if self._full)  # noqa: S101

    def pack(self, kept: int = LANES_MAX // 2) -> None:
        """Pack the unpacked lanes, except the `kept` last used ones."""
        hot = len(self._lanes) - self._cold
        for chunk in [*islice(reversed(self._lanes), kept, hot)]:
            lane = self._lanes[chunk]
            assert isinstance(lane, bytearray)  # noqa: S101
            if self._counts[chunk] == CHUNK:
                self._drop_lane(chunk)
                self._fill(chunk, chunk + 1)
            else:
                self._lanes[chunk] = packed(lane, self._counts[chunk])
                self._cold += 1

    def _put_packed(self, lanes: Mapping[int, bytes], counts: Mapping[int, int]) -> None:
        """Add packed lanes of chunks that had no lane and weren't full."""
        hot = [*islice(reversed(self._lanes), len(self._lanes) - self._cold)]
        self._lanes.update(lanes)
        self._counts.update(counts)
        self._cold += len(lanes)
        self._lowest = None
        for chunk in reversed(hot):  # these come last again
            self._lanes[chunk] = self._lanes.pop(chunk)

    def _drop_lane(self, chunk: int) -> None:
        lane = self._lanes.pop(chunk)
        if self._cold and isinstance(lane, bytes):
            self._cold -= 1
        del self._counts[chunk]
        if chunk == self._lowest:
            self._lowest = None
