"""No-local: subscriptions that aren't owed what comes from where they are (JMS 2.0, 8.3.2).

The log doesn't know who published a message. So what a no-local subscription isn't owed is said
when the message gets its sequence, and for a durable one it is recorded in the message's own
group: right also while nobody consumes it, and after a restart.
"""

import time

from ingest.connection import Connection
from ingest.consumer import Subscription
from ingest.log import Inside
from pipeline.message import Settlement
from pipeline.outcome import Outcome


class NoLocal:
    """The no-local subscriptions, by topic. Implements the log's `Exclusion`.

    Whose a subscription is: a durable one is its container's, whatever connection that has now;
    one without a name is its consumer's connection's.
    """

    def __init__(self) -> None:
        self._owners: dict[str, dict[Subscription, str | Connection]] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._owners

    def add(self, subscription: Subscription, connection: Connection | None = None) -> None:
        """Watch it if it is no-local; `connection` is its consumer's if it has no name."""
        if not subscription.definition.no_local:
            return
        owner = connection if subscription.key is None else subscription.key.container
        assert owner is not None, "a global subscription is nobody's"  # noqa: S101
        self._owners.setdefault(subscription.definition.topic, {})[subscription] = owner

    def remove(self, subscription: Subscription) -> None:
        """It is owed nothing any more."""
        topic = subscription.definition.topic
        owners = self._owners.get(topic, {})
        if owners.pop(subscription, None) is not None and not owners:
            del self._owners[topic]

    def exclude(self, topic: str, publisher: Connection | Inside, run: range) -> list[Settlement]:
        """This publisher's messages get these sequences: the records of who isn't owed them."""
        found: list[Settlement] = []
        if isinstance(publisher, Inside):
            return found
        for subscription, owner in self._owners[topic].items():
            if owner not in (publisher, publisher.container):
                continue
            subscription.dispatcher.exclude(run)
            if subscription.key is not None:
                now = time.time_ns() // 1_000
                found.append(
                    Settlement(
                        subscription=subscription.key.id,
                        topic=topic,
                        consumer=publisher.container,
                        outcome=Outcome.LOCAL,
                        final=True,
                        delivery_count=0,
                        delivered_at=now,
                        settled_at=now,
                        floor=subscription.dispatcher.floor,
                        sequences=(run,),
                    )
                )
        return found
