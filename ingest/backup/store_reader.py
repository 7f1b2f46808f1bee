"""Reads a home without a disk: see `home_reader`."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from distributary.ingest.backup.backup_folder import BackupFolder
from distributary.ingest.backup.home_reader import CopiedSegment, Pace, half_restored
from distributary.pipeline.backup import backup_plan
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.backup.backup_plan import SegmentGroups, SourceFile
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.table_places import table_places
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects
from distributary.pipeline.tables.object_home.object_home import (
    TABLES,
    ObjectHome,
    entry_path,
    journal_folder,
)
from distributary.pipeline.tables.topic_log.table_view import open_view

#: Seconds of one request, and of its retries.
_REQUEST_SECONDS: Final = 30.0
_MODE: Final = 0o644


class StoreReader:
    """Objects below one address, the tables among them. Implements `HomeReader`."""

    on_a_store: Final = True

    def __init__(self, home: ObjectHome) -> None:
        """Raises InvalidRequest for a wrong address."""
        self.home, self.address = home, home.url
        self._store = ObjectStore(
            home.url, home.options, seconds_max=_REQUEST_SECONDS, patience=_REQUEST_SECONDS
        )

    def require_outside(self, _folder: Path) -> None:
        """A folder never lies in a store."""

    def require(self, _folder: Path) -> None:
        if self._store.exists(RESTORING):
            raise half_restored(self.address)
        if backup_plan.LAST_TABLE not in self.table_names():
            raise InvalidRequest(
                f"there is no topic_log in {self.address}: it is no gateway's home"
            )
        if not self._live():
            raise InvalidRequest(
                f"{self.address} has the table of a home on a disk, and no journal: back up that "
                "home's folder"
            )

    def _live(self) -> int:
        return open_view(self.table(backup_plan.LAST_TABLE)).state.live

    def table(self, name: str) -> ObjectStore:
        return ObjectStore(f"{self.home.tables}/{name}", self.home.options)

    def table_names(self) -> list[str]:
        there = table_places(lambda folder: self._store.folders(f"{TABLES}/{folder}".rstrip("/")))
        return backup_plan.order_of_tables(
            name for name in there if self._store.files(f"{TABLES}/{name}/{LOG}")
        )

    def small(self, path: str, into: BackupFolder) -> BackedFile:
        data = self._store.read(path)
        return into.keep(path, _MODE, lambda size, at: data[at:][:size], len(data))

    def copied(self, source: SourceFile, into: BackupFolder, pace: Pace) -> BackedFile:
        def read(size: int, at: int) -> bytes:
            pace.wait(size)
            return self._store.part(source.path, at, size)

        return into.keep(source.path, _MODE, read, source.size)

    def audits(self) -> list[SourceFile]:
        """Return none: no reports are kept on a store."""
        return []

    def journal(self, into: BackupFolder, behind: int) -> list[CopiedSegment]:
        """Copy all groups of the live journal, even those after a gap: the missing groups may be in
        the table by now."""
        live = self._live()
        kinds = self._store.sizes(journal_folder(live))
        found: list[CopiedSegment] = []
        for group in sorted(_groups(kinds)):
            if group > behind:
                with suppress(FileNotFoundError):  # the table has the group by now
                    found.append(self._entry(live, group, into))
        return found

    def _entry(self, epoch: int, group: int, into: BackupFolder) -> CopiedSegment:
        path = entry_path(epoch, group)
        read = JournalObjects(self._store).read(epoch, group)
        file = self.small(path, into)
        head = frame.read_header(bytes(read.frame[: frame.HEADER_BYTES]))
        after = None if head is None else head.first_sequence + head.count
        return CopiedSegment(SegmentGroups(path, group, group + 1, after), file)

    def needed(self, segments: list[SegmentGroups], group: int) -> list[SegmentGroups] | None:
        """Return the groups up to the first gap: later ones were never accepted."""
        return backup_plan.standing(segments, group)


def _groups(sizes: Mapping[str, int]) -> list[int]:
    """Return the groups of these entries, without seals."""
    found = {
        name: entry.group_of(name)
        for name, size in sizes.items()
        if entry.kind_of(size) is Kind.GROUP
    }
    return [group for group in found.values() if group is not None]
