"""Upkeep keeps a table small and quick while it is written for months: one bounded step at a time.

Kinds of steps take turns, so that none starves another: a checkpoint, a merge of small files,
reclustering of full ones, the removal of days that no subscription is owed, the clean-up of the
log. Each leaves the table whole wherever it is interrupted, and removes nothing that a reader of
the table needs.
"""

import datetime as dt
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import pyarrow.compute as pc
from msgspec.structs import replace

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.checkpoint import Identity
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.log_entries import ENTRIES_MAX, LogEntries
from distributary.pipeline.tables.delta.store import Store, beside, delta_table
from distributary.pipeline.tables.delta.table_state import TableState
from distributary.pipeline.tables.delta.table_writer import TableWriter
from distributary.pipeline.tables.upkeep import (
    day_retention,
    event_retention,
    merge,
    settled_retention,
    tiers,
)
from distributary.pipeline.tables.upkeep.orphans import Orphans
from distributary.pipeline.tables.upkeep.recluster import Recluster
from distributary.pipeline.tables.upkeep.upkeep_limits import (
    CHECKPOINT_COMMITS,
    Owed,
    Upkeep,
    UpkeepLimits,
)

_DAY_US: Final = 86_400_000_000
#: Groups of a day may be committed this long after it: only then the day is over.
DAY_GRACE_US: Final = 600_000_000
#: The shortest interval between two removals of settled messages.
SETTLED_INTERVAL_US: Final = 10_000_000
#: Removed settled files stay on the disk this long: a reader that has just listed the table's files
#: reads them meanwhile.
READERS_US: Final = 120_000_000
#: The shortest interval between two looks at the position of Spark's job.
SEEN_INTERVAL_US: Final = 60_000_000


class Steps:
    """Chooses and does the steps; all on the committer's thread."""

    def __init__(self, writer: TableWriter, identity: Identity, limits: UpkeepLimits) -> None:
        self._writer, self._identity, self._limits = writer, identity, limits
        self._store = writer.store
        self._seen = _Seen(writer.store)
        self._full: set[str] = set()
        self._log: LogEntries | None = None
        #: Versions that removed files, since our start, and the bytes of these files.
        self._removed: deque[tuple[int, int]] = deque()
        #: Versions that removed settled files, and when: those files are deleted soon.
        self._taken: deque[tuple[int, int]] = deque()
        self._settled_asked = 0
        self._reclusterer = Recluster(writer)
        self._events_asked = ""  #: the first day to keep when no more events could be removed
        #: The first steps search for orphans, so that no start waits for it.
        self._orphans: Orphans | None = Orphans(self._store)
        self._kinds: list[Callable[[int, Owed], Upkeep | None]] = [
            self._checkpoint,
            self._merge,
            self._recluster,
            self._retain,
            self._retain_less,
            self._forget_events,
            self._clean,
            self._remove_orphans,
        ]

    def take(self, *, now: int, owed: Owed) -> Upkeep | None:
        """Do one step; None when nothing is due. Raises StoreError when it can't be done now."""
        self._writer.ready()
        began = time.perf_counter()
        turn = self._kinds
        try:
            if self._orphans is not None and self._orphans.looking:
                self._orphans.look(self._writer.state)
                if self._orphans.looking:
                    return Upkeep("orphans", 0, 0, time.perf_counter() - began)
            for nth, kind in enumerate(turn):
                # A failed kind has had its turn, too: a damaged file must not stop the others.
                self._kinds = turn[nth + 1 :] + turn[: nth + 1]
                before = self._writer.state
                if done := kind(now, owed):
                    self._note_removed(before)
                    return replace(done, seconds=time.perf_counter() - began)
        except library_errors(OSError, ValueError) as error:
            raise StoreError(f"upkeep of {self._store.uri} failed: {error}") from error
        return None

    @property
    def _entries(self) -> LogEntries:
        if self._log is None:
            self._log = LogEntries(self._store)
        return self._log

    def _checkpoint(self, now: int, _owed: Owed) -> Upkeep | None:
        state, last = self._writer.state, self._entries.checkpointed
        # An old entry can go only below a checkpoint, however few commits there were.
        waiting = self._entries.oldest >= last and self._old(now) and state.version > last
        soon = self._left_behind(now)
        waiting = waiting or max(last, 0) < soon <= state.version
        if state.version - max(last, 0) < CHECKPOINT_COMMITS and not waiting:
            return None
        removed = self._writer.removed
        self._writer.durably(
            lambda: self._entries.checkpoint(
                self._identity,
                state,
                opened=self._writer.opened,
                removed=removed,
                since=now - self._limits.log_retention_days * _DAY_US,
            )
        )
        removed.clear()
        return Upkeep("checkpoint", 1, 0, 0.0)

    def _merge(self, now: int, _owed: Owed) -> Upkeep | None:
        today = day_of(now - DAY_GRACE_US)
        files = self._writer.state.files
        while run := tiers.choose(files, today=today, full=self._full):
            loaded = merge.load(self._store, run)
            if loaded.full is None:
                return self._swap(loaded, run, now)
            self._full.add(loaded.full)
        return None

    def _swap(self, loaded: merge.Loaded, run: tiers.Run, now: int) -> Upkeep:
        files = loaded.files
        filled = loaded.size >= tiers.FULL_BYTES or len(files) < len(run.files)
        tier = tiers.LAST_TIER if filled else run.tier

        def write(added: list[AddedFile]) -> bytes:
            added.append(merge.merge(self._store, loaded, tier))
            return commits.encode("OPTIMIZE", at=now, added=added, removed=files, data_change=False)

        gone = {file.path for file in files}
        self._writer.make(write, lambda at, new: at.swapped(gone, new))
        self._full -= gone
        return Upkeep("merge", len(files), sum(file.size for file in files), 0.0)

    def _recluster(self, now: int, _owed: Owed) -> Upkeep | None:
        done = self._reclusterer.take(now=now, today=day_of(now - DAY_GRACE_US), full=self._full)
        return None if done is None else Upkeep("spread", *done, 0.0)

    def _retain(self, now: int, owed: Owed) -> Upkeep | None:
        if not self._limits.retention_days:
            return None
        before = day_of(now - self._limits.retention_days * _DAY_US)
        files = day_retention.expired(self._writer.state.files, before=before, floor=owed.durable)
        if not files:
            return None
        text = commits.encode("DELETE", at=now, removed=files)
        gone = {file.path for file in files}
        self._writer.make(lambda _added: text, lambda at, _: at.swapped(gone, ()))
        size = sum(file.size for file in files)
        messages = sum(file.rows for file in files if file.record == topic_log_schema.MESSAGE)
        return Upkeep("retention", len(files), size, 0.0, messages)

    def _retain_less(self, now: int, owed: Owed) -> Upkeep | None:
        """Remove settled messages by time and bytes, in one commit every few seconds."""
        limits = self._limits
        if not limits.retains_less or 0 <= now - self._settled_asked < SETTLED_INTERVAL_US:
            return None
        self._settled_asked = now
        seconds = limits.retention_seconds
        bounds = settled_retention.Bounds(
            owed.anybody,
            self._seen.group(now),
            now - seconds * 1_000_000 if seconds >= 0 else 0,
            limits.retention_bytes,
            now - limits.log_retention_days * _DAY_US,
        )
        going = settled_retention.choose(self._writer.state.files, bounds)
        if going is None:
            return None
        files = going.files + going.cut

        def write(added: list[AddedFile]) -> bytes:
            added += settled_retention.write(self._store, going)
            # As with events: the remaining rows of a cut file aren't new.
            rearranged = [{"add": commits.add_action(one, data_change=False)} for one in added]
            return commits.encode("DELETE", at=now, removed=files) + commits.lines(rearranged)

        gone = {file.path for file in files}
        self._writer.make(write, lambda at, new: at.swapped(gone, new))
        self._taken.append((self._writer.state.version, now))
        return Upkeep("settled", len(files), sum(file.size for file in files), 0.0)

    def _forget_events(self, now: int, _owed: Owed) -> Upkeep | None:
        """Remove events; tried once for each day, as retention's first day decides."""
        if not self._limits.retention_days:
            return None
        before = day_of(now - self._limits.retention_days * _DAY_US)
        state = self._writer.state
        if before == self._events_asked:
            return None
        found = event_retention.choose(self._store, state.files, before=before)
        if found is None:
            self._events_asked = before
            return None

        def write(added: list[AddedFile]) -> bytes:
            added += event_retention.write(self._store, found)
            # For readers of changes, rows were removed; the remaining rows have only moved.
            rearranged = [{"add": commits.add_action(one, data_change=False)} for one in added]
            return commits.encode("DELETE", at=now, removed=found.files) + commits.lines(rearranged)

        gone = {file.path for file in found.files}
        self._writer.make(write, lambda at, new: at.swapped(gone, new))
        return Upkeep("events", len(gone), sum(file.size for file in found.files), 0.0)

    def _clean(self, now: int, _owed: Owed) -> Upkeep | None:
        state = self._writer.state
        below = max(state.version + 1 - self._limits.log_entries_max, self._too_much())
        many = self._entries.oldest + ENTRIES_MAX <= below
        soon = self._left_behind(now)
        below = max(below, soon)
        if not many and self._entries.oldest >= soon and not self._old(now):
            return None
        cleaned = self._writer.durably(
            lambda: self._entries.clean(
                below=below,
                seen=self._seen.version(now),
                since=self._since(now),
                live=frozenset(file.path for file in state.files),
            )
        )
        if cleaned is None:
            return None
        return Upkeep("clean-up", cleaned.entries + cleaned.files, 0, 0.0)

    def _note_removed(self, before: TableState) -> None:
        state = self._writer.state
        if state is before:
            return
        live = {file.path for file in state.files}
        size = sum(file.size for file in before.files if file.path not in live)
        if size:
            self._removed.append((state.version, size))

    def _too_much(self) -> int:
        """Return the version below which entries go because the files that they removed are too
        big together; 0 if they aren't."""
        while self._removed and self._removed[0][0] < self._entries.oldest:
            self._removed.popleft()
        total, below = sum(size for _, size in self._removed), 0
        for version, size in self._removed:
            if total <= self._limits.removed_bytes_max:
                break
            total, below = total - size, version + 1
        return below

    def _left_behind(self, now: int) -> int:
        """Return the version below which entries go because they removed settled files whose
        readers have had time enough; 0 if there is none."""
        below = 0
        for version, at in self._taken:
            if now - at < READERS_US:
                break
            below = version + 1
        while self._taken and self._taken[0][0] < self._entries.oldest:
            self._taken.popleft()
        return below

    def _old(self, now: int) -> bool:
        """Whether the oldest entry is older than log_retention_days."""
        return self._entries.oldest_made_at() < self._since(now)

    def _since(self, now: int) -> int:
        return now - self._limits.log_retention_days * _DAY_US

    def _remove_orphans(self, _now: int, _owed: Owed) -> Upkeep | None:
        if self._orphans is None:
            return None
        found = self._orphans.step(self._writer.state, self._entries.oldest)
        if found is None:
            return None
        files, done = found
        if done:
            self._orphans = None
        return Upkeep("orphans", files, 0, 0.0) if files or not done else None


class _Seen:
    """The version up to which Spark's job has read the log for good.

    A batch that has written its cursors may run once more, so a position counts when a later one
    has been seen: then the earlier batch is over.
    """

    def __init__(self, store: Store) -> None:
        self._cursors, self._options = beside(store, "cursors"), store.options
        self._asked: int | None = None
        self._position: int | None = None
        self._sure: int | None = None
        self._group: int | None = None

    def group(self, now: int) -> int | None:
        """Return the last group that all of its tables have; None when there is no job."""
        self.version(now)
        return self._group

    def version(self, now: int) -> int | None:
        """Return the last version that the job won't read again; None when there is no job."""
        if self._asked is None or abs(now - self._asked) >= SEEN_INTERVAL_US:
            self._asked = now
            self._ask()
        return self._sure

    def _ask(self) -> None:
        cursors = delta_table(self._cursors, self._options)
        if cursors is None:
            self._position = self._sure = self._group = None
            return
        self._group = cursors.transaction_version(commits.SPARK_APP) or 0
        table = cursors.to_pyarrow_table(columns=["log_version"])
        position = pc.max(table["log_version"]).as_py()
        if self._sure is None:
            self._sure = -1
        if position is not None and position != self._position:
            if self._position is not None:
                self._sure = self._position
            self._position = position


def day_of(at: int) -> str:
    """Return the UTC day of a time in microseconds."""
    return (
        (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at)).date().isoformat()
    )
