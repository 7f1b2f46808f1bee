"""Leases: consumers that take sequences and no bytes, each under a holder's name that outlives its
connection.

Rule 1: a client takes up its lease on a connection by naming the sequences that it keeps. Other
        sequences in flight to the lease are released; named ones that are in flight to no consumer
        are delivered to it again.
Rule 2: a lease belongs to the connection on which it was taken up last; requests on another
        connection are refused.
Rule 3: after a lost connection the sequences stay in flight for the time that the client asked for;
        then they are released, which isn't counted as a failed attempt. A lease without sequences
        ends with its connection, so that it doesn't keep other consumers out of an exclusive
        subscription.
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

_LeaseKey = tuple[SubscriptionKey, str]


class Leases:
    """All holders of a gateway."""

    def __init__(self, parts: ManagementParts) -> None:
        self._loop, self._directory = parts.host.loop, parts.directory
        self._log, self._delivery = parts.messages.log, parts.messages.delivery
        self._marking, self._finish_pass = parts.messages.marking, parts.finish_pass
        self._most = parts.host.settings.management.holders_max
        self._leased: dict[_LeaseKey, LeasedConsumer] = {}

    def left(self, link: Link) -> None:
        """A link has ended: a lease itself, or a link by which a client has sent its requests."""
        if isinstance(link, LeasedConsumer):
            self._forget(link)
            return
        for leased in [one for one in self._leased.values() if one.asked_by is link]:
            leased.asked_by = None
            self.flowed(leased)
            if leased.linger_ms and _has_any(leased):
                seconds = leased.linger_ms / 1_000
                lingered = partial(self._lingered, leased)
                leased.timer = self._loop.call_later(seconds, leased.later(lingered))
            else:
                leased.end("", "its connection was lost")

    def close(self) -> None:
        """End all leases: the gateway stops."""
        for leased in [*self._leased.values()]:
            leased.end("", "the gateway stops")

    def flowed(self, leased: LeasedConsumer) -> None:
        """Serve a leased consumer whose credit has changed."""
        if isinstance(leased.owner, Consumer):
            self._delivery.flowed(leased.owner)

    async def durable(self) -> None:
        """Wait until all input given to the log until now is durable."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._log.after(lambda: None if done.done() else done.set_result(None))
        self._finish_pass()
        await done

    def speaking(self, link: Link, key: SubscriptionKey, holder: str) -> LeasedConsumer | Answer:
        """Return the holder's lease, if this link has taken it up; else the answer that refuses the
        request."""
        leased = self._leased.get((key, holder))
        if leased is not None and leased.asked_by is link:
            return leased
        text = "has no deliveries by this connection; begin with ACQUIRE and 'keep'"
        return Answer(CONFLICT, f"holder '{holder}' of {key.id} {text}")

    async def begin(
        self, link: Link, key: SubscriptionKey, subscription: Subscription, holder: str
    ) -> LeasedConsumer | Answer:
        """Take up the lease of this holder by this link, an existing one or a new one; or the
        answer that refuses it. Raises StoreError when the dispatch marks have no space."""
        connection = link.connection
        if key.container is not None and key.container != connection.container:
            text = f"belongs to the container '{key.container}'; open the connection with that id"
            return Answer(CONFLICT, f"{key.id} {text}")
        leased = self._leased.get((key, holder))
        if leased is not None:
            if leased.user != connection.user:
                return Answer(CONFLICT, f"holder '{holder}' of {key.id} is another user's")
            if leased.timer is not None:
                leased.timer.cancel()
                leased.timer = None
            leased.asked_by, leased.connection = link, connection
            await asyncio.shield(leased.sure)
            return leased
        refused = self._refused(key, subscription)
        return refused or await self._join(link, key, subscription, holder)

    def _refused(self, key: SubscriptionKey, subscription: Subscription) -> Answer | None:
        """Return why the subscription can't have one more lease; None if it can."""
        if len(self._leased) >= self._most:
            text = f"there are {self._most} holders already (management.holders_max)"
            return Answer(CONFLICT, f"{key.id}: {text}")
        definition, present = subscription.definition, len(subscription.consumers)
        policy = self._directory.attach_policy(key)
        decision = decide_attach(definition, present, definition, policy)
        if decision.action is AttachAction.JOIN:
            return None
        return Answer(CONFLICT, f"{key.id}: {decision.reason}")

    async def _join(
        self, link: Link, key: SubscriptionKey, subscription: Subscription, holder: str
    ) -> LeasedConsumer:
        name = f"{link.connection.container}/{key.name}"
        done: asyncio.Future[None] = self._loop.create_future()
        leased = self._leased[key, holder] = LeasedConsumer(link, holder, name, done)
        kind = LinkKind.QUEUE if key.queue else LinkKind.DURABLE
        leased.owner = self._delivery.attach(subscription, leased, leased.name, kind)

        def sure() -> None:
            if not done.done():
                done.set_result(None)

        try:
            self._marking.joined(subscription, sure)
        except StoreError:
            leased.end("", "")
            raise
        await asyncio.shield(done)
        if not self._directory.sure(key):
            await self.durable()
        return leased

    def _lingered(self, leased: LeasedConsumer) -> None:
        leased.timer = None
        leased.end("", "its connection was lost, and it didn't come back in time")
        self._finish_pass()

    def _forget(self, leased: LeasedConsumer) -> None:
        if leased.timer is not None:
            leased.timer.cancel()
            leased.timer = None
        leased.release()
        for lease_key in [one for one, there in self._leased.items() if there is leased]:
            del self._leased[lease_key]


def _has_any(leased: LeasedConsumer) -> bool:
    consumer = leased.owner
    if not isinstance(consumer, Consumer):
        return False
    return bool(consumer.subscription.dispatcher.unsettled(consumer.number))
