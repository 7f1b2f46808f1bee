"""Expired messages are given up though nobody asks for them: on every subscription of their topic,
whether it has consumers or not.

Every `delivery.expiry_scan_ms` the agendas are asked in which stretches of messages any has
expired; these are looked at, in memory or in the table, beside all other work.
"""

import asyncio
from array import array
from collections.abc import Callable

from ingest import clock
from ingest.claims import Claims
from ingest.consumer import Subscription
from ingest.paging import Paging
from ingest.values import SlabReader
from ingest.workers import watched, went_well
from pipeline.agenda import Agenda
from pipeline.errors import StoreError
from pipeline.message import Slab
from pipeline.outcome import Reason
from pipeline.selector.matching import Selections, selected_parts
from pipeline.sequences import Run
from pipeline.subscription import Definition

#: Evaluations of a selector between two turns of the loop.
PART_EVALUATIONS = 1_000


class Expiry:
    """Looks for what has expired. `give_up` is told of each run for each subscription."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        claims: Claims,
        paging: Paging,
        scan_ms: int,
        give_up: Callable[[Subscription, Run, Reason], None],
    ) -> None:
        self._loop, self._claims, self._give_up = loop, claims, give_up
        self._seconds = scan_ms / 1_000
        self._lookup, self._retry_us = paging.lookup(), int(paging.retry_seconds * 1e6)
        self._task: asyncio.Task[None] | None = None
        self._timer = loop.call_later(self._seconds, self._begin)

    def close(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        work = watched(self._scan(), self._loop, "expiry")
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if went_well(task):
            self._timer = self._loop.call_later(self._seconds, self._begin)

    async def _scan(self) -> None:
        self._claims.trim()
        now = clock.now()
        for topic, agenda, stretch in self._claims.lapsed(now):
            try:
                await self._look_through(topic, agenda, stretch, now)
            except StoreError:  # the log says which
                agenda.again(stretch, now + self._retry_us)
        self._lookup.forget()

    async def _look_through(self, topic: str, agenda: Agenda, stretch: range, now: int) -> None:
        at, next_one = stretch.start, 0
        while (slab := await self._lookup.slab(topic, at, stretch.stop)) is not None:
            expired, later = _expired(slab, range(at, stretch.stop), now)
            if expired:
                for subscription in list(self._claims.of(topic)):
                    await self._expire(subscription, slab, expired)
            if later:
                next_one = min(next_one or later, later)
            at = slab.stop
            await asyncio.sleep(0)
        if next_one:
            agenda.again(stretch, next_one)

    async def _expire(self, subscription: Subscription, slab: Slab, expired: "array[int]") -> None:
        """Give up what of these the subscription claims."""
        if subscription.ended or subscription.dispatcher.floor > expired[-1]:
            return
        if subscription.definition.selector is not None:
            expired = await self._claimed(subscription.definition, slab, expired)
        if expired and not subscription.ended:
            self._give_up(subscription, expired, Reason.EXPIRED)

    async def _claimed(self, claim: Definition, slab: Slab, expired: "array[int]") -> "array[int]":
        """What of these a selector selects; others have their turns while it is evaluated."""
        selections, wanted, found = Selections(SlabReader), frozenset(expired), array("q")
        selections.join(claim)
        for part in selected_parts(selections, claim, slab, PART_EVALUATIONS):
            found.extend(one for one in part if one in wanted)
            await asyncio.sleep(0)
        return found


def _expired(slab: Slab, within: range, now: int) -> "tuple[array[int], int]":
    """Which of the slab's messages within these sequences have expired, and when the next one of
    the others does; 0: none."""
    found, later = array("q"), 0
    traits = slab.traits
    if traits is None or not traits.expires_at:
        return found, later
    listed = slab.sequences or range(slab.first, slab.stop)
    for sequence, at in zip(listed, memoryview(traits.expires_at).cast("q"), strict=True):
        if at and sequence in within:
            if at <= now:
                found.append(sequence)
            elif not later or at < later:
                later = at
    return found, later
