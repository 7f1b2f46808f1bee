"""Subscriptions that aren't owed all messages of their topic: no-local ones (JMS 2.0, section
8.3.2), patterns whose maker may not consume from the topic, and all but one when the gateway
publishes for one subscription alone.

The log doesn't know which connection published a message. So the messages that a subscription isn't
owed are settled when they get their sequences; for a durable subscription that is recorded in the
messages' own group, and holds without a consumer and after a restart.
"""

from collections.abc import Callable, Iterable, Sequence

from distributary.ingest.commit.pending_group import Inside, Publisher
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.net.link import Peer
from distributary.ingest.runtime import clock
from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.model.message import Settlement
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.permission import Action, Permissions

#: Most topics whose forbidden subscriptions are cached.
_TOPICS_MAX = 100_000


class NoLocal:
    """The subscriptions by topic. Implements the log's `NoLocalRule`.

    A durable no-local subscription isn't owed messages that its container publishes, on whatever
    connection; one without a name isn't owed those of its consumer's connection. A subscription of
    a pattern that a client has made isn't owed the messages of topics from which this client's user
    may not consume, by the permissions at the time when a message gets its sequence.
    """

    def __init__(self, patterns: PatternIndex, permissions: Callable[[], Permissions]) -> None:
        self._patterns, self._permissions = patterns, permissions
        #: The users whose rights apply to subscriptions of patterns that clients have made.
        self._users: dict[Subscription, str] = {}
        #: By topic: subscriptions of patterns that aren't owed its messages by `_forbidden_by`.
        self._forbidden: dict[str, Sequence[Subscription]] = {}
        self._forbidden_by: Permissions | None = None
        self._all: dict[str, dict[Subscription, None]] = {}
        self._owners: dict[str, dict[Subscription, str | Peer]] = {}
        #: Browsers, and the subscription at which each looks.
        self._views: dict[str, dict[Subscription, SubscriptionKey]] = {}
        #: Runs that watched subscriptions weren't owed, since they are watched.
        self._watched: dict[Subscription, list[tuple[Outcome, range]]] = {}

    def watch(self, subscription: Subscription) -> list[tuple[Outcome, range]]:
        """Return a list that gets each run that the subscription isn't owed, from now on."""
        return self._watched.setdefault(subscription, [])

    def unwatch(self, subscription: Subscription) -> None:
        """Stop adding to that list."""
        self._watched.pop(subscription, None)

    def __contains__(self, topic: str) -> bool:
        if topic in self._owners:
            return True
        if not self._patterns.claims:
            return False
        patterns = self._patterns.of(topic)
        return bool(patterns) and (
            any(pattern in self._owners for pattern in patterns) or bool(self._closed_to(topic))
        )

    def add(
        self, subscription: Subscription, user: str | None = None, connection: Peer | None = None
    ) -> None:
        """Add a subscription. `user` is the user of the client that has made it; `connection` is
        its consumer's, if the subscription has no name."""
        topic = subscription.definition.topic
        self._all.setdefault(topic, {})[subscription] = None
        if is_pattern(topic):
            self._forbidden.clear()
            if user is not None:
                self._users[subscription] = user
        if not subscription.definition.no_local:
            return
        owner: str | Peer | None = connection and connection.client
        if subscription.key is not None:
            owner = subscription.key.container
        assert owner is not None, "a global subscription has no owner"  # noqa: S101
        self._owners.setdefault(topic, {})[subscription] = owner

    def look(self, view: Subscription, key: SubscriptionKey) -> None:
        """Hide from a browser the messages that the subscription at which it looks isn't owed."""
        self._views.setdefault(view.definition.topic, {})[view] = key

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription or a browser that has ended."""
        topic = subscription.definition.topic
        if self._users.pop(subscription, None) is not None:
            self._forbidden.clear()
        _drop(self._views, topic, subscription)
        _drop(self._all, topic, subscription)
        _drop(self._owners, topic, subscription)

    def of_topic(self, topic: str) -> Iterable[Subscription]:
        """Return the subscriptions of a topic or pattern, also private ones, but not browsers."""
        return self._all.get(topic, {})

    def topics(self) -> Iterable[str]:
        """Return the topics and patterns with subscriptions."""
        return self._all

    def exclude(self, topic: str, publisher: Publisher, run: range) -> list[Settlement]:
        """Return settlements for the subscriptions that aren't owed this publisher's messages,
        which get the sequences of `run`."""
        views = [pair for word in self._words(topic) for pair in self._views.get(word, {}).items()]
        if isinstance(publisher, Inside):
            if publisher.only is None:
                return []
            there = (one for word in self._words(topic) for one in self._all.get(word, ()))
            others = [one for one in there if one.key != publisher.only]
            others += [view for view, key in views if key != publisher.only]
            return self._excluded(others, run, Outcome.REDRIVEN, "")
        own = (publisher.client, publisher.container)
        owners = (
            pair for word in self._words(topic) for pair in self._owners.get(word, {}).items()
        )
        local = [subscription for subscription, owner in owners if owner in own]
        local += [view for view, key in views if view.definition.no_local and key.container in own]
        found = self._excluded(local, run, Outcome.LOCAL, publisher.container)
        closed = [one for one in self._closed_to(topic) if one not in local]
        return found + self._excluded(closed, run, Outcome.FORBIDDEN, "")

    def _words(self, topic: str) -> tuple[str, ...]:
        """Return the topic and its patterns: keys of the subscriptions that may be owed its
        messages."""
        return (topic, *self._patterns.of(topic))

    def _closed_to(self, topic: str) -> Sequence[Subscription]:
        """Return the subscriptions of patterns that aren't owed the topic's messages."""
        permissions = self._permissions()
        if permissions.grants is None or not self._users:
            return ()
        if permissions is not self._forbidden_by or len(self._forbidden) >= _TOPICS_MAX:
            self._forbidden.clear()
            self._forbidden_by = permissions
        found = self._forbidden.get(topic)
        if found is None:
            there = (one for word in self._patterns.of(topic) for one in self._all.get(word, ()))
            found = self._forbidden[topic] = [
                one
                for one in there
                if one in self._users
                and not permissions.allow(self._users[one], Action.CONSUME, topic)
            ]
        return found

    def _excluded(
        self, subscriptions: Iterable[Subscription], run: range, outcome: Outcome, consumer: str
    ) -> list[Settlement]:
        """Exclude a run from these subscriptions' dispatchers or streams; return the settlements to
        record for durable ones."""
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
    """Return the record of messages that a durable subscription isn't owed."""
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
