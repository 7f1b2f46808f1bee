"""Moves of a log by its owner: by an order, or to spread logs over machines."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import assert_never

import structlog

from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Worker
from distributary.pipeline.errors import BeatFailed, HomeLost
from distributary.pipeline.fleet.heirs import NOBODY
from distributary.pipeline.fleet.members import Member, Sightings
from distributary.pipeline.fleet.moves import Effect, Give, Giving, Move, Name, Say, State, Stay
from distributary.pipeline.fleet.spreading import Spreading
from distributary.pipeline.tables.lake.lake import Lake

_events = structlog.get_logger("gateway")


class Moving:
    """Performs the decisions of `Giving` and `Spreading`, on the loop's thread; blocking work is
    done on the given worker."""

    def __init__(
        self, host: Host, lake: Lake, logs: tuple[str, ...], me: Member, owner: HomeOwner
    ) -> None:
        """`me`: this member, with the log that it serves; `owner`: the lock of the log's home."""
        self._halt, self._lake, self._logs = host.halt, lake, logs
        self._me, self._owner = me, owner
        self._sightings = Sightings()
        self._giving = Giving(me.number, me.log)
        self._spreading = Spreading(me.number, host.settings.fleet.spread_rest_ms / 1_000)
        #: Number of the member to which the log is given.
        self.heir = NOBODY

    @property
    def hurries(self) -> bool:
        """Whether the owner waits for a named heir."""
        return self._giving.hurries

    async def look(
        self, worker: Worker[object], move: Move | None, said: Sequence[Member], asked: float
    ) -> list[Member]:
        """Take up the present order, with the members' records, which were asked for at that time
        (`time.monotonic`); return the living members. Raises StoreError."""
        now = time.monotonic()
        living, silent = self._sightings.look(said, asked, now)
        if silent:
            await worker.ask(lambda: self._lake.forget_members(silent))
        for effect in self._giving.look(move, living, now):
            await self._perform(worker, effect, move)
        order = self._spreading.look(living, self._logs, move, now)
        if order is not None and await self._replaced(worker, move, order):
            _events.info("move.asked", log=order.log, to=order.url, machine=order.machine)
        return living

    async def _perform(self, worker: Worker[object], effect: Effect, seen: Move | None) -> None:
        match effect:
            case Name(heir):
                _events.info("log.moves", log=self._me.log, to=seen.url if seen else "")
                await _hinted(worker, lambda: self._owner.leave(heir))
            case Stay():
                await _hinted(worker, self._owner.stay)
            case Give(heir):
                self.heir = heir
                self._halt.hand_over()
            case Say(move):
                if await self._replaced(worker, seen, move):
                    self._tell(move)
            case _ as never:
                assert_never(never)

    async def _replaced(self, worker: Worker[object], seen: Move | None, new: Move) -> bool:
        return bool(await worker.ask(lambda: self._lake.replace_move(seen, new)))

    def _tell(self, move: Move) -> None:
        if move.state is State.FAILED:
            _events.warning("move.failed", log=move.log, to=move.url, reason=move.reason)
        else:
            _events.info("log.moved", log=move.log, machine=move.machine)


async def _hinted(worker: Worker[object], say: Callable[[], object]) -> None:
    """Write the heir to the lock or the lease. It is a hint: after a failure the heartbeat finds
    the cause, and an heir that doesn't read it isn't ready."""
    with suppress(OSError, BeatFailed, HomeLost):
        await worker.ask(say)
