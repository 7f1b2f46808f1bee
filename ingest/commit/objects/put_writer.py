"""Writing of sealed groups to a store: each is one put; several are under way, reported in order.

Each put has a thread that waits for its answer. A put with an unknown result is repeated, with the
same bytes under the same name, until the result is known; later groups wait for it. When another
owner closes the journal, the gateway stops.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import assert_never

import msgspec
import structlog

from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Failure, Worker
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import StoreError
from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.object_journal.put_window import Accept, Again, Lost, PutWindow
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.object_home.journal_objects import PutAnswer
from distributary.pipeline.tables.object_home.object_journal import ObjectJournal

_events = structlog.get_logger("log")

#: Seconds until a put is tried again, the first time and at most.
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 0.05, 1.0
#: Seconds that a group may be under way until the store counts as full.
FULL_SECONDS = 2.0


class _UnderWay(msgspec.Struct):
    """A group that is being put."""

    ref: FrameRef
    data: bytes
    begun: float
    again_seconds: float = AGAIN_SECONDS


class PutWriter:
    """Puts encoded groups into an owner's journal. Implements `Writer`. `written` gets each frame's
    place on the loop, in order, once. All methods run on the loop's thread."""

    def __init__(
        self, host: Host, journal: ObjectJournal, writer: bytes, written: Callable[[FrameRef], None]
    ) -> None:
        """`writer`: random bytes that identify this process."""
        self._host, self._halt, self._counts = host, host.halt, host.counts
        self._journal, self._writer, self._written = journal, writer, written
        self._window = PutWindow(host.settings.journal.puts_max)
        self._groups: dict[int, _UnderWay] = {}
        self._idle: deque[Worker[PutAnswer]] = deque()
        self._workers: list[Worker[PutAnswer]] = []
        self.full = False  #: the store takes nothing, and groups wait for it

    def by_loop(self, _size: int) -> bool:
        """Return False: the loop never waits for a store."""
        return False

    def write(self, parts: Sequence[Bytes], *, own_turn: bool = False) -> None:  # noqa: ARG002
        """Put a frame. Its parts may change when this returns."""
        if self._halt.on:
            return
        header = frame.read_header(parts[0])
        if header is None:
            raise StoreError("what was handed to the journal is no frame")
        group = header.group
        epoch = self._journal.epoch
        data = entry.encode(Kind.GROUP, epoch, group, self._writer, parts)
        ref = self._journal.keep(group, memoryview(data)[entry.HEADER.size :])
        self._groups[group] = _UnderWay(ref, data, monotonic())
        self._window.begin(group)
        self._put(group)

    def _put(self, group: int) -> None:
        if self._halt.on:
            return
        worker = self._idle.popleft() if self._idle else self._made()
        data = self._groups[group].data
        worker.submit(
            lambda: self._journal.put(group, data),
            lambda result: self._answered(worker, group, result),
        )

    def _made(self) -> Worker[PutAnswer]:
        worker: Worker[PutAnswer] = Worker(f"put-{len(self._workers)}", self._host.loop)
        self._workers.append(worker)
        return worker

    def _answered(self, worker: Worker[PutAnswer], group: int, result: PutAnswer | Failure) -> None:
        self._idle.append(worker)
        if isinstance(result, Failure):  # a bug: expected errors are answers
            self._halt.now(f"{type(result.error).__name__}: {result.error}")
            return
        for effect in self._window.answered(group, result.put):
            match effect:
                case Accept(number):
                    self._accept(number)
                case Again():
                    self._again(group, result.why)
                case Lost():
                    self._halt.now(
                        f"the journal was closed by another owner at group {group}: this gateway "
                        "gave no sign of life for longer than owner.lease_ms. What it accepted is "
                        "kept; it does nothing more"
                    )
                case _ as never:
                    assert_never(never)

    def _accept(self, group: int) -> None:
        done = self._groups.pop(group)
        self._counts.write_seconds.observe(monotonic() - done.begun)
        if self.full:
            self.full = False
            _events.info("journal.has_space")
        if not self._halt.on:
            self._written(done.ref)

    def _again(self, group: int, why: str) -> None:
        one = self._groups[group]
        if not self.full and monotonic() - one.begun > FULL_SECONDS:
            self.full = True
            _events.error("journal.undecided", group=group, reason=why, then="publishers wait")
        self._host.loop.call_later(one.again_seconds, self._put, group)
        one.again_seconds = min(2 * one.again_seconds, AGAIN_SECONDS_MAX)

    def stop(self) -> None:
        """End the threads, after their requests that are under way. Blocks."""
        for worker in self._workers:
            worker.stop()
