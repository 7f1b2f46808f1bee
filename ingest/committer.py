"""The way from the journal to the table: what is due, when it is committed, what happens if not.

About once a second, or when enough has gathered, what the journal holds becomes one Delta commit,
and only then its segments are used again. While the journal holds too much, producers' credit is
kept back here. All methods run on the loop's thread; the committer is a thread of its own.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from ingest.link import Link
from ingest.settings import Settings
from ingest.workers import Failure, Worker
from pipeline.errors import StoreError, TableMoved
from pipeline.recent import RecentMessages
from pipeline.tables.journal import Journal
from pipeline.tables.segment import FrameRef
from pipeline.tables.topic_log import Commit, TopicLog

_events = structlog.get_logger("log")


class Committer:
    """Commits the journal's frames, in order, and says when nothing more may be accepted.

    `stopped` is called with the reason when the table can't go on; `paid` after credit that was
    kept back has been given.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        journal: Journal,
        table: TopicLog,
        recent: RecentMessages,
    ) -> None:
        self._loop, self._settings = loop, settings
        self._journal, self._table, self._recent = journal, table, recent
        self.stopped: Callable[[str], None] = lambda _reason: None
        self.paid: Callable[[], None] = lambda: None
        self._worker: Worker[Commit] = Worker("committer", loop)
        self._refs: deque[tuple[FrameRef, int]] = deque()  # frame, sequence after it
        self._uncommitted_bytes = 0
        self._committing = False
        self._timer: asyncio.TimerHandle | None = None
        self._owed: dict[Link, int] = {}  # credit kept back while the journal is full
        self._stuck = False  # the last commit failed; the journal keeps what it was to have
        self._ending = False
        self._dead = False
        self._arm(settings.commit.interval_ms)

    def add(self, ref: FrameRef, through: int) -> None:
        """A frame is durable in the journal; `through` is the first sequence after it."""
        self._refs.append((ref, through))
        self._uncommitted_bytes += ref.size

    def hurry(self) -> None:
        """Commit now if enough has gathered, unless the last commit found no space."""
        if self._uncommitted_bytes >= self._settings.commit.bytes and not self._stuck:
            self.commit()

    # Credit.

    def pay(self, credit: dict[Link, int]) -> None:
        """Give producers back what their accepted messages took, or keep it for later."""
        if not self._congested:
            _grant(credit)
            return
        for link, count in credit.items():
            self._owed[link] = self._owed.get(link, 0) + count

    @property
    def _congested(self) -> bool:
        return self._journal.backlog_bytes > self._settings.journal.backlog_bytes_max

    def _pay_owed(self) -> None:
        if not self._owed or self._congested:
            return
        owed, self._owed = self._owed, {}
        _grant(owed)
        self.paid()

    # The commit.

    def commit(self) -> None:
        """Begin a commit of what is due, unless one runs or nothing is due."""
        self._arm(self._settings.commit.interval_ms)
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
        self._worker.submit(
            lambda: self._job(refs),
            lambda result: self._committed(len(refs), size, through, result),
        )

    def _arm(self, after_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_ms / 1_000, self.commit)

    def _job(self, refs: list[FrameRef]) -> Commit:
        """On the committer's thread."""
        commit = self._table.commit(self._journal.read(refs))
        self._journal.recycle(commit.last_group)
        return commit

    def _committed(self, frames: int, size: int, through: int, result: Commit | Failure) -> None:
        self._committing = False
        if isinstance(result, Failure):
            self._failed(result.error)
            return
        self._stuck = False
        for _ in range(frames):
            self._refs.popleft()
        self._uncommitted_bytes -= size
        self._recent.committed(through)
        _events.debug(
            "batch.committed",
            version=result.version,
            rows=result.rows,
            bytes=size,
            build_ms=round(result.build_seconds * 1_000),
            write_ms=round(result.write_seconds * 1_000),
            sync_ms=round(result.sync_seconds * 1_000),
        )
        self._pay_owed()
        if self._uncommitted_bytes >= self._settings.commit.bytes or self._ending:
            self.commit()

    def _failed(self, error: BaseException) -> None:
        hopeless = isinstance(error, TableMoved) or self._table.dead is not None
        if hopeless or not isinstance(error, StoreError | OSError):
            self.stopped(f"{type(error).__name__}: {error}")
            return
        self._stuck = True
        _events.error(
            "commit.failed", reason=str(error), then="the journal keeps it; tried again soon"
        )
        self._arm(self._settings.commit.retry_ms)

    # The end.

    def halt(self) -> None:
        """Begin nothing more: what is in memory can't be trusted, what is on the disk can."""
        self._dead = True

    def hasten(self) -> None:
        """From now on commit again as soon as a commit ends; a stuck one is tried once more."""
        self._ending, self._stuck = True, False

    @property
    def busy(self) -> bool:
        """Whether a commit runs, or frames wait for one that may succeed."""
        return self._committing or (bool(self._refs) and not self._stuck and not self._dead)

    def stop(self) -> None:
        """End the timer. The thread ends with `join`, which blocks."""
        if self._timer is not None:
            self._timer.cancel()

    def join(self) -> None:
        self._worker.stop()


def _grant(credit: dict[Link, int]) -> None:
    for link, count in credit.items():
        if link.alive and not link.ended:
            link.grant(count)
