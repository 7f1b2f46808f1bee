"""The base of every part of the service: the loop, the settings, the service's end, the counts."""

import asyncio

import msgspec

from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.turns import LoopTurn
from distributary.pipeline.log.message_counts import MessageCounts
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.tracing.tracer import Tracer


class Halt:
    """The end of the service: on demand, or at once, for a fault that isn't one peer's alone.

    After `now` the memory's state can't be trusted, but the disk's can: no part begins another
    durable step, and to consumers it is as if the process had been killed. Every part checks `on`
    before it writes. All methods run on the loop's thread.
    """

    __slots__ = ("_ended", "_given", "on", "reason")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        #: Whether no durable step may be begun any more.
        self.on = False
        #: The reason given to `now`, if it was called.
        self.reason: str | None = None
        self._ended: asyncio.Future[str | None] = loop.create_future()
        self._given = False

    def now(self, reason: str) -> None:
        """Stop at once for this reason; the first reason counts."""
        self.on, self.reason = True, self.reason or reason
        if not self._ended.done():
            self._ended.set_result(reason)

    def ask(self) -> None:
        """End the service on demand: waiting groups are written, and peers are told."""
        self._given = False
        if not self._ended.done():
            self._ended.set_result(None)

    def hand_over(self) -> None:
        """End the service as `ask` does, to give the log to another gateway; the process goes on as
        a standby."""
        if not self._ended.done():
            self._given = True
            self._ended.set_result(None)

    @property
    def goes_on(self) -> bool:
        """Whether the process goes on as a standby when the service has ended."""
        return self._given and self.reason is None

    @property
    def asked(self) -> bool:
        """Whether the service ends, for any reason."""
        return self._ended.done()

    async def ended(self, seconds: float | None = None) -> str | None:
        """Wait for the end, at most `seconds`. Return the reason of a stop; None for an end on
        demand, or no end yet."""
        await asyncio.wait([self._ended], timeout=seconds)
        return self._ended.result() if self._ended.done() else None


class Host(msgspec.Struct, frozen=True):
    """The base that each part of the service gets when it is made. `traces` is None without
    tracing; `turn` has facts about the loop's turn; `log` is the served log's name."""

    loop: asyncio.AbstractEventLoop
    settings: Settings
    halt: Halt
    counts: MessageCounts
    traces: Tracer | None = None
    turn: LoopTurn = msgspec.field(default_factory=LoopTurn)
    log: str = MAIN
