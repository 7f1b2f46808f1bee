"""Reads a home that a gateway may be serving: nothing is locked, and nothing is written there.

A file that goes while it is read raises `Replaced`: the reader begins a new round.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from distributary.ingest.backup.backup_folder import BackupFolder
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.backup.backup_plan import SegmentGroups, SourceFile, log_of_version
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.tables.delta import checkpoint
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.pinned_table import PinnedTable, pin
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.topic_log.table_view import Replaced


@dataclass(frozen=True, slots=True)
class PinnedLog:
    """A table at one version, its name in the home, and the files of its Delta log at that version:
    these are copied already, as only they may be replaced under their names."""

    name: str
    table: PinnedTable
    log: tuple[BackedFile, ...]

    def data(self) -> list[SourceFile]:
        """Return the table's data files."""
        return [
            SourceFile(f"tables/{self.name}/{path}", size, fixed=True)
            for path, size in self.table.files
        ]


@dataclass(frozen=True, slots=True)
class CopiedSegment:
    """A file of the journal, copied: a segment up to the end of its last whole frame, or an
    object."""

    groups: SegmentGroups
    file: BackedFile


class Pace:
    """Limit of reading, so that the gateway finds the disk free: bytes a second, 0: no limit."""

    def __init__(self, bytes_a_second: float) -> None:
        self._bytes_a_second = bytes_a_second
        self._next = time.monotonic()

    def wait(self, size: int) -> None:
        """Wait until `size` more bytes may be read."""
        if self._bytes_a_second:
            now = time.monotonic()
            time.sleep(max(0.0, self._next - now))
            self._next = max(self._next, now) + size / self._bytes_a_second


#: For files that are small or must be read before the gateway uses them again.
UNPACED: Final = Pace(0)


class HomeReader(Protocol):
    """A home on a disk or a store, as a backup reads it. Methods that copy raise FileNotFoundError
    for a file that is gone, EOFError for one that is shorter than expected."""

    @property
    def on_a_store(self) -> bool: ...

    @property
    def address(self) -> str: ...

    def require_outside(self, folder: Path, /) -> None:
        """Raise InvalidRequest for a folder in the home."""

    def require(self, folder: Path, /) -> None:
        """Raise InvalidRequest unless there is a whole home to copy to this folder."""

    def table(self, name: str) -> Store:
        """Return the store of one of its tables."""

    def table_names(self) -> list[str]:
        """Return its Delta tables, in the order in which they are to be pinned."""

    def small(self, path: str, into: BackupFolder) -> BackedFile:
        """Copy a small file, whole."""

    def copied(self, source: SourceFile, into: BackupFolder, pace: Pace) -> BackedFile:
        """Copy a file of known size."""

    def audits(self) -> list[SourceFile]:
        """Return the files of completed reports, which don't change any more."""

    def journal(self, into: BackupFolder, behind: int) -> list[CopiedSegment]:
        """Copy the journal's groups above `behind`, the last one in the table. Raises JournalBroken
        for damage."""

    def needed(self, segments: list[SegmentGroups], group: int) -> list[SegmentGroups] | None:
        """Return those segments that a table which ends with `group` needs beside it, in order;
        None when groups between them are missing, so that all must be read again."""


def half_restored(address: str) -> InvalidRequest:
    """Return the error for a home with the marker of a restore."""
    return InvalidRequest(
        f"{address} is being restored, or a restore of it was cut off, so there may be half a home "
        "to copy: wait for it, or run `distributary restore` again"
    )


def pinned_now(home: HomeReader, name: str) -> PinnedTable:
    """Return a table of the home at its present version, without copying it. Raises Replaced."""
    try:
        return pin(home.table(name))
    except StoreError as error:
        raise Replaced(str(error)) from error


def pinned(home: HomeReader, name: str, into: BackupFolder) -> PinnedLog:
    """Pin a table at its present version, and copy its Delta log. Raises Replaced."""
    store = home.table(name)
    pointed, pointer = _pointer(store)  # first: later checkpoints are then above it
    table = pinned_now(home, name)
    names = log_of_version(store.files(LOG), table.version, pointed)
    if names is None:
        raise Replaced(f"the log of {store.uri} was cleaned up while it was read")
    files = [_small(home, f"tables/{name}/{LOG}/{one}", into) for one in names]
    if pointed is not None:
        path = f"tables/{name}/{checkpoint.POINTER}"
        files.append(into.keep(path, 0o644, lambda size, at: pointer[at:][:size], len(pointer)))
    return PinnedLog(name, table, tuple(files))


def _pointer(store: Store) -> tuple[int | None, bytes]:
    """Return the version of the checkpoint that readers look at first, and the file that names it;
    None if none is named."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = store.read(checkpoint.POINTER)
        return checkpoint.pointed_by(data), data
    return None, b""


def copied(home: HomeReader, source: SourceFile, into: BackupFolder, pace: Pace) -> BackedFile:
    """Copy a file. Raises Replaced when it is gone, StoreError when it is shorter than its table
    says."""
    path = f"{home.address}/{source.path}"
    try:
        return home.copied(source, into, pace)
    except FileNotFoundError as error:
        raise Replaced(f"{path} went while it was read") from error
    except EOFError as error:
        raise StoreError(
            f"{path} is shorter than its table says, {source.size} bytes: `distributary verify` "
            "says more. The last backup is as it was"
        ) from error


def _small(home: HomeReader, path: str, into: BackupFolder) -> BackedFile:
    try:
        return home.small(path, into)
    except (FileNotFoundError, EOFError) as error:
        raise Replaced(f"{home.address}/{path} went while it was read") from error
