"""What every part of the service stands on: the loop, the settings, the end of both, and the
counts of what became of messages."""

import asyncio

import msgspec

from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.turns import LoopTurn
from distributary.pipeline.log.message_counts import MessageCounts
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.tracing.tracer import Tracer


class Halt:
    """How the service ends: because somebody asked, or at once, for a reason that isn't one peer's
    alone.

    After `now` what is in memory can't be trusted, what is on the disk can: no part begins anything
    more that is durable, and to consumers it is as if the process had been killed. Every part that
    writes asks `on` before it does. All methods run on the loop's thread.
    """

    __slots__ = ("_ended", "_given", "on", "reason")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        #: Nothing more may be begun.
        self.on = False
        #: Why, if it was said by `now`.
        self.reason: str | None = None
        self._ended: asyncio.Future[str | None] = loop.create_future()
        self._given = False

    def now(self, reason: str) -> None:
        """Stop for this reason; the first reason counts."""
        self.on, self.reason = True, self.reason or reason
        if not self._ended.done():
            self._ended.set_result(reason)

    def ask(self) -> None:
        """Somebody wants the service to end: what waits is written, peers are told."""
        self._given = False
        if not self._ended.done():
            self._ended.set_result(None)

    def hand_over(self) -> None:
        """The log is given to another gateway: the service ends as if asked, and the process goes
        on as a standby."""
        if not self._ended.done():
            self._given = True
            self._ended.set_result(None)

    @property
    def goes_on(self) -> bool:
        """Whether the process goes on as a standby when the service has ended."""
        return self._given and self.reason is None

    @property
    def asked(self) -> bool:
        """Whether the service ends, for whatever reason."""
        return self._ended.done()

    async def ended(self, seconds: float | None = None) -> str | None:
        """Wait for the end, or so long: the reason of a stop, None when somebody asked."""
        await asyncio.wait([self._ended], timeout=seconds)
        return self._ended.result() if self._ended.done() else None


class Host(msgspec.Struct, frozen=True):
    """Given to the parts of the service when they are made. `traces` is None where nothing is
    traced; `turn` says what the loop serves now; `log` is the name of the log that is served."""

    loop: asyncio.AbstractEventLoop
    settings: Settings
    halt: Halt
    counts: MessageCounts
    traces: Tracer | None = None
    turn: LoopTurn = msgspec.field(default_factory=LoopTurn)
    log: str = MAIN
