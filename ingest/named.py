"""The named subscriptions of one home, and what of their life is durable.

A subscription's beginning, its end and what is changed of it in between are events in the log.
Rule: a group holds one event of a subscription, no more, as their order would be lost; only a
beginning may follow an end.
"""

from collections.abc import Callable, Iterable, Mapping

import structlog

from ingest.claims import Claims
from ingest.consumer import Subscription
from ingest.exclusion import Exclusions
from ingest.log import Log
from ingest.marking import Marking
from ingest.policies import Policies, buries
from pipeline.cursor import Doubt
from pipeline.dispatch import Dispatcher
from pipeline.message import SubscriptionRecord
from pipeline.policy import Policy, TopicPolicy
from pipeline.subscription import Definition, SubscriptionEvent, SubscriptionKey
from pipeline.tables.snapshot import Snapshot, SubscriptionState

_events = structlog.get_logger("gateway")


class Named:
    """All subscriptions that have a name: durable ones, shared ones that aren't, queues."""

    def __init__(
        self,
        log: Log,
        marking: Marking,
        snapshot: Snapshot,
        doubts: Mapping[str, Doubt],
        policies: Policies,
        claims: Claims,
    ) -> None:
        """Raises InvalidRequest when a subscription has a policy of its own that isn't right."""
        self._log, self._marking, self._policies = log, marking, policies
        self._claims = claims
        #: Told of each that is owed nothing any more.
        self.gone: Callable[[Subscription], None] = lambda _subscription: None
        #: What those say of their policy that say anything.
        self._own = {state.key: state.policy for state in snapshot.subscriptions if state.policy}
        #: Those that an operator has paused.
        self._paused = {state.key for state in snapshot.subscriptions if state.paused}
        self._all: dict[SubscriptionKey, Subscription] = {
            state.key: self._restored(state, doubts[state.key.id])
            for state in snapshot.subscriptions
        }
        self.exclusions = log.exclusion = Exclusions()
        for subscription in self._all.values():
            self.exclusions.add(subscription)
            claims.add(subscription)
        policies.follow(self._reconsider)
        #: How many events of a subscription aren't durable yet.
        self._unsure: dict[SubscriptionKey, int] = {}

    def get(self, key: SubscriptionKey | None) -> Subscription | None:
        """The subscription of this key, if there is one."""
        return None if key is None else self._all.get(key)

    def __contains__(self, key: SubscriptionKey) -> bool:
        return key in self._all

    def all(self) -> Iterable[Subscription]:
        """Every one of them."""
        return self._all.values()

    def lowest_floor(self) -> int:
        """The first sequence that any durable subscription may be owed."""
        durable = (s for s in self._all.values() if s.durable)
        return min((s.dispatcher.floor for s in durable), default=self._log.next_sequence)

    # Policies.

    def policy(self, key: SubscriptionKey, topic: str | None = None) -> Policy:
        """The policy in force for the subscription of this key, whether there is one or not, on
        this topic or that which it has."""
        if topic is None:
            topic = self._all[key].definition.topic if key in self._all else ""
        return self._policies.of_subscription(key, topic, self.own_policy(key))

    def own_policy(self, key: SubscriptionKey) -> str:
        """What the subscription says of its policy, as text; empty if it says nothing."""
        return self._own.get(key, "")

    def check_policy(self, key: SubscriptionKey, text: str) -> None:
        """Raises InvalidRequest when this subscription can't say this of its policy."""
        self._policies.check_own(key, text)

    def topic_policy(self, topic: str) -> TopicPolicy:
        """What holds for all that is published to a topic or queue."""
        return self._policies.of_topic(topic)

    def _reconsider(self) -> None:
        """The policies have changed."""
        for key in self._all:
            self._apply_policy(key)

    def _apply_policy(self, key: SubscriptionKey) -> None:
        subscription = self._all[key]
        subscription.dispatcher.policy = self.policy(key)
        self._claims.changed(subscription)

    def _dispatcher(
        self, key: SubscriptionKey, definition: Definition, floor: int | None
    ) -> Dispatcher:
        policy = self.policy(key, definition.topic)
        return Dispatcher(
            self._log.next_sequence if floor is None else floor,
            policy=policy,
            agenda=self._claims.agenda(definition.topic),
            buries=buries(key, definition.topic, policy),
        )

    def _restored(self, state: SubscriptionState, doubt: Doubt) -> Subscription:
        """One from before the start. A delivery of which nobody knows how it ended has failed."""
        policy = self.policy(state.key, state.definition.topic)
        dispatcher = Dispatcher(
            state.floor,
            state.settled,
            failures=doubt.failures(state.failures),
            doubtful_below=doubt.below,
            policy=policy,
            agenda=self._claims.agenda(state.definition.topic),
            buries=buries(state.key, state.definition.topic, policy),
        )
        dispatcher.paused = state.key in self._paused
        return Subscription(state.key, state.definition, dispatcher)

    # Their life.

    def private(self, definition: Definition) -> Subscription:
        """One without a name: it is its consumer's, and nothing of it is durable."""
        policy = self._policies.of_subscription(None, definition.topic)
        agenda = self._claims.agenda(definition.topic)
        dispatcher = Dispatcher(self._log.next_sequence, policy=policy, agenda=agenda)
        return Subscription(None, definition, dispatcher)

    def sure(self, key: SubscriptionKey | None) -> bool:
        """Whether all that was said of this subscription is durable."""
        return key not in self._unsure

    def when_sure(self, key: SubscriptionKey, then: Callable[[], None]) -> None:
        """Call `then` when all that was said of this subscription is durable, at once if it is.
        By then somebody else may have said more."""
        if self.sure(key):
            then()
        else:
            self._log.after(then)

    def define(
        self,
        event: SubscriptionEvent,
        key: SubscriptionKey,
        definition: Definition,
        *,
        policy: str | None = None,
        floor: int | None = None,
    ) -> Subscription:
        """A subscription begins, or begins anew with another definition: then what operators have
        said of it (a pause, a policy) stays. `policy` is one of its own from the beginning on,
        `floor` the first sequence that it is owed, unless that is what waits now."""
        before = self._all.get(key)
        if policy:
            self._own[key] = policy
        subscription = Subscription(key, definition, self._dispatcher(key, definition, floor))
        if before is not None:
            subscription.dispatcher.paused = self.paused(key)
            self.gone(before)
            self.exclusions.remove(before)
        self.exclusions.add(subscription)
        self._claims.add(subscription)
        self._all[key] = subscription
        if key.durable:
            self.remember(event, subscription, floor=floor)
        return subscription

    def remember(
        self,
        event: SubscriptionEvent,
        subscription: Subscription,
        then: Callable[[], None] = lambda: None,
        *,
        floor: int | None = None,
    ) -> None:
        """Record the event; `then` is called when it is durable, until then nobody is told of it.

        The caller has made sure that the last one is durable. `floor` is the first sequence that
        the subscription is owed from now on, unless that is what waits now.
        """
        key = subscription.key
        assert key is not None, "a private subscription is nobody's business"  # noqa: S101
        self._unsure[key] = self._unsure.get(key, 0) + 1

        def durable() -> None:
            self._unsure[key] -= 1
            if not self._unsure[key]:
                del self._unsure[key]
            if event in (SubscriptionEvent.REWOUND, SubscriptionEvent.PURGED):
                self._marking.moved(subscription)
                self._claims.changed(subscription)
            then()

        record = SubscriptionRecord(
            event,
            key,
            subscription.definition,
            self._log.next_sequence if floor is None else floor,
            paused=self.paused(key),
            policy=self.own_policy(key),
        )
        self._log.record(record, durable)
        topic = subscription.definition.topic
        _events.info(f"subscription.{event.value}", subscription=key.id, topic=topic)

    def paused(self, key: SubscriptionKey) -> bool:
        """Whether an operator has paused it. Its dispatcher may stand still for other reasons."""
        return key in self._paused

    def pause(self, subscription: Subscription, *, paused: bool) -> None:
        """From now on it is paused, or is no more."""
        key = subscription.key
        assert key is not None  # noqa: S101
        (self._paused.add if paused else self._paused.discard)(key)
        subscription.dispatcher.paused = paused
        event = SubscriptionEvent.PAUSED if paused else SubscriptionEvent.RESUMED
        self.remember(event, subscription)

    def configure(self, subscription: Subscription, policy: str) -> None:
        """From now on it says this of its policy."""
        key = subscription.key
        assert key is not None  # noqa: S101
        if policy:
            self._own[key] = policy
        else:
            self._own.pop(key, None)
        self._apply_policy(key)
        self.remember(SubscriptionEvent.CONFIGURED, subscription)

    def delete(self, subscription: Subscription, then: Callable[[], None] = lambda: None) -> None:
        """It is no more; `then` is called when that is durable."""
        key = subscription.key
        assert key is not None  # noqa: S101
        self.drop(key)
        if not key.durable:
            then()
            return

        def deleted() -> None:
            self._marking.deleted(subscription)
            then()

        self.remember(SubscriptionEvent.DELETED, subscription, deleted)

    def drop(self, key: SubscriptionKey) -> None:
        """It is no more, and nothing of it was durable, or that is recorded by the caller."""
        subscription = self._all.pop(key)
        self.gone(subscription)
        self._own.pop(key, None)
        self._paused.discard(key)
        self.exclusions.remove(subscription)
