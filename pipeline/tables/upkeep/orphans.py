"""Data files that no version of the table names: a killed process left them behind.

The table decides, and no clock. A file is removed when it was seen *before* a version that we made,
and neither the table nor an entry of its log names it. No later version can name it: it was written
for the version after one that its writer knew, and that version is ours. So it doesn't matter how
late the file is removed, and which owner the table has by then: the next owner writes its files
after a version of its own, and from then on we can make none.
"""

from collections import deque
from typing import Final

from distributary.pipeline import topic_log_columns as columns
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_state import TableState

#: Folders that one step lists, and entries that it reads, at most: on a store each is a request.
FOLDERS_MAX: Final = 12
#: Failed looks after which the rest waits for the next start: all other upkeep waits for them.
FAILURES_MAX: Final = 10
ENTRIES_MAX: Final = 200
#: Files that one step removes, at most.
FILES_MAX: Final = 50
_RECORD, _DAY = (f"{name}=" for name in columns.PARTITIONS)


class Orphans:
    """The search of one gateway process for orphans; for the committer's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Folders to look into: the table, its records, their days.
        self._folders = deque([""])
        self._failures = 0
        self._suspects: set[str] = set()
        self._seen_at = 0  #: the version at which all folders had been seen
        self._next = 0  #: the next entry to be read

    @property
    def looking(self) -> bool:
        """Whether folders remain to be looked into. Meanwhile no file may be written that a later
        step is to name."""
        return bool(self._folders)

    def look(self, state: TableState) -> None:
        """Look into some more folders; `state` is the current table, and no files that it doesn't
        name may be under way. Raises OSError; the next look is at the same folder."""
        live = {file.path for file in state.files}
        try:
            for _ in range(FOLDERS_MAX):
                if not self._folders:
                    break
                self._look_into(self._folders[0], live)
                self._folders.popleft()
        except OSError:
            self._failures += 1
            if self._failures < FAILURES_MAX:
                raise
            self._folders.clear()
        if not self._folders:
            self._seen_at = self._next = state.version

    def _look_into(self, folder: str, live: set[str]) -> None:
        if not folder:
            self._folders += [one for one in self._store.folders("") if one.startswith(_RECORD)]
        elif "/" not in folder:
            days = [one for one in self._store.folders(folder) if one.startswith(_DAY)]
            self._folders += [f"{folder}/{day}" for day in days]
        else:
            names = (name for name in self._store.files(folder) if name.endswith(".parquet"))
            self._suspects |= {f"{folder}/{name}" for name in names} - live

    def step(self, state: TableState, oldest: int) -> tuple[int, bool] | None:
        """Read entries down to the oldest one, then remove the files that none of them names.
        Returns the number of removed files, and whether all is done. None before a version was made
        after the files were seen."""
        if not self._suspects:
            return 0, True
        if state.version == self._seen_at:
            return None
        last = max(oldest, self._next - ENTRIES_MAX + 1)
        while self._suspects and self._next >= last:
            self._suspects -= self._named(self._next)
            self._next -= 1
        if self._suspects and self._next >= oldest:
            return 0, False
        going = sorted(self._suspects)[:FILES_MAX]
        self._store.delete(going)
        self._suspects -= set(going)
        return len(going), not self._suspects

    def _named(self, version: int) -> set[str]:
        try:
            entry = commits.parse(self._store.read(commits.json_name(version)))
        except FileNotFoundError:
            return set()  # cleaned up, after the files that it removed
        return {file.path for file in entry.added} | set(entry.removed)
