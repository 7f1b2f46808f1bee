"""The table `topic_log`, of which the gateway's committer is the only writer.

A commit takes in whole groups, exactly once: it records the last group and the next free sequence.
Its files are on the disk before it appears, and it appears only if no other process has made that
version. Threads: `commit`, `fence` and `upkeep` on the committer thread alone, `page` and `topics`
on the reader thread alone, all else on any. The caller holds the home's lock.
"""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from distributary.pipeline.dispatch.priority_index import Ahead
from distributary.pipeline.errors import ForeignCommit, StoreError
from distributary.pipeline.log.log_identity import LogIdentity, digest
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.subscriptions.hint import HintFilter
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.delta import commits, evolution, table_log, table_state
from distributary.pipeline.tables.delta.commits import LOG, AddedFile
from distributary.pipeline.tables.delta.store import LocalStore, Store, beside
from distributary.pipeline.tables.delta.table_log import TableLog
from distributary.pipeline.tables.delta.table_state import (
    JOURNAL_APP,
    LIVE_APP,
    OWNER_APP,
    SEQUENCE_APP,
    TableState,
)
from distributary.pipeline.tables.delta.table_writer import TableWriter
from distributary.pipeline.tables.reading.message_page import Page
from distributary.pipeline.tables.topic_log.commit_content import CommitFiles
from distributary.pipeline.tables.upkeep.upkeep_limits import (
    DEFAULT_LIMITS,
    Owed,
    Upkeep,
    UpkeepLimits,
)
from distributary.pipeline.topic_log_columns import MESSAGE, SETTLEMENT

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from distributary.pipeline.tables.reading.table_statistics import Volume
    from distributary.pipeline.tables.topic_log.table_work import TableWork

T = TypeVar("T")

#: Attempts to make a fence while other processes make versions.
FENCE_TRIES_MAX = 10
#: Attempts to add new columns to a table while other processes make versions.
EVOLUTION_TRIES_MAX = 10
#: The last microsecond of a day that can be written: of the year 9999.
TIME_MAX = 253_402_300_799_999_999


class Commit(msgspec.Struct, frozen=True):
    """Result of one commit. `rows` is 0 when the table had all of it already."""

    version: int
    last_group: int
    files: int
    rows: int
    bytes: int
    build_seconds: float
    write_seconds: float
    sync_seconds: float


class TopicLog:
    """The open table. The module's docstring has the thread of each method."""

    def __init__(self, path: Path, store: Store, log: TableLog, limits: UpkeepLimits) -> None:
        self.path, self._limits = path, limits
        self._store, self._head, self._digests = store, log.head, log.digests
        self._writer = TableWriter(store, TableState.of(log), log.entry)

    @cached_property
    def _work(self) -> "TableWork":
        """The work on rows. It imports Arrow, and is first used when there are rows."""
        from distributary.pipeline.tables.topic_log.table_work import TableWork  # noqa: PLC0415

        return TableWork(self.path, self._writer, self._head, self._limits)

    def prepare(self) -> None:
        """Import Arrow for the work on rows: a tenth of a second in which no client is served. To
        be called before any row is waited for, on the thread that opened the table; later calls
        cost nothing."""
        self._work  # noqa: B018

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        store: Store | None = None,
        create: bool = True,
        limits: UpkeepLimits = DEFAULT_LIMITS,
    ) -> Self:
        """Open the table, or make it when nothing is there; one of a former format gets the
        columns that it lacks. With `create` false nothing is written. It lies in the folder
        `path`, or in `store`.

        Raises StoreError for a table whose schema, partitions or protocol isn't ours, and for one
        whose last commit isn't whole; such a table is never written.
        """
        store = store or LocalStore(path)
        try:
            names = store.files(LOG)
            if create and not table_log.is_table(names):
                table_state.make(store, _now())
                names = store.files(LOG)
            log = _open(store, names)
            if create:
                log = _with_all_columns(store, log)
            return cls(path, store, log, limits)
        except OSError as error:
            raise StoreError(f"{store.uri} can't be opened as a Delta table: {error}") from error

    @property
    def version(self) -> int:
        """The table's version after the last commit."""
        return self.state.version

    @property
    def uri(self) -> str:
        """The table's address for deltalake."""
        return self._store.uri

    @property
    def identity(self) -> LogIdentity:
        """The table's id, with a version that has all messages below `sequence_version`."""
        return LogIdentity(str(self._head.metadata["id"]), *self._writer.newest)

    def goes_on_from(self, identity: LogIdentity) -> bool:
        """Whether this is that table, at that version or a later one; False also where the
        version's entry was cleaned up. Raises OSError."""
        known, name = self._digests.get(identity.version), commits.json_name(identity.version)
        with suppress(FileNotFoundError):
            return (known or digest(self._store.read(name))) == identity.entry
        return False

    @property
    def dead(self) -> str | None:
        """The reason why no commit will ever work again: an fsync failed. None while alive."""
        return self._writer.dead

    @property
    def state(self) -> TableState:
        """The newest known version's state: files, group, sequence."""
        return self._writer.state

    @property
    def journal_version(self) -> int:
        """The last group that is committed; 0 before the first one."""
        return self.state.group

    @property
    def sequence_version(self) -> int:
        """The first sequence that isn't committed."""
        return self.state.sequence

    @property
    def first_sequence(self) -> int:
        """The first sequence that retention has left; no subscription is owed a message below
        it."""
        return self.state.first_sequence

    @property
    def first_day(self) -> str:
        """The UTC day of the first messages that retention has left; empty if there are none."""
        messages = (file for file in self.state.files if file.record == MESSAGE)
        return min((file.day for file in messages if file.low is not None), default="")

    def files(self, record: str, after_group: int) -> list[Path]:
        """Return the data files that may have rows of that record in later groups, in a folder."""
        return [self.path / file.path for file in self._later(record, after_group)]

    def parquets(self, record: str, after_group: int) -> "Iterator[pq.ParquetFile]":
        """Open the same files, one after the other, in any store; the caller closes each."""
        return self._store.parquets([file.path for file in self._later(record, after_group)])

    def _later(self, record: str, after_group: int) -> list[AddedFile]:
        return [
            file
            for file in self.state.files
            if file.record == record and (file.group_high is None or file.group_high > after_group)
        ]

    @property
    def cursors(self) -> tuple[str, dict[str, str]]:
        """The address of Spark's table beside this one, and its options for deltalake."""
        return beside(self._store, "cursors"), self._store.options

    # The reader thread

    def page(
        self, topic: str, start: int, bytes_max: int, hint_filter: HintFilter | None = None
    ) -> Page:
        """Return committed messages of `topic`, or of a pattern, from `start` on: about
        `bytes_max`, at least one if there is one. The page has every committed message with
        `start <= sequence < covered`; with `hint_filter` every such one that the filter names."""
        return self._paged(
            topic,
            lambda at: self._work.pager.page(
                at.messages,
                at.sequence,
                topic=topic,
                start=start,
                bytes_max=bytes_max,
                hint_filter=hint_filter,
            ),
        )

    def topics(self, pattern: str, sequences: Sequence[int]) -> dict[int, str]:
        """Return the topic of each of these committed messages, ascending, which match the
        pattern."""
        return self._paged(pattern, lambda at: self._work.pager.topics(at.messages, sequences))

    def _paged(self, topic: str, read: Callable[[TableState], T]) -> T:
        """Read from the newest version. Raises StoreError."""
        while True:
            at = self.state
            try:
                return read(at)
            except FileNotFoundError as error:
                if at is self.state:
                    raise StoreError(f"messages of {topic} can't be read: {error}") from error
            except library_errors(OSError) as error:
                raise StoreError(f"messages of {topic} can't be read: {error}") from error

    # Any thread

    def priority_statistics(self, since: int) -> Iterator[Ahead]:
        """Return the committed messages from `since` on that have a priority above 4 or expire,
        ascending for each topic, in parts.

        Files without such messages, by their statistics, aren't opened.
        """
        return self._looked_over(lambda files: self._work.priority_statistics(files, since))

    def volumes(self, since: int) -> "Iterator[Volume]":
        """Return the committed volume from `since` on, in parts, ascending for each topic."""
        return self._looked_over(lambda files: self._work.volumes(files, since))

    def _looked_over(self, look: Callable[[Sequence[AddedFile]], Iterator[T]]) -> Iterator[T]:
        messages = [file for file in self.state.files if file.record == MESSAGE]
        if not messages:
            return
        try:
            yield from look(messages)
        except library_errors(OSError) as error:
            raise StoreError(f"{self._store.uri} can't be read: {error}") from error

    def never_owed(self, subscription: str, since: int) -> "dict[Outcome, array[int]]":
        """Return the committed sequences from `since` on that a subscription was never owed, in any
        incarnation, ascending. Raises StoreError."""
        return self._work.never_owed(
            str(self.path), lambda: self.parquets(SETTLEMENT, 0), subscription, since
        )

    def first_sequence_at(self, time: int) -> int:
        """Return the first committed sequence that was published at `time` (microseconds) or later.

        `sequence_version` if there is none. `first_sequence` if all retained messages are that
        late: earlier ones, if there were any, were removed by retention.
        """
        while True:
            at = self.state
            try:
                found = self._work.first_at(at.files, min(max(time, 0), TIME_MAX), time)
            except FileNotFoundError as error:
                if at is self.state:
                    raise StoreError(f"{self._store.uri} can't be read: {error}") from error
            except library_errors(OSError) as error:
                raise StoreError(f"{self._store.uri} can't be read: {error}") from error
            else:
                return at.sequence if found is None else found

    # The committer thread

    def commit(self, views: Sequence[memoryview]) -> Commit:
        """Take in these frames of the journal, in order, as one commit, durable on return.

        Frames that the table has already are skipped, so a replay repeats nothing. After a
        StoreError the same call may be tried again, until it returns: the table has none of the
        frames, or whether it has them isn't known yet. After ForeignCommit, or when `dead` says
        why, the gateway must stop.
        """
        return self.commit_files(lambda *after: self._work.encode(views, *after))

    def commit_files(self, encode: Callable[[int, int], CommitFiles | None]) -> Commit:
        """As `commit`, with files that were made elsewhere: `encode` gets the table's last group
        and first free sequence, as `commit_files.encode` does."""
        self.prepare()  # upkeep begins with the state before this commit
        self._writer.ready()
        before = self.state
        began = time.perf_counter()
        files = encode(before.group, before.sequence)
        if files is None:
            self._writer.refuse_foreign()
            return Commit(before.version, before.group, 0, 0, 0, 0.0, 0.0, 0.0)
        built = time.perf_counter()
        written = built

        def write(added: list[AddedFile]) -> bytes:
            nonlocal written
            for file, data in zip(files.added, files.data, strict=True):
                self._store.put(file.path, data)
                added.append(file)
            written = time.perf_counter()
            positions = {JOURNAL_APP: files.group, SEQUENCE_APP: files.sequence}
            return commits.encode("WRITE", at=_now(), added=added, transactions=positions)

        added = self._writer.make(
            write, lambda at, new: at.appended(files.group, files.sequence, new)
        )
        return Commit(
            version=before.version + 1,
            last_group=files.group,
            files=len(added),
            rows=sum(file.rows for file in added),
            bytes=sum(file.size for file in added),
            build_seconds=built - began,
            write_seconds=written - built,
            sync_seconds=time.perf_counter() - written,
        )

    def fence(self, epoch: int, owned: Callable[[], None]) -> None:
        """Make a version that changes only the owner: former owners, which opened the table before,
        can't commit any more. Its epoch is `epoch`, or a higher one than the table has had.

        Versions that the former owner made meanwhile are taken in, as long as `owned` doesn't raise
        HomeLost: so no later owner is fenced off. Raises ForeignCommit when it keeps making them.
        """
        for _ in range(FENCE_TRIES_MAX):
            owned()
            try:
                self._claim(max(epoch, self.state.epoch + 1))
            except ForeignCommit:
                self._writer.reopen(TableState.of(_open(self._store)))
            else:
                return
        raise ForeignCommit(
            f"another program keeps committing to {self.path}; stop the other writer"
        )

    def _claim(self, epoch: int) -> None:
        text = commits.encode("FENCE", at=_now(), transactions={OWNER_APP: epoch})
        self._writer.make(lambda _: text, lambda at, _: at.fenced(epoch))

    def own(self, epoch: int, live: int) -> None:
        """Make one version that changes only the owner's epoch, and which owner's journal is live
        (`pipeline.object_journal.take_over`).

        Raises ForeignCommit when another process made that version; `reopen` reads it.
        """
        said = {app: at for app, at in ((OWNER_APP, epoch), (LIVE_APP, live)) if at}
        text = commits.encode("OWN", at=_now(), transactions=said)
        self._writer.make(lambda _: text, lambda at, _: at.fenced(epoch, live))

    def reopen(self) -> None:
        """Take in other processes' commits. Only before this object made a commit."""
        self._writer.reopen(TableState.of(_open(self._store)))

    def upkeep(self, *, now: int, floor: int, served: int | None = None) -> Upkeep | None:
        """Do one bounded step of upkeep, if one is due.

        `now` is in microseconds; no durable subscription is owed a message below `floor`, and no
        subscription at all one below `served` (default: `floor`), as of the last commit. After a
        StoreError the table is as it was, and a later call tries again.
        """
        return self._work.steps.take(now=now, owed=Owed(floor, floor if served is None else served))


def _now() -> int:
    return time.time_ns() // 1_000


def _open(store: Store, names: Sequence[str] | None = None) -> TableLog:
    log = table_log.read(store, names)
    commits.check_whole(store, log.version, log.entry)
    return log


def _with_all_columns(store: Store, log: TableLog) -> TableLog:
    for _ in range(EVOLUTION_TRIES_MAX):
        if not log.head.is_former:
            return log
        evolution.evolve(store, log, _now())
        log = _open(store)
    raise ForeignCommit(f"another program keeps committing to {store.uri}; stop the other writer")
