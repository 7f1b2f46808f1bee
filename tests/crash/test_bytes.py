"""Every byte of a journal, turned over or cut off: the torn end is cut, all else is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import damage
import pytest
from damage import Frame

from distributary.pipeline.errors import JournalBroken, StoreError
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Cut, Journal

SEGMENT_BYTES = 1 << 16
GROUPS = 3


@dataclass(frozen=True)
class Written:
    """A home with three groups in its journal's only segment, and the bytes of that."""

    home: Path
    frames: list[Frame]
    data: bytes

    @property
    def path(self) -> Path:
        return self.frames[0].path

    def with_bytes(self, data: bytes) -> Journal:
        """The journal, opened with other bytes in its segment."""
        self.path.write_bytes(data)
        journal = Journal.open(self.path.parent, segment_bytes=SEGMENT_BYTES)
        journal.close()
        return journal

    def flipped(self, at: int) -> bytes:
        return self.data[:at] + bytes([self.data[at] ^ (1 << at % 8)]) + self.data[at + 1 :]

    def extent(self, one: Frame) -> range:
        return range(one.ref.offset, one.ref.offset + one.ref.size)


def group(number: int) -> Group:
    """Three messages on one topic; the sizes make every section of the frame need padding."""
    blob = b"abcdefghijk" * 3
    run = PublishBatch(
        "t", 3, blob, (11).to_bytes(4, "little") * 3, b"\1" * 3, b"\4" * 3, bytes(12)
    )
    return Group(number, 3 * number, 1_000_000, (run,), (), ())


@pytest.fixture
def written(tmp_path: Path) -> Written:
    journal = Journal.open(tmp_path / "journal", segment_bytes=SEGMENT_BYTES)
    for number in range(1, GROUPS + 1):
        journal.append(frame.encode(group(number)))
    journal.close()
    frames = damage.frames(tmp_path)
    assert len(frames) == GROUPS
    return Written(tmp_path, frames, frames[0].path.read_bytes())


def cut_of_last(written: Written) -> Cut:
    last = written.frames[-1]
    return Cut(last.path, last.ref.offset, last.ref.group)


def test_a_bit_of_the_last_frame_is_cut(written: Written) -> None:
    """Whichever byte it is in; the frames before it stay."""
    for at in written.extent(written.frames[-1]):
        opened = written.with_bytes(written.flipped(at)).opened
        assert (opened.frames, opened.cut) == (GROUPS - 1, cut_of_last(written)), at


def test_a_last_frame_that_ends_too_early_is_cut(written: Written) -> None:
    """The file ends at any byte of it, or zeros stand from there on, as in a page never written."""
    extent = written.extent(written.frames[-1])
    ways: list[Callable[[int], bytes]] = [
        lambda at: written.data[:at],
        lambda at: written.data[:at] + bytes(len(written.data) - at),
    ]
    for way in ways:
        for at in extent[1::3]:
            # Zeros for zeros, at the frame's end, are no damage.
            whole = not any(written.data[at : extent.stop]) and len(way(at)) == len(written.data)
            opened = written.with_bytes(way(at)).opened
            found = (GROUPS, None) if whole else (GROUPS - 1, cut_of_last(written))
            assert (opened.frames, opened.cut) == found, at


def test_a_last_frame_whose_beginning_is_missing_is_no_frame(written: Written) -> None:
    """Its later pages reached the disk, its first one didn't: nothing of it is taken for one."""
    extent = written.extent(written.frames[-1])
    for at in extent[1 : frame.HEADER_BYTES + 1 :]:
        data = written.data[: extent.start] + bytes(at - extent.start) + written.data[at:]
        assert written.with_bytes(data).opened.frames == GROUPS - 1, at


@pytest.mark.parametrize("which", range(GROUPS - 1))
def test_a_bit_of_an_earlier_frame_is_refused(written: Written, which: int) -> None:
    """Whichever byte it is in: by file and offset, and not a byte is changed."""
    broken = written.frames[which]
    for at in written.extent(broken):
        data = written.flipped(at)
        with pytest.raises(JournalBroken, match=f"{broken.path} .* offset {broken.ref.offset}:"):
            written.with_bytes(data)
        assert written.path.read_bytes() == data


def test_a_bit_of_the_segments_header_is_refused(written: Written) -> None:
    """Whichever byte it is in."""
    for at in range(48):
        data = written.flipped(at)
        with pytest.raises(StoreError, match=str(written.path)):
            written.with_bytes(data)
        assert written.path.read_bytes() == data


def test_every_class_of_bytes_is_known(written: Written) -> None:
    """The rounds choose among them by name: each lies in its frame, and none is missing."""
    for one in written.frames:
        assert {"magic", "records", "lengths", "messages", "padding"} <= one.parts.keys()
        assert all(at in written.extent(one) for at in one.parts.values())
