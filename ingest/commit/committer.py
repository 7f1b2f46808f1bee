"""The way into the table: the frames that are due, the time of their commit, failed commits.

About once a second, or when enough bytes have gathered, the journal's frames become one Delta
commit, and only then its segments are used again. While the journal holds too much, producers'
credit is kept back here. Without a journal (`durability = "delta"`) each group is a commit of its
own, and durable with it. All methods run on the loop's thread; commits run on the committer's.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

import structlog

from distributary.ingest.commit.file_builder import FileBuilder
from distributary.ingest.commit.home_opening import Store
from distributary.ingest.commit.pending_group import CreditGiven
from distributary.ingest.commit.upkeep_clock import Floors, Result, UpkeepClock
from distributary.ingest.net.link import Link
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Failure, Worker
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import ForeignCommit, HomeLost, StoreError
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.topic_log.topic_log import Commit
from distributary.pipeline.tables.upkeep.upkeep_limits import Upkeep

_events = structlog.get_logger("log")


class Committer:
    """Commits the journal's frames, in order. When the table can't go on, the gateway stops.
    `floors` says which messages the table needn't keep; below `served_floor` no subscription is
    owed a message; `complete` is told when kept-back credit has been given."""

    def __init__(
        self,
        host: Host,
        store: Store,
        recent: RecentMessages,
        floors: Callable[[], Floors],
        served_floor: Callable[[], int],
        complete: Callable[[CreditGiven], None],
    ) -> None:
        self._loop, self._settings, self._halt = host.loop, host.settings, host.halt
        self._counts = host.counts
        self._journal, self._table, self._owned = store.journal, store.table, store.owned
        self._recent, self._served_floor, self._complete = recent, served_floor, complete
        self._builder = FileBuilder(store.journal, host.settings.commit.builder_groups)
        self._worker: Worker[Commit | Upkeep | None] = Worker("committer", host.loop)
        self._upkeep = UpkeepClock(
            host, store.table, store.owned, self._worker.submit, floors, self._behind
        )
        #: Frame, sequence after it, and when it was durable (the monotonic clock, as the loop's).
        self._refs: deque[tuple[FrameRef, int, float]] = deque()
        limits = host.settings.journal
        #: Uncommitted bytes of the journal above which a sending producer isn't read.
        self.held_above = limits.backlog_bytes_max + limits.waiting_bytes_max
        self._backlog_bytes_max = limits.backlog_bytes_max
        self._commit_bytes = host.settings.commit.bytes
        self._uncommitted_bytes = 0
        self._committing = False
        self._timer: asyncio.TimerHandle | None = None
        self._deferred: dict[Link, int] = {}  # credit kept back while the journal is full
        self._held: list[Link] = []  # producers that aren't read while it is even fuller
        self._stuck = False  # the last commit failed; the journal keeps its frames
        self._parked = False
        self._ending = False
        # Prepared beside the start: the first segment is 64 MiB of zeros, and takes a while.
        if host.settings.journal.durability == "journal":
            self._worker.submit(store.journal.prepare, self._prepared)
        self._arm(self._settings.commit.interval_ms)

    def add(self, ref: FrameRef, through: int) -> None:
        """Note a durable frame of the journal; `through` is the first sequence after it."""
        self._refs.append((ref, through, monotonic()))
        self._uncommitted_bytes += ref.size

    def flush(self) -> None:
        """Commit now if enough has gathered, unless the last commit found no space."""
        if self._uncommitted_bytes >= self._commit_bytes and not self._stuck:
            self.commit()

    def _behind(self) -> bool:
        return self._uncommitted_bytes >= self._commit_bytes

    def write(self, parts: Sequence[Bytes], through: int, done: Callable[[], None]) -> None:
        """Commit one group by itself; `done` is called when it is durable, however long that takes.

        A commit that finds no space is tried again until there is some.
        """
        self._committing = True
        self._worker.submit(
            lambda: self._table.commit([memoryview(b"".join(parts))]),
            lambda result: self._wrote(parts, through, done, result),
        )

    def _wrote(
        self,
        parts: Sequence[Bytes],
        through: int,
        done: Callable[[], None],
        result: Result,
    ) -> None:
        self._committing = False
        if isinstance(result, Failure):
            if self._failed(result.error, then="publishers wait"):
                self._parked = True
                wait = self._settings.commit.retry_ms / 1_000
                self._loop.call_later(wait, lambda: self._write_again(parts, through, done))
            return
        assert isinstance(result, Commit)  # noqa: S101
        self._parked = False
        self._succeeded(result, sum(map(len, parts)))
        done()
        self._recent.committed(through, self._served_floor())

    def _write_again(self, parts: Sequence[Bytes], through: int, done: Callable[[], None]) -> None:
        if not self._halt.on and not self._ending:
            self.write(parts, through, done)

    # Credit.

    def grant(self, credit: dict[Link, int]) -> None:
        """Give producers back the credit of their accepted messages, or keep it for later."""
        if self._journal.backlog_bytes <= self._backlog_bytes_max:
            _grant(credit)
            return
        for link, count in credit.items():
            self._deferred[link] = self._deferred.get(link, 0) + count

    def hold(self, link: Link) -> bool:
        """Stop reading from a producer that goes on sending on earlier credit although the journal
        is full; return whether that was so. It is read again when kept-back credit is given."""
        if self._journal.backlog_bytes <= self.held_above:
            return False
        link.connection.hold(True, self)
        self._held.append(link)
        return True

    def _grant_deferred(self) -> None:
        congested = self._journal.backlog_bytes > self._backlog_bytes_max
        if congested or not (self._deferred or self._held):
            return
        owed, self._deferred = self._deferred, {}
        held, self._held = self._held, []
        for link in held:
            link.connection.hold(False, self)
        _grant(owed)
        self._complete(CreditGiven())

    # The commit.

    def commit(self) -> None:
        """Begin a commit of the due frames, unless one runs or none is due."""
        self._arm(self._settings.commit.interval_ms)
        if self._committing or not self._refs or self._halt.on:
            return
        refs: list[FrameRef] = []
        size = through = 0
        for ref, after, _ in self._refs:
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
        """Commit these frames; on the committer's thread."""
        self._owned()
        commit = self._table.commit_files(
            lambda group, sequence: self._builder.encode(refs, group, sequence)
        )
        self._journal.recycle(commit.last_group)
        self._journal.prepare()
        return commit

    def _prepared(self, result: Result) -> None:
        if isinstance(result, Failure):
            self._failed(result.error, then="the journal takes nothing")

    def _committed(self, frames: int, size: int, through: int, result: Result) -> None:
        self._committing = False
        if isinstance(result, Failure):
            if self._failed(result.error, then="the journal keeps it; tried again soon"):
                self._arm(self._settings.commit.retry_ms)
            return
        assert isinstance(result, Commit)  # noqa: S101
        self._counts.commit_lag_seconds.observe(monotonic() - self._refs[0][2])
        for _ in range(frames):
            self._refs.popleft()
        self._uncommitted_bytes -= size
        self._recent.committed(through, self._served_floor())
        self._succeeded(result, size)
        self._grant_deferred()
        if self._behind() or self._ending:
            self.commit()

    def _succeeded(self, commit: Commit, size: int) -> None:
        self._stuck = False
        seconds = commit.build_seconds + commit.write_seconds + commit.sync_seconds
        self._counts.commit_seconds.observe(seconds)
        _events.debug(
            "batch.committed",
            version=commit.version,
            rows=commit.rows,
            bytes=size,
            build_ms=round(commit.build_seconds * 1_000),
            write_ms=round(commit.write_seconds * 1_000),
            sync_ms=round(commit.sync_seconds * 1_000),
        )
        self._upkeep.tick()

    def _failed(self, error: BaseException, *, then: str) -> bool:
        """Whether the same may be tried again; if not, stop the gateway."""
        dead = self._table.dead or self._journal.dead
        again = isinstance(error, StoreError | OSError) and dead is None
        if not again or isinstance(error, ForeignCommit | HomeLost):
            self._halt.now(f"{type(error).__name__}: {error}")
            return False
        self._stuck = True
        _events.error("commit.failed", reason=str(error), then=then)
        return True

    # The end.

    def flush_soon(self) -> None:
        """Commit again as soon as a commit ends, from now on; try a stuck one once more."""
        self._ending, self._stuck = True, False
        self._journal.leave()
        self._upkeep.end()

    def catch_up(self, group: int) -> Callable[[], bool]:
        """Commit all frames up to this group, while more may come. The result tells whether the
        table has them, or can't get them now."""
        self.flush_soon()
        self.commit()
        return lambda: not self.busy or (bool(self._refs) and self._refs[0][0].group > group)

    @property
    def busy(self) -> bool:
        """Whether a commit runs, or frames wait for one that may succeed."""
        return self._committing or (bool(self._refs) and not self._stuck and not self._halt.on)

    def works(self) -> bool:
        """Whether the committer's thread keeps the interpreter or the disk busy now."""
        return (self._committing and not self._builder.elsewhere) or self._upkeep.running

    @property
    def parked(self) -> bool:
        """Whether a group that is a commit of its own waits for space: from the first attempt that
        found none until one succeeds."""
        return self._parked

    def stop(self) -> None:
        """End the timer. The thread ends with `join`, which blocks."""
        if self._timer is not None:
            self._timer.cancel()

    def join(self) -> None:
        self._worker.stop()
        self._builder.close()


def _grant(credit: dict[Link, int]) -> None:
    for link, count in credit.items():
        if link.alive and not link.ended:
            link.grant(count)
