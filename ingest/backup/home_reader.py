"""Reads a home that a gateway may be serving: nothing is locked, and nothing is written there.

What goes while it is read is `Replaced`: whoever reads begins a new round.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distributary.ingest.backup.backup_folder import BackupFolder
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.backup.backup_plan import (
    SegmentGroups,
    SourceFile,
    log_of_version,
    order_of_tables,
)
from distributary.pipeline.errors import JournalBroken, StoreError
from distributary.pipeline.tables.delta import checkpoint
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.pinned_table import PinnedTable, pin
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.audit_reports import REPORT
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.topic_log.table_view import Replaced

#: Times that damage in a segment is looked at again: a frame that is being written looks torn.
LOOKS: Final = 5
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class PinnedLog:
    """A table at one version, its name in the home, and the files of its own log at that version:
    these are copied already, as only they are ever replaced under their names."""

    name: str
    table: PinnedTable
    log: tuple[BackedFile, ...]

    def data(self) -> list[SourceFile]:
        """Its data files."""
        return [
            SourceFile(f"tables/{self.name}/{path}", size, fixed=True)
            for path, size in self.table.files
        ]


@dataclass(frozen=True, slots=True)
class CopiedSegment:
    """A segment of the journal up to the end of its last whole frame, copied."""

    groups: SegmentGroups
    file: BackedFile


def table_names(home: Home) -> list[str]:
    """The Delta tables of the home, in the order in which they are to be pinned."""
    found = home.spark_tables.glob(f"*/{LOG}")
    return order_of_tables(path.parent.name for path in found)


def pinned_now(home: Home, name: str) -> PinnedTable:
    """A table of the home as it is now, none of it copied. Raises Replaced."""
    try:
        return pin(LocalStore(home.spark_tables / name))
    except StoreError as error:
        raise Replaced(str(error)) from error


def pinned(home: Home, name: str, into: BackupFolder) -> PinnedLog:
    """A table of the home as it is now. Raises Replaced."""
    store = LocalStore(home.spark_tables / name)
    pointed, pointer = _pointer(store)  # first: what comes meanwhile is then above it
    table = pinned_now(home, name)
    names = log_of_version(store.files(LOG), table.version, pointed)
    if names is None:
        raise Replaced(f"the log of {store.root} was cleaned up while it was read")
    files = [_small(home, f"tables/{name}/{LOG}/{one}", into) for one in names]
    if pointed is not None:
        path = f"tables/{name}/{checkpoint.POINTER}"
        files.append(into.keep(path, 0o644, lambda size, at: pointer[at:][:size], len(pointer)))
    return PinnedLog(name, table, tuple(files))


def _pointer(store: LocalStore) -> tuple[int | None, bytes]:
    """Which checkpoint readers look at first, and the file that says so; None when none does."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = store.read(checkpoint.POINTER)
        return checkpoint.pointed_by(data), data
    return None, b""


class Pace:
    """How quickly a home is read, so that its gateway finds the disk free: bytes a second, 0 for
    as quickly as it goes."""

    def __init__(self, bytes_a_second: float) -> None:
        self._bytes_a_second = bytes_a_second
        self._next = time.monotonic()

    def read(self, fd: int, size: int, at: int) -> bytes:
        """These bytes of a file, not before their time."""
        if self._bytes_a_second:
            now = time.monotonic()
            time.sleep(max(0.0, self._next - now))
            self._next = max(self._next, now) + size / self._bytes_a_second
        return os.pread(fd, size, at)


#: For what is small or must be read before the gateway uses it again.
UNPACED: Final = Pace(0)


def copied(home: Home, source: SourceFile, into: BackupFolder, pace: Pace) -> BackedFile:
    """Copy a file. Raises Replaced when it is gone, StoreError when it isn't as long as its table
    says."""
    path = home.root / source.path
    try:
        return file_copied(path, source.path, into, source.size, pace)
    except FileNotFoundError as error:
        raise Replaced(f"{path} went while it was read") from error
    except EOFError as error:
        raise StoreError(
            f"{path} is shorter than its table says, {source.size} bytes: `distributary verify` "
            "says more. The last backup is as it was"
        ) from error


def file_copied(
    path: Path, name: str, into: BackupFolder, size: int | None = None, pace: Pace = UNPACED
) -> BackedFile:
    """Copy a file under a name, by default as long as it is."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        due = found.st_size if size is None else size
        return into.keep(name, found.st_mode, lambda some, at: pace.read(fd, some, at), due)
    finally:
        os.close(fd)


def _small(home: Home, name: str, into: BackupFolder) -> BackedFile:
    try:
        return file_copied(home.root / name, name, into)
    except (FileNotFoundError, EOFError) as error:
        raise Replaced(f"{home.root / name} went while it was read") from error


def audits(home: Home) -> list[SourceFile]:
    """The files of reports that are whole, which don't change any more."""
    found: list[SourceFile] = []
    for report in sorted(home.audits.glob(f"*/{REPORT}")):
        for path in sorted(report.parent.rglob("*")):
            with suppress(FileNotFoundError):  # an old report that made room for a new one
                if path.is_file():
                    name = path.relative_to(home.root).as_posix()
                    found.append(SourceFile(name, path.stat().st_size, fixed=False))
    return found


def journal(home: Home, into: BackupFolder, behind: int) -> list[CopiedSegment]:
    """Copy what the journal has above the group `behind`, which the table has already. Segments
    that are used again meanwhile aren't among them. Raises JournalBroken for damage."""
    if not home.journal_dir.is_dir():
        return []
    paths, _ = segment.live_paths(segment.paths(home.journal_dir))
    return [one for path in paths if (one := _segment(home, path, into, behind))]


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
