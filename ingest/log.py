"""The way to durability: what waits, the group being written, the commit.

Order of durable steps (architecture, "the ways"): a run waits, its group is written and fsynced,
only then it is accepted and offered to subscriptions; about once a second what the journal holds
becomes one Delta commit, and only then its segments are used again.

All methods run on the loop's thread; the journal and the committer are threads of their own.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from ingest import pump
from ingest.link import Link
from ingest.settings import Settings
from ingest.workers import Failure, Worker
from pipeline.errors import JournalFull, StoreError, TableMoved
from pipeline.message import Group, MessageRun, Settlement, Slab, SubscriptionRecord
from pipeline.recent import RecentMessages
from pipeline.subscription import Definition, SubscriptionEvent, SubscriptionKey
from pipeline.tables import frame
from pipeline.tables.journal import Journal
from pipeline.tables.segment import FrameRef
from pipeline.tables.topic_log import Commit, TopicLog

_events = structlog.get_logger("log")


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """Deliveries whose peer waits for our word, and the credit that it gets back with it."""

    link: Link
    deliveries: bytes
    kept: int
    credit: int


@dataclass(slots=True)
class _Waiting:
    """What the next group will hold, and who is told when it is durable.

    `size` is the messages' bytes; the connections of `held` are not read until the group goes.
    """

    runs: list[MessageRun] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    records: list[SubscriptionRecord] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    confirmations: list[Receipt] = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)
    size: int = 0
    held: list[Link] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.runs or self.settlements or self.records or self.confirmations or self.then
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """The group that the journal writes now, and its slabs as they will be delivered."""

    group: Group
    waiting: _Waiting
    slabs: tuple[tuple[str, Slab], ...]


class Log:
    """The gateway's end of the one log.

    `arrived` is called with the topics that have new durable messages; `stopped` when nothing more
    may be accepted, with the reason.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        journal: Journal,
        table: TopicLog,
        *,
        next_group: int,
        next_sequence: int,
    ) -> None:
        self._loop, self._settings = loop, settings
        self._journal, self._table = journal, table
        self.recent = RecentMessages(head=next_sequence, bytes_max=settings.delivery.cache_bytes)
        self.arrived: Callable[[list[str]], None] = lambda _topics: None
        self.stopped: Callable[[str], None] = lambda _reason: None
        self._next_group, self._next_sequence = next_group, next_sequence
        self._waiting = _Waiting()
        self._writing: _Writing | None = None
        self._write_worker: Worker[FrameRef] = Worker("journal", loop)
        self._commit_worker: Worker[Commit] = Worker("committer", loop)
        self._refs: deque[tuple[FrameRef, int]] = deque()  # frame, sequence after it
        self._uncommitted_bytes = 0
        self._committing = False
        self._commit_timer: asyncio.TimerHandle | None = None
        self._owed: dict[Link, int] = {}  # credit kept back while the journal is full
        self._full = False
        self._dead = False
        self._stuck = False  # the last commit failed; the journal keeps what it was to have
        self._ending = False
        self._arm_commit(settings.commit.interval_ms)

    # What comes in.

    @property
    def next_sequence(self) -> int:
        """The first sequence of the group that is waiting: what a new subscription is owed from."""
        return self._next_sequence

    def publish(self, run: MessageRun, receipt: Receipt) -> None:
        """A run of messages waits for the next group, its sender for the accept."""
        waiting = self._waiting
        waiting.runs.append(run)
        waiting.receipts.append(receipt)
        waiting.size += len(run.blob)
        if waiting.size > self._settings.journal.waiting_bytes_max:
            receipt.link.connection.hold(True)
            waiting.held.append(receipt.link)

    def settle(self, settlement: Settlement) -> None:
        """An outcome rides in the next group."""
        self._waiting.settlements.append(settlement)

    def confirm(self, receipt: Receipt) -> None:
        """A consumer wants to know when its outcome is durable."""
        self._waiting.confirmations.append(receipt)

    def record(
        self,
        event: SubscriptionEvent,
        key: SubscriptionKey,
        definition: Definition,
        then: Callable[[], None],
    ) -> None:
        """An event in a subscription's life; `then` is called when it is durable."""
        floor = self._next_sequence
        self._waiting.records.append(SubscriptionRecord(event, key, definition, floor))
        self._waiting.then.append(then)

    def after(self, then: Callable[[], None]) -> None:
        """Call `then` when all that waits now is durable."""
        self._waiting.then.append(then)

    def kick(self) -> None:
        """Write what waits, unless a group is being written: then it goes next."""
        if self._writing is not None or not self._waiting or self._dead:
            return
        waiting, self._waiting = self._waiting, _Waiting()
        runs = _by_topic(waiting.runs)
        group = Group(
            self._next_group,
            self._next_sequence,
            time.time_ns() // 1_000,
            runs,
            tuple(waiting.settlements),
            tuple(waiting.records),
        )
        slabs = _slabs(group)
        self._next_group += 1
        self._next_sequence += group.message_count
        self._writing = _Writing(group, waiting, slabs)
        for link in waiting.held:
            link.connection.hold(False)
        self._write(frame.encode(group))

    # The journal.

    def _write(self, parts: list[bytes | bytearray | memoryview]) -> None:
        self._write_worker.submit(
            lambda: self._journal.append(parts), lambda result: self._written(parts, result)
        )

    def _written(
        self, parts: list[bytes | bytearray | memoryview], result: FrameRef | Failure
    ) -> None:
        if isinstance(result, Failure):
            if not isinstance(result.error, JournalFull):
                self._stop(str(result.error))
                return
            if not self._full:
                self._full = True
                _events.error("journal.full", reason=str(result.error), then="publishers wait")
            self._loop.call_later(
                self._settings.journal.retry_ms / 1_000, lambda: self._write(parts)
            )
            return
        if self._full:
            self._full = False
            _events.info("journal.has_space")
        self._durable(result)

    def _durable(self, ref: FrameRef) -> None:
        done, self._writing = self._writing, None
        assert done is not None  # noqa: S101
        self.kick()  # the next group goes to the disk while this one is handed out
        group = done.group
        self._refs.append((ref, group.first_sequence + group.message_count))
        self._uncommitted_bytes += ref.size
        for topic, slab in done.slabs:
            self.recent.add(topic, slab)
        self._accept(done.waiting)
        for then in done.waiting.then:
            then()
        self.arrived([topic for topic, _ in done.slabs])
        self.kick()
        if self._uncommitted_bytes >= self._settings.commit.bytes and not self._stuck:
            self._commit()

    def _accept(self, waiting: _Waiting) -> None:
        credit: dict[Link, int] = {}
        for receipt in waiting.receipts:
            answer(receipt, pump.ACCEPTED)
            credit[receipt.link] = credit.get(receipt.link, 0) + receipt.credit
        for receipt in waiting.confirmations:
            answer(receipt, 0)
        congested = self._journal.backlog_bytes > self._settings.journal.backlog_bytes_max
        for link, count in credit.items():
            if congested:
                self._owed[link] = self._owed.get(link, 0) + count
            elif link.alive and not link.ended:
                link.grant(count)

    # The commit.

    def _arm_commit(self, after_ms: int) -> None:
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        self._commit_timer = self._loop.call_later(after_ms / 1_000, self._commit)

    def _commit(self) -> None:
        self._arm_commit(self._settings.commit.interval_ms)
        if self._committing or not self._refs or self._dead:
            return
        refs: list[FrameRef] = []
        size = through = 0
        for ref, after in self._refs:
            if refs and size + ref.size > self._settings.commit.bytes:
                break
            refs.append(ref)
            size += ref.size
            through = after
        self._committing = True
        self._commit_worker.submit(
            lambda: self._commit_job(refs),
            lambda result: self._committed(len(refs), size, through, result),
        )

    def _commit_job(self, refs: list[FrameRef]) -> Commit:
        """On the committer's thread."""
        commit = self._table.commit(self._journal.read(refs))
        self._journal.recycle(commit.last_group)
        return commit

    def _committed(self, frames: int, size: int, through: int, result: Commit | Failure) -> None:
        self._committing = False
        if isinstance(result, Failure):
            self._commit_failed(result.error)
            return
        self._stuck = False
        for _ in range(frames):
            self._refs.popleft()
        self._uncommitted_bytes -= size
        self.recent.committed(through)
        _events.debug(
            "batch.committed",
            version=result.version,
            rows=result.rows,
            bytes=size,
            build_ms=round(result.build_seconds * 1_000),
            write_ms=round(result.write_seconds * 1_000),
            sync_ms=round(result.sync_seconds * 1_000),
        )
        self._pay_credit()
        if self._uncommitted_bytes >= self._settings.commit.bytes or self._ending:
            self._commit()

    def _commit_failed(self, error: BaseException) -> None:
        hopeless = isinstance(error, TableMoved) or self._table.dead is not None
        if hopeless or not isinstance(error, StoreError | OSError):
            self._stop(f"{type(error).__name__}: {error}")
            return
        self._stuck = True
        _events.error(
            "commit.failed", reason=str(error), then="the journal keeps it; tried again soon"
        )
        self._arm_commit(self._settings.commit.retry_ms)

    def _pay_credit(self) -> None:
        """Give producers the credit that a full journal kept back."""
        if not self._owed or self._journal.backlog_bytes > self._settings.journal.backlog_bytes_max:
            return
        owed, self._owed = self._owed, {}
        for link, count in owed.items():
            if link.alive and not link.ended:
                link.grant(count)
        self.arrived([])

    # The end.

    def _stop(self, reason: str) -> None:
        if not self._dead:
            self._dead = True
            self.stopped(reason)

    async def close(self) -> None:
        """Write and commit all that waits, then end the threads.

        A full disk is not waited for: what it can't take was not accepted, and what can't be
        committed is in the journal.
        """
        self.kick()
        self._ending, self._stuck = True, False
        while self._busy():
            self._commit()
            await asyncio.sleep(0.005)
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        await self._loop.run_in_executor(None, self._join)
        self._journal.close()

    def _busy(self) -> bool:
        """Whether there is something to write or to commit, and a disk that takes it."""
        writing = self._writing is not None and not self._full
        uncommitted = bool(self._refs) and not self._stuck
        return self._committing or (not self._dead and (writing or uncommitted))

    def _join(self) -> None:
        self._write_worker.stop()
        self._commit_worker.stop()


def answer(receipt: Receipt, state: int) -> None:
    """Settle a receipt's deliveries with `state`, or (0) with their peer's own."""
    link = receipt.link
    if not link.alive:
        return  # the peer went without waiting; its deliveries are gone
    if receipt.kept:
        pump.settle(receipt.deliveries, state)
        link.connection.touch()
    link.answered(receipt.kept)


def _by_topic(runs: list[MessageRun]) -> tuple[MessageRun, ...]:
    """One run for each topic, in the order in which the topics came: fewer and longer slabs."""
    if len(runs) <= 1:
        return tuple(runs)
    topics: dict[str, list[MessageRun]] = {}
    for run in runs:
        topics.setdefault(run.topic, []).append(run)
    return tuple(_joined(topic, same) for topic, same in topics.items())


def _joined(topic: str, runs: list[MessageRun]) -> MessageRun:
    if len(runs) == 1:
        return runs[0]
    return MessageRun(
        topic,
        sum(run.count for run in runs),
        b"".join([run.blob for run in runs]),
        b"".join([run.lengths for run in runs]),
        b"".join([run.durable for run in runs]),
        b"".join([run.priority for run in runs]),
        b"".join([run.ttl for run in runs]),
    )


def _slabs(group: Group) -> tuple[tuple[str, Slab], ...]:
    slabs = []
    first = group.first_sequence
    for run in group.messages:
        slab = Slab(first, run.count, run.blob, pump.offsets(run.lengths, run.count))
        slabs.append((run.topic, slab))
        first += run.count
    return tuple(slabs)
