"""One backup: rounds of reading until no file went during one, the manifest, removal of old pieces.

The order of reading is `pipeline.backup.backup_plan`'s, which also says why the copy is a state
that a crash could have left.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from distributary.ingest.backup import home_reader
from distributary.ingest.backup.backup_folder import BackupFolder, writing
from distributary.ingest.backup.disk_reader import file_copied
from distributary.ingest.backup.home_reader import HomeReader, Pace, PinnedLog
from distributary.pipeline.backup import backup_plan
from distributary.pipeline.backup.backup_manifest import (
    SETTINGS,
    BackedFile,
    BackupManifest,
    BackupPoint,
)
from distributary.pipeline.errors import StoreError, of_a_file
from distributary.pipeline.log.log_identity import LogIdentity, digest
from distributary.pipeline.tables.delta.commits import json_name
from distributary.pipeline.tables.delta.pinned_table import PinnedTable
from distributary.pipeline.tables.topic_log.table_view import Replaced

#: Rounds of reading until the backup gives up. Each copies only files that the earlier rounds
#: haven't, so it is shorter.
ROUNDS_MAX: Final = 5

#: Called with the kind of file that is copied, bytes done, and bytes in all.
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BackupReport:
    """Report of a backup: the state that it has, its files and bytes; bytes read and written for
    it, pieces removed, rounds and seconds."""

    folder: Path
    point: BackupPoint
    files: int
    bytes: int
    read_bytes: int
    written_bytes: int
    removed_pieces: int
    rounds: int
    seconds: float


@dataclass(slots=True)
class _Reading:
    """A backup in the making. `known`: files that needn't be read again, by path."""

    home: HomeReader
    into: BackupFolder
    progress: Progress
    pace: Pace
    known: dict[str, BackedFile] = field(default_factory=dict)
    read_bytes: int = 0


def back_up(
    home: HomeReader,
    folder: Path,
    settings: Mapping[str, Path],
    progress: Progress,
    *,
    bytes_a_second: float = 0,
) -> BackupReport:
    """Copy the home as it is now to the folder; whole and durable on return.

    `settings` are files that the settings name, by the name of their setting. Data files are read
    at `bytes_a_second` at most; 0: no limit. Raises InvalidRequest for a wrong home or folder,
    BackupLocked while another process uses the folder, StoreError when the home changes faster than
    it can be read, or isn't sound.
    """
    began = time.monotonic()
    with _told(home):
        home.require(folder)
    with writing(folder) as into, _told(home):
        former = into.manifest()
        reading = _Reading(home, into, progress, Pace(bytes_a_second))
        if former is not None:
            former.require_place(home.address, on_a_store=home.on_a_store)
            _require_same_log(home, former, folder)
            reading.known.update((file.path, file) for file in former.files)
        manifest, rounds = _rounds(reading, settings)
        into.complete(manifest)
        old = backup_plan.unneeded(into.names(), manifest)
        into.remove(old)
        return BackupReport(
            folder.absolute(),
            manifest.point,
            len(manifest.files),
            manifest.size,
            reading.read_bytes,
            into.written_bytes,
            len(old),
            rounds,
            round(time.monotonic() - began, 3),
        )


@contextmanager
def _told(home: HomeReader) -> Iterator[None]:
    """Raise a store's error, which names no file, as StoreError with a sentence."""
    try:
        yield
    except OSError as error:
        if of_a_file(error) is not None:
            raise
        raise StoreError(
            f"{home.address} can't be read: {error}. The last backup is as it was; see to the "
            "store, its address and its keys"
        ) from error


def _require_same_log(home: HomeReader, former: BackupManifest, folder: Path) -> None:
    was = former.point.log
    now = _identity(home, home_reader.pinned_now(home, backup_plan.LAST_TABLE))
    entry: str | None = None
    with suppress(FileNotFoundError):
        entry = digest(home.table(backup_plan.LAST_TABLE).read(json_name(was.version)))
    backup_plan.require_same_log(was, now, entry, str(folder))


def _identity(home: HomeReader, table: PinnedTable) -> LogIdentity:
    entry = home.table(backup_plan.LAST_TABLE).read(json_name(table.version))
    return LogIdentity(table.id, table.version, digest(entry))


def _rounds(reading: _Reading, settings: Mapping[str, Path]) -> tuple[BackupManifest, int]:
    for number in range(1, ROUNDS_MAX):
        with suppress(Replaced):
            return _round(reading, settings), number
    return _round(reading, settings), ROUNDS_MAX


def _round(reading: _Reading, settings: Mapping[str, Path]) -> BackupManifest:
    """Copy the home as it is now. Raises Replaced when a file went before it was copied."""
    home, into, began = reading.home, reading.into, time.time()
    tables = _spark_tables(home, into)
    reading.progress("journal", 0, 0)
    behind = home_reader.pinned_now(home, backup_plan.LAST_TABLE).group
    segments = {one.groups.path: one for one in home.journal(into, behind)}
    log = home_reader.pinned(home, backup_plan.LAST_TABLE, into)
    needed = home.needed([one.groups for one in segments.values()], log.table.group)
    if needed is None:
        raise Replaced(
            f"groups between the journal and the table of {home.address} can't be found: "
            "`distributary verify` says more. The last backup is as it was"
        )
    files = [segments[one.path].file for one in needed]
    for table in (*tables, log):
        files += table.log
    sources = [source for table in (*tables, log) for source in table.data()]
    files += _copied(reading, [*sources, *home.audits()])
    files += _settings(into, settings)
    last = needed[-1].end - 1 if needed else log.table.group
    later = [one.next_sequence for one in needed if one.next_sequence is not None]
    point = BackupPoint(began, _identity(home, log.table), last, max([log.table.sequence, *later]))
    ordered = tuple(sorted(files, key=lambda one: one.path))
    return BackupManifest(point, ordered, on_a_store=home.on_a_store)


def _spark_tables(home: HomeReader, into: BackupFolder) -> list[PinnedLog]:
    """Pin `cursors`, then Spark's other tables that exist by then: a topic's table is made with its
    first row. Raises Replaced."""
    first, last = backup_plan.FIRST_TABLE, backup_plan.LAST_TABLE
    cursors = [home_reader.pinned(home, first, into)] if first in home.table_names() else []
    names = home.table_names()
    if first in names and not cursors:
        raise Replaced(f"{first} of {home.address} came while it was read")
    others = (name for name in names if name not in (first, last))
    return [*cursors, *(home_reader.pinned(home, name, into) for name in others)]


def _copied(reading: _Reading, sources: list[backup_plan.SourceFile]) -> list[BackedFile]:
    """Copy all of these files; those that the folder has aren't read."""
    work = backup_plan.work(sources, reading.known, reading.into.present)
    files, done = list(work.kept), 0
    for source in work.copied:
        reading.progress("files", done, work.copied_bytes)
        file = home_reader.copied(reading.home, source, reading.into, reading.pace)
        reading.known[file.path] = file
        files.append(file)
        done += source.size
    reading.read_bytes += done
    reading.progress("files", done, work.copied_bytes)
    return files


def _settings(into: BackupFolder, settings: Mapping[str, Path]) -> list[BackedFile]:
    files: list[BackedFile] = []
    for key, path in settings.items():
        try:
            files.append(file_copied(path, f"{SETTINGS}/{key}/{path.name}", into))
        except OSError as error:
            raise StoreError(
                f"{path}, which {key} names, can't be read: {error.strerror}"
            ) from error
    return files
