"""Subscriptions that aren't owed all that is published to their topic: no-local ones (JMS 2.0,
section 8.3.2), and all but one when the gateway publishes for one subscription alone.

The log doesn't know which connection published a message. So the messages that a subscription isn't
owed are settled when they get their sequences; for a durable subscription that is recorded in the
messages' own group, and holds without a consumer and after a restart.
"""

from collections.abc import Iterable

from distributary.ingest.commit.group_log import Inside
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.net.link import Peer
from distributary.ingest.runtime import clock
from distributary.pipeline.model.message import Settlement
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.sequences.sequence_set import Run


class NoLocal:
    """The subscriptions by topic. Implements the log's `NoLocalRule`.

    A durable no-local subscription isn't owed what its container publishes, on whatever connection;
    one without a name isn't owed what its consumer's connection publishes.
    """

    def __init__(self) -> None:
        self._all: dict[str, dict[Subscription, None]] = {}
        self._owners: dict[str, dict[Subscription, str | Peer]] = {}
        #: Browsers, and which subscription each looks at.
        self._views: dict[str, dict[Subscription, SubscriptionKey]] = {}
        #: What those that are watched were found not to be owed since then.
        self._watched: dict[Subscription, list[tuple[Outcome, range]]] = {}

    def watch(self, subscription: Subscription) -> list[tuple[Outcome, range]]:
        """A list to which every run is added that the subscription isn't owed from now on."""
        return self._watched.setdefault(subscription, [])

    def unwatch(self, subscription: Subscription) -> None:
        """Stop adding to that list."""
        self._watched.pop(subscription, None)

    def __contains__(self, topic: str) -> bool:
        return topic in self._owners

    def add(self, subscription: Subscription, connection: Peer | None = None) -> None:
        """Watch it; `connection` is its consumer's if it has no name."""
        topic = subscription.definition.topic
        self._all.setdefault(topic, {})[subscription] = None
        if not subscription.definition.no_local:
            return
        owner = connection if subscription.key is None else subscription.key.container
        assert owner is not None, "a global subscription is nobody's"  # noqa: S101
        self._owners.setdefault(topic, {})[subscription] = owner

    def look(self, view: Subscription, key: SubscriptionKey) -> None:
        """A browser isn't shown what the subscription that it looks at isn't owed."""
        self._views.setdefault(view.definition.topic, {})[view] = key

    def remove(self, subscription: Subscription) -> None:
        """The subscription, or a browser, has ended."""
        topic = subscription.definition.topic
        _drop(self._views, topic, subscription)
        _drop(self._all, topic, subscription)
        _drop(self._owners, topic, subscription)

    def of_topic(self, topic: str) -> Iterable[Subscription]:
        """The subscriptions of a topic, private ones too, but not browsers."""
        return self._all.get(topic, {})

    def topics(self) -> Iterable[str]:
        """The topics with subscriptions."""
        return self._all

    def exclude(self, topic: str, publisher: Peer | Inside, run: range) -> list[Settlement]:
        """This publisher's messages get these sequences: the records of who isn't owed them."""
        views = self._views.get(topic, {}).items()
        if isinstance(publisher, Inside):
            if publisher.only is None:
                return []
            others = [one for one in self._all.get(topic, {}) if one.key != publisher.only]
            others += [view for view, key in views if key != publisher.only]
            return self._excluded(others, run, Outcome.REDRIVEN, "")
        own = (publisher, publisher.container)
        owners = self._owners.get(topic, {}).items()
        local = [subscription for subscription, owner in owners if owner in own]
        local += [view for view, key in views if view.definition.no_local and key.container in own]
        return self._excluded(local, run, Outcome.LOCAL, publisher.container)

    def _excluded(
        self, subscriptions: Iterable[Subscription], run: range, outcome: Outcome, consumer: str
    ) -> list[Settlement]:
        """Tell their dispatchers, and what is to be recorded for those that last."""
        found: list[Settlement] = []
        for subscription in subscriptions:
            if subscription.stream is not None:
                subscription.stream.exclude(run)
                continue
            subscription.dispatcher.exclude(run)
            if subscription in self._watched:
                self._watched[subscription].append((outcome, run))
            if subscription.key is not None and subscription.durable:
                found.append(never_owed(subscription, run, outcome, consumer))
        return found


def _drop(
    of_topics: dict[str, dict[Subscription, None]]
    | dict[str, dict[Subscription, str | Peer]]
    | dict[str, dict[Subscription, SubscriptionKey]],
    topic: str,
    subscription: Subscription,
) -> None:
    members = of_topics.get(topic)
    if members is not None and subscription in members:
        del members[subscription]
        if not members:
            del of_topics[topic]


def never_owed(subscription: Subscription, run: Run, outcome: Outcome, consumer: str) -> Settlement:
    """The record of messages that a durable subscription isn't owed."""
    assert subscription.key is not None  # noqa: S101
    now = clock.now()
    subscription.counts.settle(outcome, len(run))
    return Settlement(
        subscription=subscription.key.id,
        topic=subscription.definition.topic,
        consumer=consumer,
        outcome=outcome,
        final=True,
        delivery_count=0,
        delivered_at=now,
        settled_at=now,
        floor=subscription.dispatcher.floor,
        sequences=(run,),
    )
