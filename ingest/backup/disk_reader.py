"""Reads a home on a disk: see `home_reader`."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from distributary.ingest.backup.backup_folder import BackupFolder
from distributary.ingest.backup.home_reader import UNPACED, CopiedSegment, Pace, half_restored
from distributary.pipeline.backup import backup_plan
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.backup.backup_plan import SegmentGroups, SourceFile, order_of_tables
from distributary.pipeline.errors import InvalidRequest, JournalBroken
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.table_places import table_places
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.audit_reports import REPORT
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame, segment

#: Times that a damaged segment is read again: a frame that is being written looks torn.
LOOKS: Final = 5
LOOK_SECONDS: Final = 0.05


class DiskReader:
    """A folder. Implements `HomeReader`."""

    on_a_store: Final = False

    def __init__(self, home: Home) -> None:
        self.home = home
        self.address = str(home.root)

    def require_outside(self, folder: Path) -> None:
        if folder.resolve().is_relative_to(self.home.root.resolve()):
            raise InvalidRequest(
                f"{folder} lies in the home, which only its gateway writes to. Name a folder "
                "outside, best on another disk"
            )

    def require(self, folder: Path) -> None:
        home = self.home
        if not home.root.is_dir():
            raise InvalidRequest(f"{home.root} is no folder; --home takes the folder of a gateway")
        self.require_outside(folder)
        if (home.root / RESTORING).exists():
            raise half_restored(self.address)
        if backup_plan.LAST_TABLE not in self.table_names():
            raise InvalidRequest(
                f"there is no topic_log in {home.root}: it is no gateway's home, or its tables are "
                "on an object store (tables.url), whose own versions and copies keep them"
            )

    def table(self, name: str) -> LocalStore:
        return LocalStore(self.home.spark_tables / name)

    def table_names(self) -> list[str]:
        root = self.home.spark_tables
        there = table_places(lambda folder: [one.name for one in (root / folder).glob("*")])
        return order_of_tables(name for name in there if any((root / name / LOG).glob("*.json")))

    def small(self, path: str, into: BackupFolder) -> BackedFile:
        return file_copied(self.home.root / path, path, into)

    def copied(self, source: SourceFile, into: BackupFolder, pace: Pace) -> BackedFile:
        return file_copied(self.home.root / source.path, source.path, into, source.size, pace)

    def audits(self) -> list[SourceFile]:
        found: list[SourceFile] = []
        for report in sorted(self.home.audits.glob(f"*/{REPORT}")):
            for path in sorted(report.parent.rglob("*")):
                with suppress(FileNotFoundError):  # an old report was removed for a new one
                    if path.is_file():
                        name = path.relative_to(self.home.root).as_posix()
                        found.append(SourceFile(name, path.stat().st_size, fixed=False))
        return found

    def journal(self, into: BackupFolder, behind: int) -> list[CopiedSegment]:
        """Copy segments, but those that are used again meanwhile."""
        home = self.home
        if not home.journal_dir.is_dir():
            return []
        paths, _ = segment.live_paths(segment.paths(home.journal_dir))
        return [one for path in paths if (one := _segment(home, path, into, behind))]

    def needed(self, segments: list[SegmentGroups], group: int) -> list[SegmentGroups] | None:
        return backup_plan.segments_of(segments, group)


def file_copied(
    path: Path, name: str, into: BackupFolder, size: int | None = None, pace: Pace = UNPACED
) -> BackedFile:
    """Copy `size` bytes of a file under a name, by default all."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        due = found.st_size if size is None else size

        def read(some: int, at: int) -> bytes:
            pace.wait(some)
            return os.pread(fd, some, at)

        return into.keep(name, found.st_mode, read, due)
    finally:
        os.close(fd)


def _segment(home: Home, path: Path, into: BackupFolder, behind: int) -> CopiedSegment | None:
    found = _scan(path)
    if found is None:
        return None
    one = found.segment
    try:
        if one.next_group - 1 <= behind:
            return None
        name = path.relative_to(home.root).as_posix()
        mode = os.fstat(one.fd).st_mode
        file = into.keep(name, mode, lambda size, at: os.pread(one.fd, size, at), one.end)
        salt = segment.HEADER.unpack(os.pread(one.fd, segment.HEADER.size, 0))[5]
        if salt != one.salt:
            return None  # the table has its groups by now
        groups = SegmentGroups(name, one.first_group, one.next_group, _next_sequence(found))
        return CopiedSegment(groups, file)
    finally:
        os.close(one.fd)


def _scan(path: Path) -> segment.Found | None:
    for look in range(LOOKS):
        try:
            return segment.scan(path, access=os.O_RDONLY)
        except FileNotFoundError:
            return None
        except JournalBroken:
            if look == LOOKS - 1:
                raise
        time.sleep(LOOK_SECONDS)
    return None


def _next_sequence(found: segment.Found) -> int | None:
    if not found.frames:
        return None
    last = frame.read_header(
        segment.read_all(found.segment.fd, frame.HEADER_BYTES, found.frames[-1].offset)
    )
    return None if last is None else last.first_sequence + last.count
