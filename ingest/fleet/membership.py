"""A gateway's record in its lake, and its look at orders and other members while it serves a log.

Rule 1: the gateway writes its record again and again, each time with another beat, and at once when
        the record changes.
Rule 2: while it serves a log it reads the present order and the other members each time.
Rule 3: no safety rests on it: while the lake doesn't answer it serves on, and no log moves.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Final

import structlog
from msgspec.structs import replace

from distributary.ingest.fleet.moving import Moving
from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.ingest.gateway.ownership.fleet_part import MachineSeen
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Worker, watched
from distributary.pipeline.errors import StoreError
from distributary.pipeline.fleet.heirs import NOBODY
from distributary.pipeline.fleet.members import Member
from distributary.pipeline.fleet.moves import Move
from distributary.pipeline.tables.lake.lake import Lake

_events = structlog.get_logger("gateway")

#: Seconds between two looks while a named heir reads ahead.
_HURRIED_SECONDS: Final = 0.05
#: Seconds that a last write or its farewell may take: without it others miss its beats soon.
_FAREWELL_SECONDS: Final = 1.0


class Membership:
    """Implements `FleetPart`."""

    def __init__(self, host: Host, lake: Lake, logs: tuple[str, ...], member: Member) -> None:
        """`logs`: all logs of the lake; `member`: the gateway's first record."""
        self._host, self._lake, self._logs, self._member = host, lake, logs, member
        self._worker: Worker[object] = Worker("members", host.loop)
        self._moving: Moving | None = None
        self._seen: list[Member] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def number(self) -> int:
        return self._member.number

    @property
    def heir(self) -> int:
        return NOBODY if self._moving is None else self._moving.heir

    def waits(self) -> None:
        self._begin()

    def ready(self, *, ready: bool) -> None:
        if ready is not self._member.ready:
            self._say(replace(self._member, ready=ready))

    def serves(self, log: str, owner: HomeOwner) -> None:
        if log in self._logs:  # else it is a private log
            self._say(replace(self._member, log=log, waits=(), ready=False))
            self._moving = Moving(self._host, self._lake, self._logs, self._member, owner)
        self._begin()

    def seen(self) -> list[MachineSeen]:
        owners = Counter(one.machine for one in self._seen if one.log)
        standbys = Counter(one.machine for one in self._seen if one.waits)
        every = Counter(one.machine for one in self._seen)
        return [
            MachineSeen(one, owners[one], standbys[one], count - owners[one] - standbys[one])
            for one, count in sorted(every.items())
        ]

    async def rest(self) -> None:
        if self._task is not None:
            self._task.cancel()
        with suppress(TimeoutError):  # a write that is under way goes before the farewell
            await asyncio.wait_for(self._worker.ask(lambda: None), _FAREWELL_SECONDS)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        number = self.number
        with suppress(StoreError, TimeoutError):
            forgotten = self._worker.ask(lambda: self._lake.forget_members([number]))
            await asyncio.wait_for(forgotten, _FAREWELL_SECONDS)
        self._worker.leave()

    def _begin(self) -> None:
        if self._task is None:
            loop = self._host.loop
            self._task = loop.create_task(watched(self._live, loop, "members"))

    def _say(self, member: Member) -> None:
        self._member = member
        self._changed.set()

    async def _live(self) -> None:
        seconds = self._member.period_ms / 1_000
        due, told = 0.0, False
        while True:
            moving, now = self._moving, time.monotonic()
            if now >= due or self._changed.is_set():
                self._changed.clear()
                beat, said_at = self._member.beat + 1, time.time_ns() // 1_000
                self._member = replace(self._member, beat=beat, said_at=said_at)
                due = now + seconds
                saying: Member | None = self._member
            else:
                saying = None
            try:
                move, members = await self._asked(saying, looks=moving is not None)
                if moving is not None:
                    self._seen = await moving.look(self._worker, move, members, now)
                told = False
            except StoreError as error:
                if not told:  # once, however long the lake is away
                    _events.warning("member.unsaid", reason=str(error))
                told = True
            hurried = moving is not None and moving.hurries
            left = _HURRIED_SECONDS if hurried else max(due - time.monotonic(), 0.0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def _asked(
        self, saying: Member | None, *, looks: bool
    ) -> tuple[Move | None, list[Member]]:
        """Write this record; return the present order and the members, if `looks`. Raises
        StoreError."""
        lake = self._lake

        def ask() -> tuple[Move | None, list[Member]]:
            # A move is asked for after a look at the log's owner: the order is for us as owner.
            move = lake.move() if looks else None
            if saying is not None:
                lake.say_member(saying)
            return move, lake.members() if looks else []

        found = await self._worker.ask(ask)
        assert isinstance(found, tuple)  # noqa: S101 (it is what `ask` gives)
        return found
