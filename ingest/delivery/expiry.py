"""Giving up of expired messages, on every subscription of their topic, with consumers or without.

Every `delivery.expiry_scan_ms` the priority indexes name the stretches in which messages have
expired. These stretches are read, from memory or from the table, beside all other work. Messages
that consumers or transactions hold then are looked at again when they come back.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator

from msgspec import structs

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import Paging
from distributary.ingest.delivery.selector_faults import SelectorFaults
from distributary.ingest.delivery.topic_directory import Lapsed, TopicDirectory
from distributary.ingest.native.batch_reader import BatchReader
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Repeated
from distributary.pipeline.errors import SelectorFailed, StoreError
from distributary.pipeline.log.memory_stream import Logged
from distributary.pipeline.model.outcome import Reason
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.matching import Selections, selected_parts
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

#: Evaluations of a selector between two turns of the loop, and messages that are looked up.
PART_EVALUATIONS = 1_000
PART_MESSAGES = 1_000
#: Subscriptions that give up expired messages between two turns, 0.3 ms each for a thousand.
PART_SUBSCRIPTIONS = 16


class Expiry:
    """Looks for expired messages. `give_up` is called with each run, for each subscription."""

    def __init__(
        self,
        host: Host,
        topics: TopicDirectory,
        paging: Paging,
        faults: SelectorFaults,
        give_up: Callable[[Subscription, Run, Reason, RecordBatch], None],
    ) -> None:
        self._topics, self._give_up = topics, give_up
        self._faults = faults
        #: Messages that had expired while they were held, and where to look when they come back.
        self._held: dict[Subscription, tuple[Lapsed, SequenceSet]] = {}
        self._lookup, self._retry_us = paging.lookup(), int(paging.retry_seconds * 1e6)
        seconds = host.settings.delivery.expiry_scan_ms / 1_000
        self._scans = Repeated(self._scan, host.loop, seconds, "expiry")

    def close(self) -> None:
        self._scans.close()

    async def _scan(self) -> None:
        self._topics.trim()
        now = clock.now()
        await self._look_again(now)
        for lapsed in self._topics.lapsed(now):
            try:
                await self._look_through(lapsed, now)
            except StoreError:  # it was logged
                self._topics.again(lapsed, now + self._retry_us)
        self._lookup.forget()

    async def _look_again(self, now: int) -> None:
        """Messages that were held when they expired, and are ready now, are found by this scan."""
        for subscription, (lapsed, held) in tuple(self._held.items()):
            still = SequenceSet()
            for part in _parts(held):
                if subscription.ended:
                    break
                back, left = subscription.dispatcher.returned(part)
                if back:
                    stretch = range(min(run[0] for run in back), max(run[-1] for run in back) + 1)
                    self._topics.again(structs.replace(lapsed, stretch=stretch), now)
                for run in left.runs():
                    still.add(run)
                await asyncio.sleep(0)
            if still and not subscription.ended:
                self._held[subscription] = lapsed, still
            else:
                del self._held[subscription]

    async def _look_through(self, lapsed: Lapsed, now: int) -> None:
        topic, stretch = lapsed.topic, lapsed.stretch
        at, next_one = stretch.start, 0
        while (batch := await self._batch(lapsed, at)) is not None:
            expired, later = _expired(batch, range(at, stretch.stop), now)
            if expired:
                readers = [one for one in self._topics.of(topic) if one.stream is lapsed.stream]
                for nth, subscription in enumerate(readers, 1):
                    try:
                        await self._expire(subscription, lapsed, batch, expired)
                    except SelectorFailed as failure:
                        self._faults.tell(subscription, failure)
                        later = now + self._retry_us
                    if nth % PART_SUBSCRIPTIONS == 0:
                        await asyncio.sleep(0)
            if later:
                next_one = min(next_one or later, later)
            at = batch.stop
            await asyncio.sleep(0)
        if next_one:
            self._topics.again(lapsed, next_one)

    async def _batch(self, lapsed: Lapsed, at: int) -> RecordBatch | None:
        """Return the batch of the stretch with this message or the first one after it. A stream's
        entries that are in the log are skipped: they expire when they are read."""
        if lapsed.stream is None:
            return await self._lookup.batch(lapsed.topic, at, lapsed.stretch.stop)
        entry = lapsed.stream.find(at)
        while isinstance(entry, Logged):
            entry = lapsed.stream.find(entry.stop)
        return entry if entry is not None and entry.first < lapsed.stretch.stop else None

    async def _expire(
        self,
        subscription: Subscription,
        lapsed: Lapsed,
        batch: RecordBatch,
        expired: "array[int]",
    ) -> None:
        """Give up those of these messages that the subscription claims."""
        if subscription.ended or subscription.dispatcher.floor > expired[-1]:
            return
        if subscription.definition.selector is not None:
            expired = await self._selected(subscription.definition, batch, expired)
        if expired and not subscription.ended:
            self._give_up(subscription, expired, Reason.EXPIRED, batch)
            _, held = subscription.dispatcher.returned(expired)
            if held:
                for run in self._held.get(subscription, (lapsed, SequenceSet()))[1].runs():
                    held.add(run)
                self._held[subscription] = lapsed, held

    async def _selected(
        self, definition: Definition, batch: RecordBatch, expired: "array[int]"
    ) -> "array[int]":
        """Return those of these messages that the selector selects; other work has its turns while
        it is evaluated."""
        selections, wanted, found = Selections(BatchReader), frozenset(expired), array("q")
        selections.join(definition)
        for part in selected_parts(selections, definition, batch, PART_EVALUATIONS):
            found.extend(one for one in part if one in wanted)
            await asyncio.sleep(0)
        return found


def _expired(batch: RecordBatch, within: range, now: int) -> "tuple[array[int], int]":
    """Return the batch's expired messages within these sequences, and when the next of the others
    expires; 0: none does."""
    found, later = array("q"), 0
    attributes = batch.attributes
    if attributes is None or not attributes.expires_at:
        return found, later
    listed = batch.sequences or range(batch.first, batch.stop)
    for sequence, at in zip(listed, memoryview(attributes.expires_at).cast("q"), strict=True):
        if at and sequence in within:
            if at <= now:
                found.append(sequence)
            elif not later or at < later:
                later = at
    return found, later


def _parts(held: SequenceSet) -> Iterator[Run]:
    """These messages, PART_MESSAGES at a time or a few more."""
    for run in gathered(held.runs(), PART_MESSAGES):
        for start in range(0, len(run), PART_MESSAGES):
            yield run[start : start + PART_MESSAGES]
