"""A start on a home without a disk: a take-over, always as if its former owner still lived.

`pipeline.object_journal.take_over` decides the steps and their order; this module performs them on
the store and the table. A request that gets no answer is repeated, PATIENCE_SECONDS at most.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from secrets import token_bytes
from threading import Thread
from typing import TYPE_CHECKING, TypeVar, assert_never

import structlog

from distributary.ingest.commit.home_opening import (
    Pace,
    Store,
    TableAhead,
    recovered,
    tell_opened,
)
from distributary.ingest.commit.objects.put_writer import PutWriter
from distributary.ingest.commit.table_location import table_url
from distributary.ingest.runtime.settings import JournalLimits, Settings
from distributary.pipeline.errors import (
    ForeignCommit,
    HomeLost,
    InvalidRequest,
    JournalBroken,
    StoreError,
    being_restored,
)
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.object_journal.put_window import Put
from distributary.pipeline.object_journal.take_over import (
    Appoint,
    Claim,
    Look,
    Overtaken,
    Replay,
    Seal,
    Serve,
    Standing,
    TakeOver,
)
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.delta.store import UndecidedError
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects
from distributary.pipeline.tables.object_home.lease import LeaseOwner
from distributary.pipeline.tables.object_home.object_home import (
    ObjectHome,
    marks_path,
)
from distributary.pipeline.tables.object_home.object_journal import ObjectJournal
from distributary.pipeline.tables.object_home.object_marks import ObjectMarks, read_marks
from distributary.pipeline.tables.object_home.store_conditions import keeps_conditions
from distributary.pipeline.tables.recovery.dispatch_marks import DispatchMarks, Standpoint, left_in
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

if TYPE_CHECKING:
    from distributary.pipeline.tables.recovery.snapshot import ReadAhead

T = TypeVar("T")

_events = structlog.get_logger("gateway")

#: Seconds for which one step of a start is repeated while the store doesn't answer.
PATIENCE_SECONDS = 60.0
AGAIN_SECONDS = 0.1
#: Seconds for which a request about the table is repeated.
TABLE_PATIENCE_SECONDS = 10.0
#: Entries that are read at the same time.
READS = 16


def object_table_ahead(home: ObjectHome, settings: Settings) -> TableAhead:
    """Return the reading ahead of the table of a home without a disk. Its requests aren't repeated:
    a standby reads ahead again anyway."""
    url, limits = table_url(home, settings), settings.upkeep.limits
    seconds = settings.journal.put_ms_max / 1_000
    place = ObjectStore(url, home.options, seconds_max=seconds)
    return TableAhead(lambda: TopicLog.open(Path(url), store=place, create=False, limits=limits))


def open_object_store(
    home: ObjectHome, settings: Settings, owner: LeaseOwner, ahead: "ReadAhead | None" = None
) -> Store:
    """Take the home over: no other gateway can accept or commit anything from then on. `ahead` is
    the part of the table that was read before. Raises StoreError, HomeLost when another gateway
    takes the home over meanwhile, InvalidRequest."""
    began = time.perf_counter()
    url = table_url(home, settings)
    seconds = settings.journal.put_ms_max / 1_000
    place = ObjectStore(url, home.options, seconds_max=seconds, patience=TABLE_PATIENCE_SECONDS)
    limits = settings.upkeep.limits
    if _asked(lambda: home.store(seconds).exists(RESTORING)):
        raise being_restored(home.url)
    table = _asked(lambda: TopicLog.open(Path(url), store=place, limits=limits))
    if table.state.group and not table.state.live:
        raise InvalidRequest(
            f"{table.uri} is the table of a home on a disk, whose journal may have more than the "
            "table: start with --home and that folder. A home can't be moved from a disk to a "
            "store"
        )
    if not table.state.live and not _asked(lambda: keeps_conditions(home.store(seconds))):
        raise InvalidRequest(
            f"the store of {home.url} ignores conditions of puts (If-None-Match, If-Match), so two "
            "gateways could both own the home and lose what the other one accepts: use a store "
            "that holds to them"
        )
    opening = _Opening(home, settings, owner, table, ahead)
    store = opening.run()
    tell_opened(store, began)
    return store


class _Opening:
    """One start."""

    def __init__(
        self,
        home: ObjectHome,
        settings: Settings,
        owner: LeaseOwner,
        table: TopicLog,
        ahead: "ReadAhead | None",
    ) -> None:
        self._ahead = ahead
        self._home, self._settings, self._owner, self._table = home, settings, owner, table
        self._store = home.store(settings.journal.put_ms_max / 1_000)
        self._objects = JournalObjects(self._store)
        self._writer = token_bytes(entry.WRITER_BYTES)

    def run(self) -> Store:
        """Perform all steps, in the order that `TakeOver` decides."""
        taking = TakeOver(_standing(self._table))
        store: Store | None = None
        former = 0
        while not isinstance(taking.step, Serve):
            match taking.step:
                case Look(epoch):
                    taking.listed(_asked(partial(self._objects.kinds, epoch)))
                case Seal(epoch, group):
                    taking.stands(self._seal(epoch, group))
                case Appoint(epoch):
                    store = self._prepared(epoch)
                    former = self._table.state.live
                    self._own(taking, epoch)
                case Claim() | Replay():
                    self._commit(taking, taking.step)
                case Overtaken():
                    raise HomeLost(f"{self._home.url} was taken over by another gateway just now")
                case _ as never:
                    assert_never(never)
        assert store is not None  # noqa: S101
        # On its own thread, as there may be many objects.
        Thread(target=self._empty, args=(former,), name="former-journal", daemon=True).start()
        return store

    def _commit(self, taking: TakeOver, step: Claim | Replay) -> None:
        """Commit a version of the table before the start's last one: a claim, or a replay."""
        if isinstance(step, Claim):
            if _made(partial(self._table.own, step.epoch, step.at.live)):
                taking.claimed()
            else:
                self._table.reopen()
                taking.overtaken(_standing(self._table))
        elif self._replay(step.epoch, step.groups):
            taking.replayed()
        else:
            taking.overtaken()

    def _own(self, taking: TakeOver, epoch: int) -> None:
        if _made(partial(self._table.own, epoch, epoch)):
            taking.appointed()
        else:
            taking.overtaken()

    def _seal(self, epoch: int, group: int) -> Kind:
        """Seal a journal at this group; return the kind of the object there: our seal, or an object
        that was put before."""
        data = entry.encode(Kind.SEAL, self._table.state.epoch, group, self._writer)

        def put() -> Kind:
            answer = self._objects.put(epoch, group, data)
            if answer.put is Put.UNKNOWN:
                raise OSError(answer.why)
            if answer.put is Put.STANDS:
                return Kind.SEAL
            return self._objects.read(epoch, group).kind

        return _asked(put)

    def _replay(self, epoch: int, groups: range) -> bool:
        """Commit these groups, in commits of bounded size; return False when another gateway has
        committed."""
        self._owner.check()
        with ThreadPoolExecutor(READS) as pool:
            frames = pool.map(partial(self._frame, epoch), groups)
            for part in _parts(frames, self._settings.commit.bytes):
                try:
                    commit = _asked(partial(self._table.commit, part))
                except ForeignCommit:
                    return False
                _events.info("journal.replayed", groups=len(part), version=commit.version)
        return True

    def _frame(self, epoch: int, group: int) -> memoryview:
        read = _asked(partial(self._objects.read, epoch, group))
        if (read.kind, read.epoch, read.group) != (Kind.GROUP, epoch, group):
            raise JournalBroken(
                f"the entry of group {group} in the journal of epoch {epoch} of {self._home.url} "
                f"says that it is group {read.group} of epoch {read.epoch}. Was it put there by "
                "hand? Nothing was changed"
            )
        return read.frame

    def _prepared(self, epoch: int) -> Store:
        """Prepare the store to serve with: the marks are durable before the journal of this epoch
        is live."""
        table = self._table
        with ThreadPoolExecutor(1) as beside:
            found = beside.submit(_asked, partial(read_marks, self._store, table.state.live))
            state = _asked(lambda: recovered(table, self._ahead))
        left = left_in(found.result(), b"", self._home.url)
        marks, uncertain = _asked(
            lambda: DispatchMarks.begin(
                ObjectMarks(self._store, epoch),
                b"",
                left,
                [Standpoint(one.key.id, one.floor, one.began) for one in state.subscriptions],
                state.next_sequence,
                state.next_group,
            )
        )
        journal = ObjectJournal(self._objects, epoch)
        limits = self._settings.journal
        return Store(
            journal,
            table,
            state,
            marks,
            uncertain,
            self._owner.check,
            _pace(limits),
            lambda host, _committing, written: PutWriter(host, journal, self._writer, written),
        )

    def _empty(self, former: int) -> None:
        """Remove the former owner's marks and journal, all but its seal; on a thread of its own.
        Objects that remain when the process ends are harmless, and cost only their storage."""
        if not former:
            return
        try:
            kinds = self._objects.kinds(former)
            groups = [group for group, kind in kinds.items() if kind is Kind.GROUP]
            self._objects.remove(former, groups)
            self._store.delete([marks_path(former)])
        except OSError as error:
            _events.warning("journal.left", reason=str(error), then="it costs what its bytes cost")


def _standing(table: TopicLog) -> Standing:
    state = table.state
    return Standing(state.version, state.group, state.epoch, state.live)


def _pace(limits: JournalLimits) -> Pace:
    if limits.durability == "delta":
        return Pace.of(limits)
    linger = max(limits.linger_ms, limits.put_linger_ms) / 1_000
    settlements = max(linger, limits.put_settlement_linger_ms / 1_000)
    return Pace(linger, settlements, limits.puts_max, limits.put_bytes)


def _made(make: Callable[[], None]) -> bool:
    """Whether the version was made; False when another gateway has made it."""
    try:
        _asked(make)
    except ForeignCommit:
        return False
    return True


def _asked(job: Callable[[], T]) -> T:
    """Return the job's result as soon as the store answers. Raises StoreError when it doesn't; an
    error that waiting can't mend is raised at once."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return job()
        except (OSError, StoreError) as error:
            if not _may_pass(error):
                raise
            if time.monotonic() > until:
                raise StoreError(f"the store doesn't answer: {error}") from error
        time.sleep(AGAIN_SECONDS)


def _may_pass(error: BaseException) -> bool:
    """Whether the error comes of a store that doesn't answer, for now."""
    if isinstance(error, ForeignCommit | HomeLost | JournalBroken):
        return False
    while not isinstance(error, OSError | UndecidedError):
        if error.__cause__ is None:
            return False
        error = error.__cause__
    return True


def _parts(frames: Iterator[memoryview], bytes_max: int) -> Iterator[list[memoryview]]:
    part: list[memoryview] = []
    size = 0
    for one in frames:
        if part and size + len(one) > bytes_max:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one)
    if part:
        yield part
