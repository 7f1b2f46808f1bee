"""Floors of idle subscriptions rise with the log's end, so that retention can remove old days.

A subscription's floor rises when its consumers settle messages. On a quiet topic no message is
settled, and one drained queue would keep all days of all topics. So subscriptions are looked at in
turn, a limited number each second: the next message from the position on is found in memory or in
the table, as for a consumer, and the position moves to it, or to the end of the log. A floor that
has moved far is recorded for the next start, as a settlement of no messages. All methods run on the
loop's thread.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Repeated
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.dispatch.dispatcher import NOBODY, Settled
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.outcome import Outcome

#: Seconds between two looks; subscriptions that a look sees, 2 us each; its budget for moves of
#: floors: a move costs 1 if the next message is looked for in memory (0.1 ms), and 5 if a page of
#: the table may be read for it.
LOOK_SECONDS = 1.0
LOOK_SUBSCRIPTIONS = 1_000
LOOK_MOVED = 100
PAGE_LIKE_MOVED = 5


class IdleFloors:
    """Raises idle floors from its making until `close`."""

    def __init__(self, host: Host, parts: MessageParts, directory: SubscriptionDirectory) -> None:
        self._log, self._directory = parts.log, directory
        #: Sequences by which a floor must move to be recorded.
        self._record_sequences = host.settings.upkeep.idle_floor_sequences
        #: The subscriptions whose floors keep messages in the table.
        self._all = parts.topics.all if host.settings.upkeep.limits.retains_less else self._durable
        self._lookup = parts.delivery.paging.lookup()
        #: Subscriptions that this round must still look at.
        self._round: Iterator[Subscription] = iter(())
        self._looks = Repeated(self._look, host.loop, LOOK_SECONDS, "floors")

    def close(self) -> None:
        """Stop."""
        self._looks.close()

    async def _look(self) -> None:
        for subscription in self._next_idle():
            try:
                await self._move(subscription)
            except StoreError:  # the log line names it
                continue
            self._record(subscription)
            await asyncio.sleep(0)
        self._lookup.forget()

    def _durable(self) -> Iterator[Subscription]:
        return (one for one in self._directory.all() if one.durable)

    def _next_idle(self) -> list[Subscription]:
        """Return the next subscriptions of the round whose position is at their floor, so that they
        may be owed nothing. A new round begins with a new look."""
        found: list[Subscription] = []
        seen = spent = 0
        for one in islice(self._round, LOOK_SUBSCRIPTIONS):
            seen += 1
            if self._idle(one):
                found.append(one)
                in_memory = one.dispatcher.position >= self._log.recent.floor
                spent += 1 if in_memory else PAGE_LIKE_MOVED
                if spent >= LOOK_MOVED:
                    return found
        if seen < LOOK_SUBSCRIPTIONS:
            self._round = iter(tuple(self._all()))
        return found

    def _idle(self, subscription: Subscription) -> bool:
        dispatcher = subscription.dispatcher
        position = dispatcher.position
        if position >= self._log.recent.head or subscription.stream is not None:
            return False
        at_message = subscription.next_message == position
        return not (at_message or subscription.ended) and dispatcher.floor == position

    async def _move(self, subscription: Subscription) -> None:
        """Move the position to the topic's next message, or to the end of the log."""
        dispatcher, head = subscription.dispatcher, self._log.recent.head
        position, topic = dispatcher.position, subscription.definition.topic
        batch = await self._lookup.batch(topic, position, head)
        if subscription.ended or dispatcher.position != position:
            return  # it was served or moved meanwhile
        first = head if batch is None else max(batch.first, position)
        dispatcher.pass_to(first)
        if batch is not None:
            subscription.next_message = dispatcher.position

    def _record(self, subscription: Subscription) -> None:
        floor = subscription.dispatcher.floor
        if not subscription.durable or subscription.ended:
            return
        if floor - subscription.recorded < self._record_sequences:
            return
        now = clock.now()
        nothing = Settled(NOBODY, range(floor, floor), Outcome.ACCEPTED, True, 0)
        self._log.settle(subscription.settlement(nothing, "", now, now))
        self._log.flush()
