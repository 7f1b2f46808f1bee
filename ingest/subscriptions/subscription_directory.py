"""The named subscriptions of one home, and their durable events.

A subscription's beginning, end and changes in between are events in the log.
Rule: a group holds one event of a subscription at most, as their order would be lost; only a
beginning may follow an end.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic

import structlog
from msgspec import structs

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.net.link import Peer
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime.policies import Policies, keeps_dead_letters
from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.log.backlog_counter import NOTHING, Dropped
from distributary.pipeline.log.failures import PossiblyDelivered
from distributary.pipeline.log.message_counts import SubscriptionCounts
from distributary.pipeline.model.address import is_temporary
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.message import SubscriptionRecord
from distributary.pipeline.model.policy import Policy, TopicPolicy
from distributary.pipeline.model.subscription import (
    MADE_BY_CLIENT,
    Definition,
    Made,
    Origin,
    SubscriptionEvent,
    SubscriptionKey,
)
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.subscriptions.attach_intent import not_created
from distributary.pipeline.subscriptions.quota import Census, Quota
from distributary.pipeline.subscriptions.subscription_lifetimes import Lifetimes
from distributary.pipeline.tables.recovery.standpoints import SubscriptionState

_events = structlog.get_logger("gateway")


class SubscriptionDirectory:
    """All subscriptions with a name: durable ones, shared non-durable ones, queues."""

    def __init__(self, parts: MessageParts, policies: Policies, quota: Quota) -> None:
        """Raises InvalidRequest when a subscription has a policy of its own that isn't right."""
        self._log, self._marking, self._policies = parts.log, parts.marking, policies
        self._topics, self._delivery, self._counts = parts.topics, parts.delivery, parts.counts
        snapshot, uncertain = parts.store.snapshot, parts.store.uncertain
        #: Number of subscriptions and queues that clients have made.
        self.census = Census(quota)
        #: The subscriptions' own policies, as text.
        self._own = {state.key: state.policy for state in snapshot.subscriptions if state.policy}
        #: Subscriptions that an operator has paused.
        self._paused = {state.key for state in snapshot.subscriptions if state.paused}
        #: Origin of each subscription.
        self._made = {state.key: state.made for state in snapshot.subscriptions}
        self._all: dict[SubscriptionKey, Subscription] = {
            state.key: self._restored(state, uncertain[state.key.id])
            for state in snapshot.subscriptions
        }
        self.no_local = parts.no_local
        #: Ends of subscriptions that end by themselves.
        self.lifetimes: Lifetimes[Peer] = Lifetimes()
        for key, subscription in self._all.items():
            self.no_local.add(subscription, self._client(key))
            parts.topics.add(subscription)
            self.census.add(key, self._made[key])
            self._apply_lifetime(subscription)
        policies.follow(self._reconsider)
        #: Events of a subscription that aren't durable yet.
        self._unsure: dict[SubscriptionKey, int] = {}

    def get(self, key: SubscriptionKey | None) -> Subscription | None:
        """Return the subscription of this key, if there is one."""
        return None if key is None else self._all.get(key)

    def __contains__(self, key: SubscriptionKey) -> bool:
        return key in self._all

    def all(self) -> Iterable[Subscription]:
        """Return all of these subscriptions."""
        return self._all.values()

    # Policies.

    def policy(self, key: SubscriptionKey, topic: str | None = None) -> Policy:
        """Return the policy in force for the subscription of this key, which need not exist, on
        this topic, by default its own topic."""
        if topic is None:
            topic = self._all[key].definition.topic if key in self._all else ""
        return self._policies.of_subscription(key, topic, self.own_policy(key))

    def attach_policy(self, key: SubscriptionKey) -> Policy:
        """Return the policy for a consumer that attaches: its `redefine` is resolved, never
        `auto`."""
        policy, made = self.policy(key), self._made.get(key, MADE_BY_CLIENT)
        return structs.replace(policy, redefine=policy.redefine.of(made.origin))

    def ends_with_link(self, key: SubscriptionKey | None) -> bool:
        """Whether this subscription, which may be gone, ends with its last link."""
        found = self.get(key)
        return found is not None and found.dispatcher.policy.ends.with_link

    def made(self, key: SubscriptionKey) -> Made:
        """Return how the subscription of this key, which exists, was created."""
        return self._made[key]

    def _client(self, key: SubscriptionKey) -> str | None:
        """Return the user of the client that made it; None if no client did."""
        made = self._made[key]
        return made.user if made.origin is Origin.CLIENT else None

    def is_maker(self, key: SubscriptionKey, user: str) -> bool:
        """Whether a client of this user has made the subscription of this key, which exists."""
        return self._client(key) == user

    def own_policy(self, key: SubscriptionKey) -> str:
        """Return the text of the subscription's own policy; empty if it has none."""
        return self._own.get(key, "")

    def policy_sources(self, key: SubscriptionKey, topic: str) -> dict[str, str]:
        """Return where each key of the policy in force is set that isn't a default."""
        return self._policies.sources(key, topic, self.own_policy(key))

    def topic_policy_sources(self, topic: str) -> dict[str, str]:
        """Return where each key of a topic's or queue's policy is set."""
        return self._policies.topic_sources(topic)

    def check_policy(self, key: SubscriptionKey, text: str) -> None:
        """Check a subscription's own policy. Raises InvalidRequest if it can't have this one."""
        self._policies.check_own(key, text, self.own_policy(key))

    def topic_policy(self, topic: str) -> TopicPolicy:
        """Return the policy of a topic or queue."""
        return self._policies.of_topic(topic)

    def absent(self, topic: str, key: SubscriptionKey | None = None) -> AmqpError | None:
        """Return why a client can't use this topic or queue, or this durable subscription on it:
        it wasn't created. None if it exists or is created on use; a pattern always exists."""
        created = is_pattern(topic) or self._policies.of_topic(topic).create_on_use
        if not created and topic not in self._topics:
            return not_created(topic)
        if key is not None and key.durable and key not in self._all:
            return None if self.policy(key, topic).create_on_use else not_created(key.id)
        return None

    def _reconsider(self) -> None:
        """Apply changed policies to all subscriptions, also those without a name: they have their
        topic's limits. A browser has none."""
        topics = self.no_local.topics()
        for one in [one for topic in topics for one in self.no_local.of_topic(topic)]:
            self._apply_policy(one)
        self._delivery.due()

    def _apply_policy(self, subscription: Subscription) -> None:
        key, topic = subscription.key, subscription.definition.topic
        policy = self._in_force(key, topic)
        keeps = key is not None and keeps_dead_letters(key, topic, policy)
        subscription.dispatcher.follow(policy, dead_letters=keeps)
        self._topics.changed(subscription)
        if subscription.consumers:
            self._delivery.changed(subscription)  # others may have what waits
        self._apply_lifetime(subscription)

    def _in_force(self, key: SubscriptionKey | None, topic: str) -> Policy:
        if key is None:
            return self._policies.of_subscription(None, topic)
        return self.policy(key, topic)

    def _apply_lifetime(self, subscription: Subscription) -> None:
        key = subscription.key
        if key is not None and key.durable and not key.queue:
            expiry, idle = subscription.dispatcher.policy.ends, not subscription.consumers
            self.lifetimes.apply(key, expiry, monotonic(), idle=idle)

    def _new(
        self, key: SubscriptionKey | None, definition: Definition, floor: int | None
    ) -> Subscription:
        """Return a new subscription. It reads its topic's stream if it ends with the process and
        the topic's messages may stay in memory; patterns, no-local and backlog limits need the
        log."""
        topic = definition.topic
        policy = self._in_force(key, topic)
        lasts = (key is not None and key.durable) or definition.no_local or policy.backlog.limits
        storage = self._policies.of_topic(topic).storage
        if not (lasts or is_pattern(topic)) and storage.streams(temporary=is_temporary(topic)):
            stream, index = self._topics.stream(topic)
            dispatcher = Dispatcher(stream.head, policy=policy, priority_index=index)
            return Subscription(key, definition, dispatcher, self._counts_of(key, topic), stream)
        dispatcher = Dispatcher(
            self._log.next_sequence if floor is None else floor,
            policy=policy,
            priority_index=self._topics.priority_index(topic),
            dead_letters=key is not None and keeps_dead_letters(key, topic, policy),
        )
        return Subscription(key, definition, dispatcher, self._counts_of(key, topic))

    def _counts_of(self, key: SubscriptionKey | None, topic: str) -> SubscriptionCounts:
        if key is None:
            return self._counts.unnamed
        return self._counts.of_subscription(key.id, topic)

    def _restored(self, state: SubscriptionState, possible: PossiblyDelivered) -> Subscription:
        """Return a subscription from before the start. A delivery without a known end has
        failed."""
        policy = self.policy(state.key, state.definition.topic)
        dispatcher = Dispatcher(
            state.floor,
            state.settled,
            attempts=Attempts(possible.failures(state.failures), possible.below, state.lost),
            policy=policy,
            priority_index=self._topics.priority_index(state.definition.topic),
            dead_letters=keeps_dead_letters(state.key, state.definition.topic, policy),
        )
        dispatcher.paused = state.key in self._paused
        counts = self._counts.of_subscription(state.key.id, state.definition.topic)
        return Subscription(state.key, state.definition, dispatcher, counts)

    # Events of subscriptions.

    def private(self, definition: Definition) -> Subscription:
        """Return a new subscription without a name: it belongs to its consumer, and nothing of it
        is durable."""
        return self._new(None, definition, None)

    def sure(self, key: SubscriptionKey | None) -> bool:
        """Whether the last event of this subscription is durable."""
        return key not in self._unsure

    def when_sure(self, key: SubscriptionKey, then: Callable[[], None]) -> None:
        """Call `then` when the last event of this subscription is durable, at once if it is.
        There may be a newer event by then."""
        if self.sure(key):
            then()
        else:
            self._log.after(then)

    def define(
        self,
        event: SubscriptionEvent,
        key: SubscriptionKey,
        definition: Definition,
        made: Made = MADE_BY_CLIENT,
        *,
        policy: str | None = None,
        floor: int | None = None,
        dropped: Dropped = NOTHING,
    ) -> Subscription:
        """Create a subscription, or redefine it: its pause, its policy and its origin stay, and
        `dropped` is what it was owed. `made`: user and origin of the change. `policy` is the text
        of its own policy from the beginning on, `floor` the first sequence that it is owed; by
        default that of the next message."""
        before = self._all.get(key)
        if policy:
            self._own[key] = policy
        if before is None:
            self._made[key] = made
            self.census.add(key, made)
        if before is not None:
            self._delivery.end(before)
            self.no_local.remove(before)
        subscription = self._new(key, definition, floor)
        if before is not None:
            subscription.dispatcher.paused = self.paused(key)
        self.no_local.add(subscription, self._client(key))
        self._topics.add(subscription)
        self._all[key] = subscription
        self._apply_lifetime(subscription)
        if key.durable:
            self.record(event, subscription, by=made.user, floor=floor, dropped=dropped)
        return subscription

    def record(
        self,
        event: SubscriptionEvent,
        subscription: Subscription,
        then: Callable[[], None] = lambda: None,
        *,
        by: str,
        floor: int | None = None,
        made: Made | None = None,
        dropped: Dropped = NOTHING,
    ) -> None:
        """Record an event of the subscription. `then` is called when it is durable; until then
        peers aren't told of it. `by` is the user who caused it, "" for the gateway itself.

        The caller has made sure that the last event is durable. `floor` is the first sequence that
        the subscription is owed from now on, by default that of the next message. `dropped` is what
        the event drops. `made` is given for a deleted one.
        """
        key = subscription.key
        assert key is not None, "a private subscription has no events"  # noqa: S101
        self._unsure[key] = self._unsure.get(key, 0) + 1

        def durable() -> None:
            self._unsure[key] -= 1
            if not self._unsure[key]:
                del self._unsure[key]
            if event in (SubscriptionEvent.REWOUND, SubscriptionEvent.PURGED):
                self._marking.renewed(subscription)
                self._topics.changed(subscription)
            then()

        record = SubscriptionRecord(
            event,
            key,
            subscription.definition,
            self._log.next_sequence if floor is None else floor,
            paused=self.paused(key),
            policy=self.own_policy(key),
            made=self._made[key] if made is None else made,
            dropped=dropped.messages,
            by=by,
        )
        self._log.record(record, durable)
        _tell(record, dropped)

    def paused(self, key: SubscriptionKey) -> bool:
        """Whether an operator has paused it. Its dispatcher may stand still for other reasons."""
        return key in self._paused

    def pause(self, subscription: Subscription, *, paused: bool, by: str) -> None:
        """Pause the subscription, or resume it, for this user."""
        key = subscription.key
        assert key is not None  # noqa: S101
        (self._paused.add if paused else self._paused.discard)(key)
        subscription.dispatcher.paused = paused
        event = SubscriptionEvent.PAUSED if paused else SubscriptionEvent.RESUMED
        self.record(event, subscription, by=by)

    def share(self, subscription: Subscription, *, shared: bool, by: str) -> None:
        """Make a subscription without consumers shared, or exclusive; what it is owed stays."""
        subscription.definition = replace(subscription.definition, shared=shared)
        self.record(SubscriptionEvent.CONFIGURED, subscription, by=by)

    def configure(self, subscription: Subscription, policy: str, *, by: str) -> None:
        """Set the text of the subscription's own policy."""
        key = subscription.key
        assert key is not None  # noqa: S101
        if policy:
            self._own[key] = policy
        else:
            self._own.pop(key, None)
        self._apply_policy(subscription)
        self.record(SubscriptionEvent.CONFIGURED, subscription, by=by)

    def delete(
        self,
        subscription: Subscription,
        then: Callable[[], None] = lambda: None,
        *,
        by: str,
        dropped: Dropped = NOTHING,
    ) -> None:
        """Delete the subscription, which was owed the `dropped` messages, for a user; `then` is
        called when that is durable."""
        key = subscription.key
        assert key is not None  # noqa: S101
        made = self._made[key]
        self.drop(key)
        if not key.durable:
            then()
            return

        def deleted() -> None:
            self._marking.deleted(subscription)
            then()

        event = SubscriptionEvent.DELETED
        self.record(event, subscription, deleted, by=by, made=made, dropped=dropped)

    def drop(self, key: SubscriptionKey) -> None:
        """Remove a subscription of which nothing is durable, or whose end the caller records."""
        subscription = self._all.pop(key)
        self._counts.forget(key.id)
        self._delivery.end(subscription)
        self.lifetimes.forget(key)
        self.census.remove(key, self._made.pop(key))
        self._own.pop(key, None)
        self._paused.discard(key)
        self.no_local.remove(subscription)


def _tell(record: SubscriptionRecord, dropped: Dropped) -> None:
    """Write the event's log line: a warning with the number if it dropped messages."""
    said: dict[str, object] = {"subscription": record.key.id, "topic": record.definition.topic}
    if record.by:
        said["by"] = record.by
    if not dropped.messages:
        _events.info(f"subscription.{record.event.value}", **said)
        return
    said["dropped"] = dropped.messages
    if dropped.at_most:
        said["at_most"] = True
    _events.warning(f"subscription.{record.event.value}", **said)
