"""Durable subscriptions that end by themselves: some seconds after their last link, session or
connection, as `pipeline.subscriptions.subscription_lifetimes` decides.

Such an end is durable and in the log like any other, without a user. All methods run on the loop's
thread.
"""

import asyncio
from time import monotonic

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Repeated
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.model.subscription import SubscriptionKey

#: Seconds between two looks at the clocks: how late an end may be.
LOOK_SECONDS = 1.0
#: Ends between two turns of the loop.
ENDS_AT_ONCE = 100


class LifetimeEnds:
    """Ends subscriptions when their time is over, from its making until `close`."""

    def __init__(self, host: Host, parts: MessageParts, directory: SubscriptionDirectory) -> None:
        self._log, self._directory = parts.log, directory
        self._counters = parts.backlogs.counters
        self._lifetimes = directory.lifetimes
        self._looks = Repeated(self._look, host.loop, LOOK_SECONDS, "lifetimes")

    def close(self) -> None:
        """Stop."""
        self._looks.close()

    async def _look(self) -> None:
        ends = ENDS_AT_ONCE
        while ends == ENDS_AT_ONCE:
            ends = self.end_due()
            await asyncio.sleep(0)

    # Events of links, sessions and connections.

    def resumed(self, subscription: Subscription) -> None:
        """Stop the clock of a subscription that a consumer's link has joined."""
        if subscription.durable and subscription.key is not None:
            self._lifetimes.joined(subscription.key)

    def left(self, link: Link, subscription: Subscription) -> None:
        """Start the clock of a subscription that a consumer's link has left, however it ended;
        unless the subscription has ended or was redefined meanwhile."""
        key = subscription.key
        if key is not None and self._directory.get(key) is subscription:
            others = bool(subscription.consumers)
            self._lifetimes.left(key, link.connection, link.session, monotonic(), others=others)

    def session_ended(self, connection: Peer, session: int) -> None:
        """Start clocks of a session that its peer has ended; its links have left."""
        self._lifetimes.session_ended(connection, session, monotonic())
        self.end_due()

    def connection_ended(self, connection: Peer) -> None:
        """Start clocks of a connection that has ended; its links have left. It may be called
        twice."""
        self._lifetimes.connection_ended(connection, monotonic())
        self.end_due()

    # The ends.

    def end_due(self) -> int:
        """End some subscriptions whose time is over; return how many."""
        due = self._lifetimes.due(monotonic(), ENDS_AT_ONCE)
        for key in due:
            self._end(key)
        if due:
            self._log.flush()
        return len(due)

    def end_if_over(self, key: SubscriptionKey) -> None:
        """End this subscription if its time is over, before a client uses it."""
        if self._lifetimes.is_over(key, monotonic()):
            self._end(key)

    def _end(self, key: SubscriptionKey) -> None:
        subscription = self._directory.get(key)
        assert subscription is not None, key  # noqa: S101
        if subscription.consumers or not self._directory.sure(key):
            self._lifetimes.postpone(key, monotonic())
            return
        dropped = self._counters.owed_below(subscription)
        self._directory.delete(subscription, by="", dropped=dropped)
