"""Data files that a killed process left behind: written, but named by no commit.

They can only be younger than the last commit, so only folders that changed since are looked into;
but what was being spread may be older, and is known by its name. A file goes when neither the table
nor any entry of its log names it; a few entries are read at a time.
"""

from typing import Final

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_state import TableState
from distributary.pipeline.tables.upkeep import recluster

#: Entries that one step reads at most.
ENTRIES_MAX: Final = 200


class Orphans:
    """What one life of a gateway found; for the committer's thread."""

    def __init__(self, store: Store, state: TableState, opened: int) -> None:
        """`state` is the table of now, `opened` the version of the start: what was left behind is
        younger. What this life has written itself is named by then."""
        self._store = store
        self._next = state.version
        since = store.modified(commits.json_name(opened))
        live = {file.path for file in state.files}
        messages = commits.partition(topic_log_schema.MESSAGE, "").partition("/")[0]
        written = f"/{commits.file_name(recluster.TIER, '').partition('-')[0]}-"
        self._suspects: set[str] = set()
        for record in store.folders(""):
            for day in store.folders(record):
                folder = f"{record}/{day}"
                if record != messages and store.modified(folder) < since:
                    continue
                paths = {f"{folder}/{name}" for name in store.files(folder)} - live
                spread = {path for path in paths if written in path}
                self._suspects |= spread | store.newer(folder, paths - spread, since)

    def step(self, oldest: int) -> tuple[int, bool]:
        """Go on to look for them, down to the oldest entry: how many files went, whether done."""
        last = max(oldest, self._next - ENTRIES_MAX + 1)
        while self._suspects and self._next >= last:
            self._suspects -= self._named(self._next)
            self._next -= 1
        if self._suspects and self._next >= oldest:
            return 0, False
        self._store.delete(sorted(self._suspects))
        return len(self._suspects), True

    def _named(self, version: int) -> set[str]:
        try:
            entry = commits.parse(self._store.read(commits.json_name(version)))
        except FileNotFoundError:
            return set()  # cleaned up
        return {file.path for file in entry.added} | set(entry.removed)
