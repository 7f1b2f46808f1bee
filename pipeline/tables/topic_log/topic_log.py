"""The table `topic_log`, of which the gateway's committer is the only writer.

A commit takes in whole groups, exactly once: the last group and the next free sequence are
recorded in the commit itself. Its files are on the disk before it appears, and it appears only if
nobody else made that version. Threads: `commit`, `fence` and `upkeep` on the committer thread
alone, `page` and `topics` on the reader thread alone, all else on any. The caller holds the home's
lock.
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

#: Versions that others may make while a fence is being made, before it gives up.
FENCE_TRIES_MAX = 10
#: Likewise until a table has got its new columns.
EVOLUTION_TRIES_MAX = 10
#: The last microsecond that has a day: of the year 9999.
TIME_MAX = 253_402_300_799_999_999


class Commit(msgspec.Struct, frozen=True):
    """What one commit took in. `rows` is 0 when the table had all of it already."""

    version: int
    last_group: int
    files: int
    rows: int
    bytes: int
    build_seconds: float
    write_seconds: float
    sync_seconds: float


class TopicLog:
    """The open table. The module says which thread may call what."""

    def __init__(self, path: Path, store: Store, log: TableLog, limits: UpkeepLimits) -> None:
        self.path, self._limits = path, limits
        self._store, self._head, self._digests = store, log.head, log.digests
        self._writer = TableWriter(store, TableState.of(log), log.entry)

    @cached_property
    def _work(self) -> "TableWork":
        """What works on rows. The room of Arrow is entered here, and not before there are any."""
        from distributary.pipeline.tables.topic_log.table_work import TableWork  # noqa: PLC0415

        return TableWork(self.path, self._writer, self._head, self._limits)

    def prepare(self) -> None:
        """Load what works on rows: Arrow, a tenth of a second in which nobody else is served. To
        be called before anybody waits for a row, on the thread that opened the table; a second
        time it costs nothing."""
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
        """Open the table, or make it when nothing is there; one of the first format gets the
        columns that it lacks. With `create` false nothing is written. It lies in the folder
        `path`, or where `store` says.

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
        """Where the table lies, as deltalake wants it."""
        return self._store.uri

    @property
    def identity(self) -> LogIdentity:
        """Which table this is, by a version that has all that `sequence_version` says."""
        return LogIdentity(str(self._head.metadata["id"]), *self._writer.newest)

    def goes_on_from(self, identity: LogIdentity) -> bool:
        """Whether it is that table, at that version or a later one; False also where the version's
        entry was cleaned up. Raises OSError."""
        known, name = self._digests.get(identity.version), commits.json_name(identity.version)
        with suppress(FileNotFoundError):
            return (known or digest(self._store.read(name))) == identity.entry
        return False

    @property
    def dead(self) -> str | None:
        """Why no commit will ever work again on this handle: an fsync failed. None while alive."""
        return self._writer.dead

    @property
    def state(self) -> TableState:
        """What the table has in its newest version that is known here: files, group, sequence."""
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
        """The data files that may hold rows of that record in later groups, in a folder."""
        return [self.path / file.path for file in self._later(record, after_group)]

    def parquets(self, record: str, after_group: int) -> "Iterator[pq.ParquetFile]":
        """The same files, opened one after the other wherever they lie; the caller closes each."""
        return self._store.parquets([file.path for file in self._later(record, after_group)])

    def _later(self, record: str, after_group: int) -> list[AddedFile]:
        return [
            file
            for file in self.state.files
            if file.record == record and (file.group_high is None or file.group_high > after_group)
        ]

    @property
    def cursors(self) -> tuple[str, dict[str, str]]:
        """The address of Spark's table beside this one, and what deltalake needs for it."""
        return beside(self._store, "cursors"), self._store.options

    # The reader thread

    def page(
        self, topic: str, start: int, bytes_max: int, hint_filter: HintFilter | None = None
    ) -> Page:
        """Committed messages of `topic`, or of a pattern, from `start` on: about `bytes_max`, at
        least one if there is one. Every committed one with `start <= sequence < covered` is in the
        page; with `hint_filter` every one that it lets through."""
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
        """Where each of these committed messages, ascending, which match the pattern, was
        published."""
        return self._paged(pattern, lambda at: self._work.pager.topics(at.messages, sequences))

    def _paged(self, topic: str, read: Callable[[TableState], T]) -> T:
        """What is read of the newest version. Raises StoreError."""
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
        """The committed messages from `since` on that have a priority above 4 or expire. Ascending
        for each topic, in parts.

        Files whose statistics say that they have none aren't opened.
        """
        return self._looked_over(lambda files: self._work.priority_statistics(files, since))

    def volumes(self, since: int) -> "Iterator[Volume]":
        """How much is committed from `since` on, in parts, ascending for each topic."""
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
        """The committed sequences from `since` on that a subscription was never owed, in any
        incarnation, ascending. Raises StoreError."""
        return self._work.never_owed(
            str(self.path), lambda: self.parquets(SETTLEMENT, 0), subscription, since
        )

    def first_sequence_at(self, time: int) -> int:
        """The first committed sequence that was published at `time` (microseconds) or later.

        `sequence_version` if nothing was. `first_sequence` if that is so of all that is kept: what
        was published before that is beyond retention, if there was any.
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

        Frames that the table has already are passed over, so a replay repeats nothing. After a
        StoreError the same call may be tried again, until it returns: the table has none of the
        frames, or nobody knows yet. After ForeignCommit, or when `dead` says why, the gateway must
        stop.
        """
        return self.commit_files(lambda *after: self._work.encode(views, *after))

    def commit_files(self, encode: Callable[[int, int], CommitFiles | None]) -> Commit:
        """The same, where the files are made somewhere else: `encode` is given the last group and
        the first free sequence that the table has, as `commit_files.encode` is."""
        self.prepare()  # what keeps the table small begins with the table as it was opened
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
        """Make a version in which nothing changes but the owner: former owners, which opened the
        table before, can't commit any more. Its epoch is `epoch`, or a higher one than the table
        has had.

        Versions that the former owner made meanwhile are taken in, as long as `owned` doesn't raise
        HomeLost: a later owner isn't fenced off. Raises ForeignCommit when it keeps making them.
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
            f"somebody else goes on committing to {self.path}; stop the other writer"
        )

    def _claim(self, epoch: int) -> None:
        text = commits.encode("FENCE", at=_now(), transactions={OWNER_APP: epoch})
        self._writer.make(lambda _: text, lambda at, _: at.fenced(epoch))

    def own(self, epoch: int, live: int) -> None:
        """Make one version in which nothing changes but the owner's epoch, and which owner's
        journal is live (`pipeline.object_journal.take_over`).

        Raises ForeignCommit when somebody else made that version; `reopen` shows what it says.
        """
        said = {app: at for app, at in ((OWNER_APP, epoch), (LIVE_APP, live)) if at}
        text = commits.encode("OWN", at=_now(), transactions=said)
        self._writer.make(lambda _: text, lambda at, _: at.fenced(epoch, live))

    def reopen(self) -> None:
        """Take in what somebody else committed. Nothing else was done with the table before."""
        self._writer.reopen(TableState.of(_open(self._store)))

    def upkeep(self, *, now: int, floor: int, served: int | None = None) -> Upkeep | None:
        """Do one bounded step of what keeps the table small and quick, if one is due.

        `now` is in microseconds; nothing below `floor` is owed to any durable subscription, and
        nothing below `served` to anybody (by default the same), as of the last commit. After a
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
    raise ForeignCommit(f"somebody else goes on committing to {store.uri}; stop the other writer")
