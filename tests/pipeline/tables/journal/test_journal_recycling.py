"""Segments that can't be given back: a name that the disk refuses ends the journal, one that it has
no room for waits."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from table_groups import bodies, group, run

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal

SMALL = 64 * 1024


def append_all(journal: Journal, numbers: range) -> None:
    """Groups of 12 kB: five to a segment."""
    for number in numbers:
        journal.append(frame.encode(group(number, 0, run("t", bodies(3, 4_000)))))


def in_the_way_of_a_spare(directory: Path) -> Path:
    """Return the name that a full segment gets next."""
    return min(directory.glob("*.journal")).with_suffix(".spare")


def in_the_way_of_a_new_file(directory: Path) -> Path:
    """Return the name of the next file."""
    return directory / f"{max(int(path.stem) for path in directory.iterdir()) + 1:08d}.spare"


@pytest.mark.parametrize("obstacle", [in_the_way_of_a_spare, in_the_way_of_a_new_file])
def test_a_name_that_cannot_be_made_ends_the_journal(
    tmp_path: Path, obstacle: Callable[[Path], Path]
) -> None:
    """The names on the disk are unknown after it. All appended groups are there again."""
    journal = Journal.open(tmp_path, segment_bytes=SMALL)
    append_all(journal, range(1, 20))
    taken = obstacle(tmp_path)
    taken.mkdir()
    fails = (lambda: journal.recycle(15)) if obstacle is in_the_way_of_a_spare else journal.prepare
    with pytest.raises(StoreError, match="stopped"):
        fails()
    assert journal.dead
    for _ in range(2):
        with pytest.raises(StoreError, match="stopped"):
            append_all(journal, range(20, 21))
    journal.close()
    taken.rmdir()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == list(range(1, 20))
    append_all(again, range(20, 21))
    again.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that can be told how many files it takes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_disk_without_room_for_a_name_is_a_full_disk(disk: Path) -> None:
    """No spare is made ahead, all else goes on; with room again there is one."""
    journal = Journal.open(disk / "journal", segment_bytes=SMALL)
    append_all(journal, range(1, 4))
    space = os.statvfs(disk)
    taken = space.f_files - space.f_ffree
    for files, spares in ((taken, 0), (taken + 10, 1)):
        subprocess.run(["mount", "-o", f"remount,nr_inodes={files}", disk], check=True)
        journal.recycle(2)
        journal.prepare()
        assert len(list((disk / "journal").glob("*.spare"))) == spares
    append_all(journal, range(4, 20))
    journal.close()
