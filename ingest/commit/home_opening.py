"""Opening of a home at a gateway's start: journal and table are checked, the journal emptied."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec
import structlog

from distributary.ingest.commit.group_writer import GroupWriter, Writer
from distributary.ingest.commit.table_location import table_store
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.settings import JournalLimits, Settings
from distributary.pipeline.errors import InvalidRequest, StoreError, being_restored
from distributary.pipeline.log.failures import PossiblyDelivered
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import Owner
from distributary.pipeline.tables.journal import segment
from distributary.pipeline.tables.journal.group_journal import GroupJournal
from distributary.pipeline.tables.journal.journal import Journal, Opened
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.recovery import dispatch_marks
from distributary.pipeline.tables.recovery.dispatch_marks import DispatchMarks, Standpoint
from distributary.pipeline.tables.recovery.standpoints import Snapshot, at_the_beginning
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

if TYPE_CHECKING:
    from distributary.pipeline.tables.recovery.snapshot import ReadAhead

_events = structlog.get_logger("gateway")

#: Makes the writer of groups, given the host, a function that says whether the committer's thread
#: works now, and the callback for each durable group.
MakeWriter: TypeAlias = Callable[[Host, Callable[[], bool], Callable[[FrameRef], None]], Writer]


class Pace(msgspec.Struct, frozen=True):
    """The pace of groups into the journal: how long a group waits for more content, how long if it
    has only settlements without a waiting peer, how many may be under way at once, and the bytes
    with which a group waits no longer (0: those of a commit)."""

    linger_seconds: float
    settlement_linger_seconds: float
    under_way: int = 1
    full_bytes: int = 0

    @classmethod
    def of(cls, limits: JournalLimits) -> Self:
        """Return the pace for a disk or the table: one group at a time."""
        settlements = max(limits.linger_ms, limits.settlement_linger_ms)
        return cls(limits.linger_ms / 1_000, settlements / 1_000)

    def full_from(self, before: int, commit_bytes: int) -> int:
        """Return the bytes with which the next group is full, with `before` earlier groups. If the
        most allowed are under way it has to wait in any case, and may become larger."""
        lingers = self.full_bytes and before < self.under_way
        return min(self.full_bytes, commit_bytes) if lingers else commit_bytes


class Store(msgspec.Struct, frozen=True):
    """An opened home: the journal is empty, and the table has all groups. `owned` raises HomeLost
    when another gateway has the home by now; each commit asks it first. `writer` makes the writer
    of groups, which come at this `pace`."""

    journal: GroupJournal
    table: TopicLog
    snapshot: Snapshot
    marks: DispatchMarks
    uncertain: dict[str, PossiblyDelivered]
    owned: Callable[[], None]
    pace: Pace
    writer: MakeWriter


class TableAhead:
    """A standby's reading of the table of a home that another process owns; a later start goes on
    from there. Call `read` on one thread at a time, `taken` on any, once; what is read after that
    is dropped."""

    def __init__(self, open_table: Callable[[], TopicLog]) -> None:
        """`open_table` opens the table as a reader; it may raise StoreError and OSError."""
        self._open = open_table
        self._ahead: ReadAhead | None = None
        self._over, self._lock = False, threading.Lock()

    def read(self) -> None:
        """Read the table's new rows. If that fails, a start will read all rows. Blocks."""
        with self._lock:
            before, self._ahead = self._ahead, None
        try:
            table = self._open()
            if table.state.files:
                from distributary.pipeline.tables.recovery import snapshot  # noqa: PLC0415

                ahead = snapshot.read_ahead(table, before)
                with self._lock:
                    self._ahead = None if self._over else ahead
        except (StoreError, OSError):
            return

    def taken(self) -> "ReadAhead | None":
        """Return what was read, and give it to the caller."""
        with self._lock:
            self._over = True
            ahead, self._ahead = self._ahead, None
        return ahead


def table_ahead(home: Home, settings: Settings) -> TableAhead:
    """Return the reading ahead of the table of a home on a disk."""
    limits = settings.upkeep.limits
    return TableAhead(
        lambda: TopicLog.open(
            home.topic_log, store=table_store(home, settings), create=False, limits=limits
        )
    )


def open_store(
    home: Home, settings: Settings, owner: Owner, ahead: "ReadAhead | None" = None
) -> Store:
    """Open the home's journal and table, and commit the groups that the table lacks, exactly once.
    `ahead` is the part of the table that was read before.

    After a take-over from an owner that may still live, its commits are fenced off first, and its
    journal's files are only read, not used again. A table on an object store is fenced at every
    start: a commit of the last owner may still be under way. Raises StoreError, InvalidRequest.
    """
    with home.used():
        return _open_store(home, settings, owner, ahead)


def _open_store(home: Home, settings: Settings, owner: Owner, ahead: "ReadAhead | None") -> Store:
    began = time.perf_counter()
    if (home.root / RESTORING).exists():
        raise being_restored(str(home.root))
    place = table_store(home, settings)
    # Files of unknown formats are refused before the table is upgraded to this version's format:
    # so the version that wrote them can still open the home.
    segment.refuse_other_versions(home.journal_dir)
    dispatch_marks.look(home.marks)
    table = TopicLog.open(home.topic_log, store=place, limits=settings.upkeep.limits)
    if table.state.live:
        raise InvalidRequest(
            f"{table.uri} is the table of a home without a disk, and what comes next is in its "
            "journal there: start with --home and that home's address"
        )
    if owner.taken or place.answers_late:
        table.fence(owner.epoch, owner.check)
    used = settings.journal.durability == "journal"
    journal = Journal.open(
        home.journal_dir,
        segment_bytes=settings.journal.segment_bytes,
        epoch=max(owner.epoch, table.state.epoch),
        adopt=used and not owner.taken,
        owned=owner.check,
    )
    _say_what_was_found(journal.opened)
    _replay(journal, table, settings.commit.bytes)
    if owner.taken or not used:
        journal.clear()
    if used:
        journal.recycle(table.journal_version)
    state = recovered(table, ahead)
    marks, uncertain = DispatchMarks.open(
        home.marks,
        [Standpoint(one.key.id, one.floor, one.began) for one in state.subscriptions],
        head=state.next_sequence,
        next_group=state.next_group,
        owned=owner.check,
    )
    pace = Pace.of(settings.journal)
    store = Store(
        journal,
        table,
        state,
        marks,
        uncertain,
        owner.check,
        pace,
        lambda host, committing, written: GroupWriter(host, journal, committing, written),
    )
    tell_opened(store, began)
    return store


def tell_opened(store: Store, began: float) -> None:
    """Log what a start has found; it began at `began` by `time.perf_counter`."""
    found, uncertain = store.snapshot, store.uncertain.values()
    _events.info(
        "store.opened",
        subscriptions=len(found.subscriptions),
        next_sequence=found.next_sequence,
        source=found.source,
        marks=store.marks.found,
        doubtful=sum(1 for possible in uncertain if possible.below),
        milliseconds=round((time.perf_counter() - began) * 1_000),
    )


def recovered(table: TopicLog, ahead: "ReadAhead | None") -> Snapshot:
    """Return the state of all subscriptions; rows that were read ahead aren't read again. Folding
    rows needs Arrow, which costs a tenth of a second and 35 MB: a home without rows starts without
    it."""
    if not table.state.files:
        return at_the_beginning(table.journal_version + 1, table.sequence_version)
    table.prepare()
    from distributary.pipeline.tables.recovery import snapshot  # noqa: PLC0415

    return snapshot.load(table, ahead)


def _say_what_was_found(opened: Opened) -> None:
    if opened.cut is not None:
        _events.warning(
            "journal.cut",
            file=str(opened.cut.path),
            offset=opened.cut.offset,
            then="that group was never accepted; nothing is lost",
        )
    if opened.strays:
        _events.warning(
            "journal.strays",
            files=[str(path) for path in opened.strays],
            then="an owner that had lost the home wrote them and accepted nothing; they are gone",
        )


def _replay(journal: Journal, table: TopicLog, bytes_max: int) -> None:
    """Commit the groups that the journal has and the table has not, in commits of bounded size."""
    refs = [ref for ref in journal.frames() if ref.group > table.journal_version]
    if refs and refs[0].group != table.journal_version + 1:
        raise StoreError(
            f"the table ends with group {table.journal_version} but the journal begins with "
            f"{refs[0].group}: groups are missing. Was another home's journal or table put here?"
        )
    while refs:
        part: list[FrameRef] = []
        size = 0
        while refs and (not part or size + refs[0].size <= bytes_max):
            size += refs[0].size
            part.append(refs.pop(0))
        commit = table.commit(journal.read(part))
        _events.info("journal.replayed", groups=len(part), bytes=size, version=commit.version)
