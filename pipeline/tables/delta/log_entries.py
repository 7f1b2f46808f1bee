"""The table's own log: its checkpoints, and the clean-up of entries that no reader needs any more.

The oldest entries are removed first, and only below a checkpoint. The data files that an entry
removed are deleted before the entry: so a file is on the disk as long as a remaining entry can
reach it, and a clean-up that was interrupted anywhere is continued.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from distributary.pipeline.tables.delta import checkpoint, commits
from distributary.pipeline.tables.delta.checkpoint import Identity
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import (
    CHECKPOINT_SUFFIX,
    checkpoint_name,
    version_of,
)
from distributary.pipeline.tables.delta.table_state import TableState

#: Entries and (about) data files in one step of the clean-up, at most: each is a system call that
#: may wait for the disk.
ENTRIES_MAX: Final = 25
FILES_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Counts of what one step of the clean-up removed."""

    entries: int
    files: int


class LogEntries:
    """The files in the log's folder, listed once and kept in step; for the committer's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        names = store.files(LOG)
        entries = [version_of(name) for name in names if name.endswith(".json")]
        #: The oldest remaining entry.
        self.oldest = min((v for v in entries if v is not None), default=0)
        checkpoints = [version_of(name) for name in names if name.endswith(CHECKPOINT_SUFFIX)]
        self.checkpoints = sorted(v for v in checkpoints if v is not None)
        self._made = (-1, 0)  #: an entry, and when it was made
        self._gone = -1  #: the latest removal of a file that we cleaned up, milliseconds

    @property
    def checkpointed(self) -> int:
        """The version of the last checkpoint; -1 without one."""
        return self.checkpoints[-1] if self.checkpoints else -1

    def oldest_made_at(self) -> int:
        """When the oldest entry was made, microseconds."""
        if self._made[0] != self.oldest:
            self._made = self.oldest, commits.made_at(self._read(self.oldest))
        return self._made[1]

    def _read(self, version: int) -> bytes:
        """Read an entry; nothing if a former owner that woke up has removed it."""
        try:
            return self._store.read(commits.json_name(version))
        except FileNotFoundError:
            return b""

    def checkpoint(
        self,
        identity: Identity,
        state: TableState,
        *,
        opened: int,
        removed: Iterable[Mapping[str, object]],
        since: int,
    ) -> None:
        """Write a checkpoint of the state. `removed` are the remove actions of commits after the
        version `opened`; earlier ones are read. Tombstones are written for files that were removed
        at `since` (microseconds) or later and weren't cleaned up."""
        last = self.checkpointed
        entries = range(max(last + 1, self.oldest), opened + 1)
        actions = [one for v in entries for one in commits.actions_of(self._read(v), "remove")]
        before = checkpoint.tombstones(self._store, last)
        found = pa.concat_arrays([before, checkpoint.tombstones_of([*actions, *removed])])
        found = checkpoint.kept(found, max(since // 1_000, self._gone + 1))
        checkpoint.write(self._store, identity, state, found)
        self.checkpoints.append(state.version)

    def clean(
        self, *, below: int, seen: int | None, since: int, live: frozenset[str]
    ) -> Cleaned | None:
        """Remove the oldest entries, a bounded number; None if none can be removed.

        An entry is removed when it was made before `since` (microseconds); or when it is below the
        version `below` and the readers of changes have seen it (`seen`, None if there are none).
        `live` are the files of the table now.
        """
        end = min(self.checkpointed, self.oldest + ENTRIES_MAX)
        doomed: list[str] = []
        version, gone = self.oldest, self._gone
        while version < end and len(doomed) < FILES_MAX:
            text = self._read(version)
            wanted = version >= below or (seen is not None and version > seen)
            if wanted and commits.made_at(text) >= since:
                break
            removed = list(commits.actions_of(text, "remove"))
            gone = max([gone, *(int(one.get("deletionTimestamp") or 0) for one in removed)])
            paths = (unquote(one["path"]) for one in removed)
            doomed += (path for path in paths if path not in live)
            version += 1
        if version == self.oldest:
            return None
        folders = {path.rpartition("/")[0] for path in doomed}
        old = [c for c in self.checkpoints if c < version - 1]
        self._store.delete(checkpoint_name(c) for c in old)
        self._store.delete(doomed)
        self._store.sync(sorted(folders))
        self._store.delete(commits.json_name(v) for v in range(self.oldest, version))
        cleaned = Cleaned(version - self.oldest, len(doomed))
        self.checkpoints = self.checkpoints[len(old) :]
        self.oldest, self._gone = version, gone
        return cleaned
