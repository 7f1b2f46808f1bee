"""Holders: who takes sequences and no bytes, under a name that outlives its connection.

Rule 1: a holder begins on a connection by saying what it keeps. Of what it had before it keeps
        that, and gives back the rest; what it wants to keep and nobody has, it gets back.
Rule 2: the connection on which it began last has it; what another one still asks is refused.
Rule 3: what a lost connection's holder has is its own for as long as it said, then it's given back
        and counts as no failure. One that has nothing ends with its connection: it keeps nobody out
        of a subscription that takes one consumer.
"""

import asyncio
from functools import partial

from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.delivery.leased_consumer import LeasedConsumer
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.net.link import Link
from distributary.pipeline.errors import StoreError
from distributary.pipeline.management.management_messages import CONFLICT, Answer
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.registry import AttachAction, LinkKind, decide_attach

_Holding = tuple[SubscriptionKey, str]


class Leases:
    """All holders of a gateway."""

    def __init__(self, parts: ManagementParts) -> None:
        self._loop, self._named = parts.host.loop, parts.named
        self._log, self._delivery = parts.messages.log, parts.messages.delivery
        self._marking, self._finish_pass = parts.messages.marking, parts.finish_pass
        self._most = parts.host.settings.management.holders_max
        self._takers: dict[_Holding, LeasedConsumer] = {}

    def left(self, link: Link) -> None:
        """A link has ended: a holder's end on a subscription, or that by which holders spoke."""
        if isinstance(link, LeasedConsumer):
            self._forget(link)
            return
        for taker in [one for one in self._takers.values() if one.asked_by is link]:
            taker.asked_by = None
            self.flowed(taker)
            if taker.linger_ms and _has_any(taker):
                seconds = taker.linger_ms / 1_000
                lingered = partial(self._lingered, taker)
                taker.timer = self._loop.call_later(seconds, taker.later(lingered))
            else:
                taker.end("", "its connection was lost")

    def close(self) -> None:
        """Nobody comes back any more."""
        for taker in [*self._takers.values()]:
            taker.end("", "the gateway stops")

    def flowed(self, taker: LeasedConsumer) -> None:
        """It takes more, or less."""
        if isinstance(taker.owner, Consumer):
            self._delivery.flowed(taker.owner)

    async def durable(self) -> None:
        """Wait until all that was said by now is durable."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._log.after(lambda: None if done.done() else done.set_result(None))
        self._finish_pass()
        await done

    def speaking(self, link: Link, key: SubscriptionKey, holder: str) -> LeasedConsumer | Answer:
        """The holder, if it speaks by this link."""
        taker = self._takers.get((key, holder))
        if taker is not None and taker.asked_by is link:
            return taker
        text = "has no deliveries by this connection; begin with ACQUIRE and 'keep'"
        return Answer(CONFLICT, f"holder '{holder}' of {key.id} {text}")

    async def begin(
        self, link: Link, key: SubscriptionKey, subscription: Subscription, holder: str
    ) -> LeasedConsumer | Answer:
        """The holder speaks by this link from now on, whether it was there before or not."""
        connection = link.connection
        if key.container is not None and key.container != connection.container:
            text = f"belongs to the container '{key.container}'; open the connection with that id"
            return Answer(CONFLICT, f"{key.id} {text}")
        taker = self._takers.get((key, holder))
        if taker is not None:
            if taker.user != connection.user:
                return Answer(CONFLICT, f"holder '{holder}' of {key.id} is another user's")
            if taker.timer is not None:
                taker.timer.cancel()
                taker.timer = None
            taker.asked_by, taker.connection = link, connection
            await asyncio.shield(taker.sure)
            return taker
        refused = self._refused(key, subscription)
        return refused or await self._join(link, key, subscription, holder)

    def _refused(self, key: SubscriptionKey, subscription: Subscription) -> Answer | None:
        """Why nobody new may take from it, if nobody may."""
        if len(self._takers) >= self._most:
            text = f"there are {self._most} holders already (management.holders_max)"
            return Answer(CONFLICT, f"{key.id}: {text}")
        definition, present = subscription.definition, len(subscription.consumers)
        most = self._named.policy(key).consumers_max
        decision = decide_attach(definition, present, definition, most)
        if decision.action is AttachAction.JOIN:
            return None
        return Answer(CONFLICT, f"{key.id}: {decision.reason}")

    async def _join(
        self, link: Link, key: SubscriptionKey, subscription: Subscription, holder: str
    ) -> LeasedConsumer:
        name = f"{link.connection.container}/{key.name}"
        done: asyncio.Future[None] = self._loop.create_future()
        taker = self._takers[key, holder] = LeasedConsumer(link, holder, name, done)
        kind = LinkKind.QUEUE if key.queue else LinkKind.DURABLE
        taker.owner = self._delivery.attach(subscription, taker, taker.name, kind)

        def sure() -> None:
            if not done.done():
                done.set_result(None)

        try:
            self._marking.joined(subscription, sure)
        except StoreError:
            taker.end("", "")
            raise
        await asyncio.shield(done)
        if not self._named.sure(key):
            await self.durable()
        return taker

    def _lingered(self, taker: LeasedConsumer) -> None:
        taker.timer = None
        taker.end("", "its connection was lost, and it didn't come back in time")
        self._finish_pass()

    def _forget(self, taker: LeasedConsumer) -> None:
        if taker.timer is not None:
            taker.timer.cancel()
            taker.timer = None
        taker.release()
        for holding in [one for one, there in self._takers.items() if there is taker]:
            del self._takers[holding]


def _has_any(taker: LeasedConsumer) -> bool:
    consumer = taker.owner
    if not isinstance(consumer, Consumer):
        return False
    return bool(consumer.subscription.dispatcher.held(consumer.number))
