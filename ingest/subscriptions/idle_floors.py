"""Floors of idle subscriptions rise with the log's end, so that retention can remove old days.

A subscription's floor rises by what its consumers settle. On a quiet topic no message is settled,
and one drained queue would keep all days of all topics. So the subscriptions are looked at in turn,
some each second, however many there are: the next message behind the position is found in memory or
in the table, as it is for a consumer, and the position goes to it, or to the end of the log. Now
and then such a floor is recorded for the next start, as a settlement of no messages. All methods
run on the loop's thread.
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

#: Seconds between two looks; subscriptions that one of them sees, 2 us each; and what it may spend
#: on floors that it moves: 1 where the next message is looked for in memory, 0.1 ms, and 5 where a
#: page of the table may be read for it.
LOOK_SECONDS = 1.0
LOOK_SUBSCRIPTIONS = 1_000
LOOK_MOVED = 100
PAGE_LIKE_MOVED = 5


class IdleFloors:
    """Raises idle floors from its making until `close`."""

    def __init__(self, host: Host, parts: MessageParts, directory: SubscriptionDirectory) -> None:
        self._log, self._directory = parts.log, directory
        #: By how much a floor moves until it is recorded.
        self._record_sequences = host.settings.upkeep.idle_floor_sequences
        #: Whose floors keep messages in the table.
        self._all = parts.topics.all if host.settings.upkeep.limits.retains_less else self._durable
        self._lookup = parts.delivery.paging.lookup()
        #: What is left of the subscriptions that there were when this round began.
        self._round: Iterator[Subscription] = iter(())
        self._looks = Repeated(self._look, host.loop, LOOK_SECONDS, "floors")

    def close(self) -> None:
        """Stop."""
        self._looks.close()

    async def _look(self) -> None:
        for subscription in self._next_idle():
            try:
                await self._move(subscription)
            except StoreError:  # the log says which
                continue
            self._record(subscription)
            await asyncio.sleep(0)
        self._lookup.forget()

    def _durable(self) -> Iterator[Subscription]:
        return (one for one in self._directory.all() if one.durable)

    def _next_idle(self) -> list[Subscription]:
        """The next ones of the round that have read everything up to their floor, and may be owed
        nothing. A new round begins with a look of its own."""
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
        """Pass over what the topic hasn't got, from the position on."""
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
