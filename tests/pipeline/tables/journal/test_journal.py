"""The journal on a real disk: appended groups are read back, and damage is named."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from open_files import open_below
from table_groups import bodies, framed, group, run

from distributary.pipeline.errors import JournalBroken, JournalFull, JournalVersion, StoreError
from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.journal.segment import FrameRef

SMALL = 64 * 1024


def append(journal: Journal, number: int, size: int = 300, count: int = 3) -> FrameRef:
    """Group `number` with `count` messages of `size` bytes."""
    return journal.append(frame.encode(group(number, 0, run("t", bodies(count, size)))))


def filled(directory: Path, count: int, **kwargs: int) -> list[FrameRef]:
    """A closed journal with groups 1 to count."""
    journal = Journal.open(directory, segment_bytes=SMALL)
    refs = [append(journal, number, **kwargs) for number in range(1, count + 1)]
    journal.close()
    return refs


def change(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def first_segment(directory: Path) -> Path:
    return min(directory.glob("*.journal"))


def test_what_was_appended_is_there_after_reopening(tmp_path: Path) -> None:
    """Every frame comes back with its bytes, in order, over several segments."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    groups = [group(n, n * 10, run("t", bodies(10, 1000))) for n in range(1, 31)]
    refs = [journal.append(frame.encode(one)) for one in groups]
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert again.frames() == tuple(refs)
    assert again.opened.cut is None
    assert again.opened.segments > 2
    assert again.last_group == 30
    assert again.backlog_bytes == sum(ref.size for ref in refs)
    for view, one in zip(again.read(again.frames()), groups, strict=True):
        back = frame.decode(view)
        assert (back.group, back.first_sequence) == (one.number, one.first_sequence)
        assert bytes(back.blob) == one.messages[0].blob
    again.close()


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """After reopening, the next group is appended behind the last, and the chain stays whole."""
    for start in range(1, 40, 3):
        journal = Journal.open(tmp_path, segment_bytes=SMALL)
        for number in range(start, start + 3):
            append(journal, number, size=2000)
        journal.close()
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in journal.frames()] == list(range(1, 40))
    journal.close()


def test_a_group_out_of_order_is_refused(tmp_path: Path) -> None:
    """A repeated or skipped group number is a bug of the caller and changes nothing."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    append(journal, 5)
    for wrong in (5, 7):
        with pytest.raises(StoreError, match="goes on with group 6"):
            append(journal, wrong)
    assert append(journal, 6).group == 6
    journal.close()


def test_a_frame_bigger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    """Size is no reason to refuse a group."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    append(journal, 1)
    big = append(journal, 2, size=SMALL)
    small = append(journal, 3)
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert big.segment != small.segment
    assert [ref.group for ref in again.frames()] == [1, 2, 3]
    again.close()


def test_more_parts_than_one_system_call_takes(tmp_path: Path) -> None:
    """A group of thousands of runs is one frame all the same."""
    runs = [run("t", [b"%d" % i]) for i in range(3000)]
    journal = Journal.open(tmp_path)
    journal.append(frame.encode(group(1, 0, *runs)))
    journal.close()
    again = Journal.open(tmp_path)
    (view,) = again.read(again.frames())
    assert bytes(frame.decode(view).blob) == b"".join(b"%d" % i for i in range(3000))
    again.close()


TORN: dict[str, Callable[[int], int]] = {
    "inside the header": lambda _: 20,
    "inside the records": lambda _: frame.HEADER_BYTES + 3,
    "inside the columns": lambda _: frame.HEADER_BYTES + 24 + 8,
    "inside the blob": lambda size: size // 2,
    "before the last block": lambda size: size - 64,
}


@pytest.mark.parametrize("where", TORN)
def test_a_torn_end_is_cut(tmp_path: Path, where: str) -> None:
    """Wherever the last frame stops, it is cut with a report, and the same group comes again."""
    refs = filled(tmp_path, 3)
    path = first_segment(tmp_path)
    keep = TORN[where](refs[2].size)
    change(path, refs[2].offset + keep, bytes(refs[2].size - keep))
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    assert journal.frames() == tuple(refs[:2])
    cut = journal.opened.cut
    assert cut is not None
    assert (cut.path, cut.offset, cut.group) == (path, refs[2].offset, 3)
    append(journal, 3)
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == [1, 2, 3]
    assert again.opened.cut is None
    again.close()


@pytest.mark.parametrize("at", [1, 10, 30, 63, 64, 100, 400])
def test_a_bit_flipped_in_the_middle_is_refused(tmp_path: Path, at: int) -> None:
    """Damage before the last frame stops the start, with file and offset, and changes nothing."""
    refs = filled(tmp_path, 3)
    path = first_segment(tmp_path)
    flip(path, refs[1].offset + at)
    before = path.read_bytes()
    with pytest.raises(JournalBroken) as caught:
        Journal.open(tmp_path, segment_bytes=SMALL)
    assert str(path) in str(caught.value)
    assert f"offset {refs[1].offset}" in str(caught.value)
    assert path.read_bytes() == before


def test_damage_at_the_end_of_an_earlier_segment_is_refused(tmp_path: Path) -> None:
    """The last frame of a segment isn't the last frame of the journal."""
    refs = filled(tmp_path, 12, size=4000)
    last = next(a for a, b in pairwise(refs) if a.segment != b.segment)
    flip(first_segment(tmp_path), last.offset + 100)
    with pytest.raises(JournalBroken, match=f"offset {last.offset}: group {last.group}"):
        Journal.open(tmp_path, segment_bytes=SMALL)


def test_a_missing_segment_is_refused(tmp_path: Path) -> None:
    """A gap in the chain of groups is accepted messages that are gone."""
    filled(tmp_path, 30, size=4000)
    sorted(tmp_path.glob("*.journal"))[1].unlink()
    with pytest.raises(JournalBroken, match="should follow"):
        Journal.open(tmp_path, segment_bytes=SMALL)


def test_a_damaged_segment_header_is_refused(tmp_path: Path) -> None:
    """Without its header nothing in a segment can be trusted."""
    filled(tmp_path, 2)
    flip(first_segment(tmp_path), 24)
    with pytest.raises(JournalBroken, match="offset 0"):
        Journal.open(tmp_path, segment_bytes=SMALL)


def test_another_version_is_refused(tmp_path: Path) -> None:
    """A journal of another format names its file, its version and ours."""
    filled(tmp_path, 2)
    path = first_segment(tmp_path)
    change(path, len(segment.MAGIC), (9).to_bytes(4, "little"))
    with pytest.raises(JournalVersion, match=r"version 9.*version 1") as caught:
        Journal.open(tmp_path, segment_bytes=SMALL)
    assert str(path) in str(caught.value)


def test_recycled_segments_are_used_again(tmp_path: Path) -> None:
    """Committed groups make room: the number of files doesn't grow, and old frames stay dead."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    for number in range(1, 200):
        append(journal, number, size=3000)
        journal.recycle(number - 2)
        assert len(list(tmp_path.iterdir())) <= 5
    assert [ref.group for ref in journal.frames()] == [198, 199]
    assert journal.backlog_bytes == sum(ref.size for ref in journal.frames())
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    groups = [ref.group for ref in again.frames()]
    assert groups == list(range(groups[0], 200))
    assert again.opened.cut is None
    again.close()


def test_a_journal_that_is_behind_the_table_goes_on_behind_it(tmp_path: Path) -> None:
    """A bit of the last frame has rotted, so it is cut, but the table holds that group."""
    ref = filled(tmp_path, 3)[-1]
    flip(first_segment(tmp_path), ref.offset + 100)
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    assert journal.last_group == 2
    journal.recycle(3)
    append(journal, 4)
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == [4]
    again.close()


def test_a_message_that_imitates_a_frame_is_not_one(tmp_path: Path) -> None:
    """A torn frame whose message holds a whole frame of a later group is torn, not broken."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    fake = bytes(framed(group(9, 0, run("t", [b"fake"]))))
    for number in (1, 2):
        ref = journal.append(frame.encode(group(number, 0, run("t", [fake * 64]))))
    journal.close()
    change(first_segment(tmp_path), ref.offset + ref.size - 64, bytes(64))
    change(first_segment(tmp_path), ref.offset + ref.size - 200, b"torn")
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == [1]
    again.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Path:
    """A disk of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root; the limit of a file's size is tried below")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_is_said_and_survived(tiny_disk: Path) -> None:
    """When no segment has room, nothing changes; with room again, the same append works."""
    journal = Journal.open(tiny_disk / "journal", segment_bytes=256 * 1024)
    (tiny_disk / "else").write_bytes(bytes(600 * 1024))
    parts = frame.encode(group(1, 0, run("t", bodies(1, 200 * 1024))))
    first = journal.append(parts)
    more = frame.encode(group(2, 0, run("t", bodies(1, 200 * 1024))))
    files = sorted((tiny_disk / "journal").iterdir())
    for _ in range(3):
        with pytest.raises(JournalFull, match="no space"):
            journal.append(more)
        assert journal.frames() == (first,)
        assert sorted((tiny_disk / "journal").iterdir()) == files
    (tiny_disk / "else").unlink()
    second = journal.append(more)
    journal.close()
    again = Journal.open(tiny_disk / "journal", segment_bytes=256 * 1024)
    assert again.frames() == (first, second)
    again.close()


def test_a_limit_of_the_file_size_is_a_full_disk(tmp_path: Path) -> None:
    """If a limit stops a new segment, the append may be tried again when it is lifted."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    append(journal, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, hard))
    try:
        with pytest.raises(JournalFull):
            append(journal, 2, size=SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    append(journal, 2, size=SMALL)
    assert [ref.group for ref in journal.frames()] == [1, 2]
    journal.close()


def test_a_full_device_leaves_the_journal_alive(tmp_path: Path) -> None:
    """A write that finds no room is no failed fsync: the group is written when there is room."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    append(journal, 1)
    [fd] = open_below(tmp_path)
    kept = os.dup(fd)
    with Path("/dev/full").open("wb", buffering=0) as full:
        os.dup2(full.fileno(), fd)
        with pytest.raises(JournalFull):
            append(journal, 2)
    os.dup2(kept, fd)
    os.close(kept)
    append(journal, 2)
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == [1, 2]
    again.close()


def test_a_failed_fdatasync_ends_the_journal(tmp_path: Path) -> None:
    """The disk's content is unknown after it, so no later append is reported durable."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    append(journal, 1)
    [fd] = open_below(tmp_path)
    kept = os.dup(fd)
    with Path("/dev/null").open("wb", buffering=0) as null:  # takes every write, refuses fdatasync
        os.dup2(null.fileno(), fd)
        with pytest.raises(StoreError, match="fdatasync of group 2 failed"):
            append(journal, 2)
    os.dup2(kept, fd)
    os.close(kept)
    for _ in range(2):
        with pytest.raises(StoreError, match="stopped"):
            append(journal, 2)
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == [1]
    again.close()


def test_a_recycled_group_cannot_be_read(tmp_path: Path) -> None:
    """Reading a recycled frame is an error, and never gives another frame's bytes."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    refs = [append(journal, number, size=4000) for number in range(1, 30)]
    journal.recycle(25)
    with pytest.raises(StoreError, match="recycled"):
        journal.read(refs[:1])
    journal.close()


WRITER = """
import os, sys
from pathlib import Path
from array import array
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.journal import frame

journal = Journal.open(Path(sys.argv[1]), segment_bytes=256 * 1024)
number = (journal.last_group or 0) + 1
while True:
    body = os.urandom(40) + number.to_bytes(8, "little") * (1 + number % 4000)
    run = PublishBatch("t", 1, body, array("I", [len(body)]).tobytes(), b"1", b"4", bytes(4))
    journal.append(frame.encode(Group(number, number, 5, (run,))))
    print(number, flush=True)
    if number % 50 == 0:
        journal.recycle(number - 30)
    number += 1
"""


def test_kill_in_the_middle_of_appends_loses_nothing(tmp_path: Path) -> None:
    """Groups reported durable before SIGKILL are there, whole, after each of six kills."""
    for wait in (1, 40, 200, 90, 3, 160):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(wait)]
        writer.kill()
        lines += writer.stdout.read().splitlines(keepends=True)
        writer.wait()
        writer.stdout.close()
        reported = int([line for line in lines if line.endswith("\n")][-1])
        journal = Journal.open(tmp_path, segment_bytes=256 * 1024)
        assert journal.last_group in (reported, reported + 1)
        for ref, view in zip(journal.frames(), journal.read(journal.frames()), strict=True):
            back = frame.decode(view)
            assert back.first_sequence == ref.group
            assert bytes(back.blob[40:48]) == ref.group.to_bytes(8, "little")
        journal.close()
