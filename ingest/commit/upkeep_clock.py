"""The times of the table's upkeep: between commits, one bounded step at a time.

A step runs on the committer's thread, so a commit that comes due waits for one step at most. The
subscriptions' floors say which messages may be removed: the floors are read on the loop, and apply
once the table has every group that may have the outcomes below them.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import structlog

from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Failure
from distributary.pipeline.errors import ForeignCommit, HomeLost, StoreError
from distributary.pipeline.tables.topic_log.topic_log import Commit, TopicLog
from distributary.pipeline.tables.upkeep.upkeep_limits import Upkeep

_events = structlog.get_logger("log")

#: Pause after a step, in multiples of the step's time: upkeep gets half of the committer's time,
#: and a tenth of it while commits are behind.
REST = 1.0
REST_BEHIND = 9.0
#: Seconds without a step after a look that found nothing due.
IDLE_SECONDS = 0.2
#: Seconds until the next look without a commit, where settled messages are removed before their day
#: is over: outcomes alone make removals due.
LOOK_SECONDS = 10.0


#: The result of a job of the committer's thread.
Result: TypeAlias = Commit | Upkeep | Failure | None


class Floors(msgspec.Struct, frozen=True):
    """Below `floor` no durable subscription is owed a message, and below `served` no subscription
    at all, once `group` is in the table."""

    group: int
    floor: int
    served: int = 0


class UpkeepClock:
    """Runs a step after each commit, and further ones while there is something to do.

    `submit` hands a job to the committer's thread and its result back to the loop; `floors` returns
    the floors of now, `behind` whether commits wait; `owned` raises HomeLost when the home has
    another owner by now. When the table can't go on, the gateway stops.
    """

    def __init__(
        self,
        host: Host,
        table: TopicLog,
        owned: Callable[[], None],
        submit: Callable[[Callable[[], Commit | Upkeep | None], Callable[[Result], None]], None],
        floors: Callable[[], Floors],
        behind: Callable[[], bool],
    ) -> None:
        self._loop, self._halt, self._counts = host.loop, host.halt, host.counts
        self._table, self._owned, self._submit = table, owned, submit
        self._retry_seconds = host.settings.commit.retry_ms / 1_000
        self._floors, self._behind = floors, behind
        self._looks = host.settings.upkeep.limits.retains_less
        self._taken: Floors | None = None
        self._floor = self._served = 0
        self.running = False  #: a step runs on the committer's thread
        self._ended = False
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        """Do the next step, if it is due; called after a commit, and after a pause."""
        if self.running or self._ended or self._halt.on or self._loop.time() < self._next:
            return
        self._take_floors()
        floors = self._floors()  # a subscription may have begun further back meanwhile
        floor, served = min(self._floor, floors.floor), min(self._served, floors.served)
        self.running = True
        now = clock.now()
        self._submit(lambda: self._step(now, floor, served), self._done)

    def end(self) -> None:
        """Begin no more steps."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _take_floors(self) -> None:
        if self._taken is not None and self._table.journal_version >= self._taken.group:
            self._floor, self._served = self._taken.floor, self._taken.served
            self._taken = None
        if self._taken is None:
            self._taken = self._floors()

    def _step(self, now: int, floor: int, served: int) -> Upkeep | None:
        """Do one step; on the committer's thread."""
        self._owned()
        return self._table.upkeep(now=now, floor=floor, served=served)

    def _done(self, result: Result) -> None:
        self.running = False
        assert not isinstance(result, Commit)  # noqa: S101
        if isinstance(result, Failure):
            self._failed(result.error)
            return
        if result is None:
            self._next = self._loop.time() + IDLE_SECONDS
            if self._looks:
                self._arm(self._loop.time() + LOOK_SECONDS)
            return
        _events.debug(
            "upkeep.done",
            kind=result.kind,
            files=result.files,
            bytes=result.bytes,
            ms=round(result.seconds * 1_000),
        )
        steps = self._counts.upkeep_steps
        steps[result.kind] = steps.get(result.kind, 0) + 1
        self._counts.retained_out += result.messages
        if result.messages:
            _events.warning("retention.dropped", messages=result.messages, owed_to="none")
        self._rest(result.seconds * (REST_BEHIND if self._behind() else REST))

    def _failed(self, error: BaseException) -> None:
        again = isinstance(error, StoreError | OSError) and self._table.dead is None
        if not again or isinstance(error, ForeignCommit | HomeLost):
            self._halt.now(f"{type(error).__name__}: {error}")
            return
        _events.error("upkeep.failed", reason=str(error), then="commits go on; tried again soon")
        self._rest(self._retry_seconds)

    def _rest(self, seconds: float) -> None:
        self._next = self._loop.time() + seconds
        self._arm(self._next)

    def _arm(self, at: float) -> None:
        """Look again at `at`, if no commit comes before."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._ended:
            self._timer = self._loop.call_at(at, self.tick)
