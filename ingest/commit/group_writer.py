"""Writing of sealed groups to the disk, by the loop itself or by the journal's thread.

One group is written at a time, so two calls of `Journal.append` never run at once, on whatever
thread. A group that finds no space is tried again until there is some; after any other error
nothing is ever written again.
"""

from collections.abc import Callable, Sequence
from time import monotonic, perf_counter
from typing import Protocol

import structlog

from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Failure, Worker
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import HomeLost, JournalFull, StoreError
from distributary.pipeline.log.loop_writes import LoopWrites
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.journal.segment import FrameRef

_events = structlog.get_logger("log")

#: Seconds for which the loop writes nothing by itself, at least, after its writes were slow.
REST_SECONDS = 1.0


class Writer(Protocol):
    """Makes sealed groups durable, and reports each on the loop, in order, once."""

    @property
    def full(self) -> bool:
        """Whether the disk or store takes nothing, and a group waits for it."""

    def by_loop(self, size: int) -> bool:
        """Whether the loop would now write a group of `size` bytes by itself."""

    def write(self, parts: Sequence[Bytes], *, own_turn: bool = False) -> None:
        """Make these parts of one frame durable. They may not change until that is reported, which
        may be before this returns if the loop has a turn for it (`own_turn`)."""

    def stop(self) -> None:
        """End its threads, after their current work. Blocks."""


class GroupWriter:
    """Appends encoded groups to the journal. `written` gets each frame's place on the loop, once.
    `committing` says whether the committer's thread works now: then the loop writes nothing by
    itself, as both would wait for the same disk and the same interpreter."""

    def __init__(
        self,
        host: Host,
        journal: Journal,
        committing: Callable[[], bool],
        written: Callable[[FrameRef], None],
    ) -> None:
        self._loop, self._halt, self._counts = host.loop, host.halt, host.counts
        self._journal, self._committing, self._written = journal, committing, written
        limits = host.settings.journal
        self._retry_seconds = limits.retry_ms / 1_000
        self._own = LoopWrites(limits.loop_write_bytes, limits.loop_write_us / 1e6, REST_SECONDS)
        self._worker: Worker[FrameRef] = Worker("journal", host.loop)
        self._seconds = 0.0  # of the last write, its fsync included
        self.full = False  #: the disk has no space, and a group waits for it

    def by_loop(self, size: int) -> bool:
        """Whether the loop would now write a group of `size` bytes by itself."""
        return (
            not self._committing()
            and self._own.allows(size, monotonic())
            and self._journal.fits(size)
        )

    def write(self, parts: Sequence[Bytes], *, own_turn: bool = False) -> None:
        """Make these parts of one frame durable. They may not change until `written` is called,
        which may be before this returns if the loop has a turn for it (`own_turn`)."""
        if self._halt.on:
            return
        if not (own_turn and self.by_loop(sum(map(len, parts)))):
            self._worker.submit(lambda: self._append(parts), lambda ref: self._done(parts, ref))
            return
        try:
            result: FrameRef | Failure = self._append(parts)
        except (StoreError, HomeLost) as error:
            result = Failure(error)
        self._own.took(self._seconds, monotonic())
        self._done(parts, result)

    def _append(self, parts: Sequence[Bytes]) -> FrameRef:
        """Append a frame; on the journal's thread, or on the loop's."""
        begun = perf_counter()
        ref = self._journal.append(parts)
        self._seconds = perf_counter() - begun
        return ref

    def _done(self, parts: Sequence[Bytes], result: FrameRef | Failure) -> None:
        if isinstance(result, Failure):
            if not isinstance(result.error, JournalFull):
                self._halt.now(str(result.error))
                return
            if not self.full:
                self.full = True
                _events.error("journal.full", reason=str(result.error), then="publishers wait")
            self._loop.call_later(self._retry_seconds, self.write, parts)
            return
        if self.full:
            self.full = False
            _events.info("journal.has_space")
        self._counts.write_seconds.observe(self._seconds)
        self._written(result)

    def stop(self) -> None:
        """End the thread, after its current write. Blocks."""
        self._worker.stop()
