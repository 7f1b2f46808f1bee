"""Seek: rewinds, skips and purges of durable subscriptions, and new subscriptions that are owed
messages published before them.

A seek begins a new incarnation: no earlier settlement counts for it. Messages that the subscription
was never owed, in any incarnation, are settled anew: messages of its own container if it is
no-local, and messages published for another subscription alone.
"""

import asyncio
import time
from array import array
from typing import Any

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.no_local import never_owed
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.workers import Worker
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.model.amqp_error import LOCKED, AmqpError
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.topic_pattern import matches
from distributary.pipeline.sequences.gathering import stretches
from distributary.pipeline.subscriptions.subscription_operations import EVENTS, Operation, new_floor

#: Times that a topic is counted again after a rewind, when a commit came in between.
COUNTS_MAX = 3
#: Seconds that a commit may take until a rewind gives up, and between two looks at it.
COMMIT_SECONDS_MAX = 20.0
LOOK_SECONDS = 0.01


class Seek:
    """Seeks in durable subscriptions. The caller runs one at a time for each subscription."""

    def __init__(
        self, parts: MessageParts, directory: SubscriptionDirectory, reads: Worker[Any]
    ) -> None:
        self._log, self._table, self._directory = parts.log, parts.store.table, directory
        self._delivery, self._counters = parts.delivery, parts.backlogs.counters
        self._topics = parts.topics
        self._reads = reads

    async def move(
        self, operation: Operation, subscription: Subscription, to: int | None, by: str
    ) -> dict[str, Writable] | AmqpError:
        """Set the subscription's floor to this sequence, or to the end if it is None, for the user
        `by`. On return that is durable. Raises StoreError when the table can't be read."""
        place = self._place(operation, subscription, to)
        if isinstance(place, AmqpError):
            return place
        later = self._directory.no_local.watch(subscription)
        try:
            known = await self._never_owed(subscription, place)
        finally:
            self._directory.no_local.unwatch(subscription)
        if isinstance(known, AmqpError):
            return known
        key = subscription.key
        if self._directory.get(key) is not subscription or not self._directory.sure(key):
            return AmqpError(LOCKED, "the subscription was changed in this moment; ask again")
        place = self._place(operation, subscription, to)
        if isinstance(place, AmqpError):
            return place
        for outcome, run in later:
            known.setdefault(outcome, array("q")).extend(run)
        return await self._begin(operation, subscription, place, known, by)

    def _place(
        self, operation: Operation, subscription: Subscription, to: int | None
    ) -> int | AmqpError:
        head = self._log.next_sequence
        return new_floor(
            operation,
            head if to is None else to,
            floor=subscription.dispatcher.floor,
            first=self._table.first_sequence,
            head=head,
        )

    async def _begin(
        self,
        operation: Operation,
        subscription: Subscription,
        place: int,
        known: "dict[Outcome, array[int]]",
        by: str,
    ) -> dict[str, Writable]:
        """Begin the new incarnation. A settlement in the event's own group doesn't count, so that
        group ends with the event: messages that expire or overflow from now on, dead letters that
        are redriven, and messages that were never owed are settled in a later one. Nothing is
        delivered until the event is durable."""
        dispatcher, key = subscription.dispatcher, subscription.key
        assert key is not None  # noqa: S101
        back = place < dispatcher.floor
        dropped = self._counters.owed_below(subscription, place)
        dispatcher.rewind(place)
        self._delivery.changed(subscription, repositioned=True)
        dispatcher.paused = True
        for sequences in known.values():
            for run in stretches(one for one in sequences if one >= place):
                dispatcher.exclude(run)
        event = EVENTS[operation]
        self._directory.record(event, subscription, by=by, floor=place, dropped=dropped)
        self._log.begin_group()
        await self.durable()
        again = {outcome: some for outcome, some in known.items() if some}
        for outcome, sequences in again.items():
            self._log.settle(never_owed(subscription, sequences, outcome, key.container or ""))
        if again:
            await self.durable()
        dispatcher.paused = self._directory.paused(key)
        self.serve(subscription)
        if back:
            await self._expire_again(subscription.definition.topic, place)
            await self._count_again(subscription.definition.topic, place)
        return {"floor": place, **dropped.facts}

    async def begin_before(
        self, subscription: Subscription, floor: int, *, whole: bool
    ) -> dict[str, Writable] | AmqpError:
        """Let a new subscription be owed messages from `floor` on, published before it.

        Nothing is delivered until its first event is in the table: a retention that was under way
        and doesn't know the subscription is over by then. `whole`: if retention has removed
        messages from `floor` on meanwhile, the subscription is deleted again.
        """
        dispatcher, key = subscription.dispatcher, subscription.key
        assert key is not None  # noqa: S101
        dispatcher.paused = True
        self._log.begin_group()  # as in _begin
        await self.durable()
        amqp_error = await self._committed(self._log.last_group)
        if amqp_error is None and whole and self._table.first_sequence > floor:
            amqp_error = AmqpError(
                LOCKED, "retention has dropped the first of these messages just now"
            )
        if self._directory.get(key) is not subscription:
            return AmqpError(LOCKED, "the subscription was changed in this moment; ask again")
        if amqp_error is not None:
            self._directory.delete(subscription, by="")
            await self.durable()
            return amqp_error
        dispatcher.paused = self._directory.paused(key)
        self.serve(subscription)
        await self._expire_again(subscription.definition.topic, floor)
        await self._count_again(subscription.definition.topic, floor)
        return {"floor": floor}

    async def durable(self) -> None:
        """Wait until everything that was given to the log by now is durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log.after(lambda: None if done.done() else done.set_result(None))
        self._log.flush()
        await done

    def serve(self, subscription: Subscription) -> None:
        """The subscription's dispatcher may deliver again, or more: serve it."""
        self._delivery.changed(subscription)
        for consumer in subscription.consumers.values():
            self._delivery.flowed(consumer)

    async def _never_owed(
        self, subscription: Subscription, place: int
    ) -> "dict[Outcome, array[int]] | AmqpError":
        """Return the messages from the place on that it was never owed, as the table has them once
        it has all groups."""
        key = subscription.key
        assert key is not None  # noqa: S101
        if key.queue or place >= self._log.next_sequence:
            return {}
        group = self._log.last_group
        await self.durable()
        amqp_error = await self._committed(group)
        if amqp_error is not None:
            return amqp_error
        found: dict[Outcome, array[int]]
        found = await self._reads.ask(lambda: self._table.never_owed(key.id, place))
        return found

    async def _committed(self, group: int) -> AmqpError | None:
        """Wait until the table has all groups up to this one, which is durable."""
        deadline = time.monotonic() + COMMIT_SECONDS_MAX
        while self._table.journal_version < group:
            if time.monotonic() > deadline:
                return AmqpError(
                    LOCKED, "the table lacks settlements, as commits don't succeed; ask later"
                )
            self._log.commit()
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def _expire_again(self, topic: str, since: int) -> None:
        """Let messages that are owed again expire, also without a consumer: those in memory, and
        those of the table."""
        recent, found = self._log.recent, list[tuple[int, int, int]]()
        at = max(since, recent.floor)
        while (batch := recent.find(topic, at)) is not None:
            if batch.attributes is not None and (earliest := batch.attributes.earliest_expiry):
                found.append((earliest, batch.first, batch.stop))
            at = batch.stop
        # Messages may leave memory for the table meanwhile, so the table is read second.
        found += await self._reads.ask(
            lambda: [
                lapse
                for ahead in self._table.priority_statistics(since)
                if matches(topic, ahead.topic)
                for lapse in ahead.lapses
            ]
        )
        self._topics.owed_again(topic, found)

    async def _count_again(self, topic: str, since: int) -> None:
        """Count a topic's backlog anew after a rewind: messages that are owed again, even if they
        had been taken off, and those that subscriptions further behind are owed."""
        since = self._counters.first_owed(topic, since)
        for _ in range(COUNTS_MAX):
            committed = self._table.sequence_version
            parts = await self._reads.ask(
                lambda: [part for part in self._table.volumes(since) if matches(topic, part.topic)]
            )
            if self._table.sequence_version == committed:
                break  # no message has left memory for the table meanwhile
        now = clock.now()
        self._counters.count_again(topic, parts, self._log.recent, since, now)
