"""The subscriptions of one home, as links join and leave them.

The pure part (`pipeline.subscriptions.registry`) decides what an attach or a detach does; here it
is performed, and no peer is told of a subscription's beginning or end before that is durable.
"""

from functools import partial

import structlog
from msgspec.structs import replace

from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.net import termini
from distributary.ingest.net.link import Link
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.policies import Policies
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.lifetime_ends import LifetimeEnds
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.amqp.relayed_for import CHANGES, MADE
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.message_counts import UNNAMED, SubscriptionCounts
from distributary.pipeline.model.address import Destination
from distributary.pipeline.model.amqp_error import (
    LIMIT_EXCEEDED,
    LOCKED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    AmqpError,
)
from distributary.pipeline.model.outcome import Reason
from distributary.pipeline.model.policy import Backlog
from distributary.pipeline.model.subscription import (
    Definition,
    Made,
    Origin,
    SubscriptionEvent,
    SubscriptionKey,
)
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.subscriptions import attach_intent
from distributary.pipeline.subscriptions.attach_intent import Subscribe
from distributary.pipeline.subscriptions.registry import (
    AttachAction,
    LeaveAction,
    LinkKind,
    decide_attach,
    decide_leave,
    expiry_of,
    key_of_queue,
)
from distributary.pipeline.subscriptions.rights import LinkOperation
from distributary.pipeline.subscriptions.subscription_lifetimes import text_of_expiry

_events = structlog.get_logger("gateway")


#: The condition of each refusal of an attach.
_REFUSED = {
    AttachAction.REFUSE_IN_USE: LOCKED,
    AttachAction.REFUSE_FULL: LIMIT_EXCEEDED,
    AttachAction.REFUSE_FIXED: PRECONDITION_FAILED,
}


class Lookup:
    """A link that only asked for a subscription by name, to end it."""

    __slots__ = ("key",)

    def __init__(self, key: SubscriptionKey) -> None:
        self.key = key


class SubscriptionService:
    """All named subscriptions, and the links that are on them."""

    def __init__(self, host: Host, parts: MessageParts, access: Access, policies: Policies) -> None:
        self._log, self._marking, self._access = parts.log, parts.marking, access
        self._delivery, self._counters = parts.delivery, parts.backlogs.counters
        self.directory = SubscriptionDirectory(parts, policies, host.settings.amqp.quota)
        #: Ends of subscriptions that end by themselves.
        self.ends = LifetimeEnds(host, parts, self.directory)

    def dead_letter_exhausted(self) -> None:
        """Make dead letters of messages that a crash left with too many failed attempts, even if no
        consumer is there: the first act after the start."""
        for subscription in self.directory.all():
            exhausted = subscription.dispatcher.exhausted()
            if exhausted:
                self._delivery.give_up(subscription, exhausted, Reason.EXHAUSTED)

    # A consumer comes.

    def subscribe(self, link: Link, wanted: Subscribe) -> None:
        """Let the link consume, or refuse it."""
        key, definition, selector = wanted.key, wanted.definition, wanted.selector
        if key is None:
            subscription = self.directory.private(definition)
            self.directory.no_local.add(subscription, link.connection.user, link.connection)
            self._join(link, subscription, LinkKind.PRIVATE)
            return
        self.ends.end_if_over(key)
        existing = self.directory.get(key)
        if existing is not None and not self._sees(link, existing):
            taken = self._access.rights.taken(key)
            link.refuse(taken.condition, taken.description)
            return
        decision = decide_attach(
            existing.definition if existing else None,
            len(existing.consumers) if existing else 0,
            definition,
            self.directory.attach_policy(key),
        )
        if decision.reason:
            link.refuse(_REFUSED[decision.action], f"{key.id}: {decision.reason}")
            return
        made = Made(Origin.CLIENT, link.connection.user)
        match decision.action:
            case AttachAction.JOIN:
                assert existing is not None  # noqa: S101
                self._join(link, existing, _kind(key), selector)
            case _ if not self.directory.sure(key):
                # A group holds one event of a subscription at most: their order would be lost.
                again = partial(self._again, link, wanted)
                self._log.after(link.later(again))
            case _ if amqp_error := self._undefined(link, key, definition):
                link.refuse(amqp_error.condition, amqp_error.description)
            case AttachAction.CREATE:
                event, own = SubscriptionEvent.CREATED, text_of_expiry(wanted.expiry)
                created = self.directory.define(event, key, definition, made, policy=own)
                self._join(link, created, _kind(key), selector, made=True)
            case AttachAction.CHANGE_SHARING:
                assert existing is not None  # noqa: S101
                self.directory.share(existing, shared=definition.shared, by=made.user)
                self._join(link, existing, _kind(key), selector)
            case AttachAction.REDEFINE:
                assert existing is not None  # noqa: S101
                redefined = self.directory.define(
                    SubscriptionEvent.REDEFINED,
                    key,
                    definition,
                    made,
                    dropped=self._counters.owed_below(existing),
                )
                self._join(link, redefined, _kind(key), selector)

    def _again(self, link: Link, wanted: Subscribe) -> None:
        if link.alive and not link.ended:
            self.subscribe(link, wanted)

    def _undefined(
        self, link: Link, key: SubscriptionKey, definition: Definition
    ) -> AmqpError | None:
        """Return why this link may not make or change the subscription. A durable one needs
        `create`; to redefine one the user must be allowed to end it, too. A link that keeps it is
        told that it may."""
        if not key.durable:
            return None
        user, topic, current = link.connection.user, definition.topic, self.directory.get(key)
        if current is None:
            amqp_error = self._access.amqp_error(user, LinkOperation.MAKE_DURABLE, topic, key)
            return amqp_error or self.directory.census.amqp_error(key, user)
        former = current.definition.topic
        amqp_error = self._access.amqp_error(user, LinkOperation.REDEFINE, topic, key, former)
        keeps = link.attach.relayed is not None and link.attach.relayed.keeps
        may = AmqpError(CHANGES, f"{key.id} would get another definition")
        return amqp_error or (may if keeps else None)

    def _unended(
        self, link: Link, key: SubscriptionKey, operation: LinkOperation
    ) -> AmqpError | None:
        """Return why this user may not end the durable subscription, if there is one."""
        current = self.directory.get(key)
        if current is None or not key.durable:
            return None
        topic = current.definition.topic
        return self._access.amqp_error(link.connection.user, operation, topic, key)

    def _sees(self, link: Link, subscription: Subscription) -> bool:
        """Whether the link's user may know that the subscription is there."""
        key, user = subscription.key, link.connection.user
        assert key is not None  # noqa: S101
        topic = subscription.definition.topic
        own = is_pattern(topic) and self.directory.is_maker(key, user)
        return own or self._access.rights.sees(user, key, topic)

    def browse(self, link: Link, queue: Destination, selector: str | None) -> None:
        """Let the link browse the queue, once its creation is durable."""
        key = self.keep_queue(queue, Made(Origin.CLIENT, link.connection.user))
        self.directory.when_sure(key, link.later(partial(self._browse, link, key, selector)))

    def browse_subscription(self, link: Link, key: SubscriptionKey, selector: str | None) -> None:
        """Let the link browse a durable subscription, if its user may know of it."""
        found = self.directory.get(key)
        if found is None or not key.durable or not self._sees(link, found):
            link.refuse(NOT_FOUND, f"there is no durable subscription {key.id}")
            return
        user, topic = link.connection.user, found.definition.topic
        amqp_error = self._access.amqp_error(user, LinkOperation.BROWSE, topic, key)
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
            return
        self.directory.when_sure(key, link.later(partial(self._browse, link, key, selector)))

    def _browse(self, link: Link, key: SubscriptionKey, selector: str | None) -> None:
        found = self.directory.get(key)
        if not link.alive or link.ended:
            return
        if found is None:
            link.refuse(NOT_FOUND, f"{key.id} has been deleted")
            return
        view = Subscription(
            None,
            found.definition,
            found.dispatcher.view(),
            SubscriptionCounts(UNNAMED),
            found.stream,
        )
        view.dispatcher.policy = replace(view.dispatcher.policy, backlog=Backlog())
        self.directory.no_local.look(view, key)
        self._join(link, view, LinkKind.BROWSER, selector)
        if isinstance(link.owner, Consumer):
            self._delivery.flowed(link.owner)  # its credit may have come before

    def lacks(self, destination: Destination) -> bool:
        """Whether the destination is a queue that isn't there."""
        return (
            destination.is_queue
            and not destination.is_temporary
            and key_of_queue(destination) not in self.directory
        )

    def keep_queue(self, queue: Destination, made: Made) -> SubscriptionKey:
        """Make the queue if it isn't there: messages from the pending group on are kept for it."""
        key = key_of_queue(queue)
        if key not in self.directory:
            definition = Definition(queue.topic, shared=True)
            self.directory.define(SubscriptionEvent.CREATED, key, definition, made)
        return key

    def drop_queue(self, queue: Destination) -> None:
        """Remove a temporary queue, whose links have ended."""
        assert queue.is_temporary, queue  # noqa: S101
        self.directory.drop(key_of_queue(queue))

    def _join(
        self,
        link: Link,
        subscription: Subscription,
        kind: LinkKind,
        selector: str | None = None,
        *,
        made: bool = False,
    ) -> None:
        """Add the consumer at once; answer its attach when its subscription's event is durable. A
        gateway is told that its link has `made` the subscription."""
        name = f"{link.connection.container}/{link.name}"
        link.owner = self._delivery.attach(subscription, link, name, kind, selector)
        self.ends.resumed(subscription)
        if link.attach.redeliver:
            subscription.dispatcher.redeliver()
            self._delivery.changed(subscription)

        waits = 1 + (not self.directory.sure(subscription.key))

        def answer() -> None:
            nonlocal waits
            waits -= 1
            if not waits and link.alive and not link.ended:
                topic, browser = subscription.definition.topic, kind is LinkKind.BROWSER
                expiry = expiry_of(kind, subscription.dispatcher.policy)
                durable = kind is LinkKind.DURABLE
                more = (MADE,) if made and link.attach.relayed is not None else ()
                termini.echo(
                    link.proton,
                    topic,
                    presettled=browser,
                    expiry=expiry,
                    durable=durable,
                    more=more,
                )
                link.offered_capabilities = attach_intent.offered(topic, outgoing=True)
                link.open()

        if not self.directory.sure(subscription.key):
            self._log.after(link.later(answer))
        if not subscription.durable:
            answer()
            return
        try:
            self._marking.joined(subscription, link.later(answer))
        except StoreError as error:
            link.refuse("amqp:resource-limit-exceeded", str(error))

    def look_up(self, link: Link, key: SubscriptionKey) -> None:
        """Answer the link with the durable subscription, or refuse it if there is none."""
        self.ends.end_if_over(key)
        subscription = self.directory.get(key)
        if subscription is None or not self._sees(link, subscription):
            link.refuse(NOT_FOUND, f"there is no durable subscription {key.id}")
            return
        if (amqp_error := self._unended(link, key, LinkOperation.LOOK_UP)) is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
            return
        link.owner = Lookup(key)
        definition, expiry = subscription.definition, subscription.dispatcher.policy.ends
        termini.found(link.proton, definition, expiry, global_=key.container is None)
        topic = definition.topic
        link.offered_capabilities = attach_intent.offered(topic, outgoing=True)
        link.open()

    # A link goes.

    def release(self, link: Link) -> None:
        """End the link's consumer; the messages that it held are given back."""
        if isinstance(link.owner, Consumer):
            subscription, gone = link.owner.subscription, link.owner.left
            self._delivery.detach(link.owner)
            self._marking.left(subscription)
            if not gone:
                self.ends.left(link, subscription)
            if subscription.key is None:
                self.directory.no_local.remove(subscription)

    def leave(self, link: Link, closed: bool) -> None:
        """Answer the detach, when its effect on the subscription is durable."""
        self.release(link)
        if not link.alive:
            return
        match link.owner:
            case Consumer(subscription=subscription, kind=kind):
                key = subscription.key
            case Lookup(key=key):
                kind = LinkKind.LOOKUP
            case _:
                link.detach(closed=closed)
                return
        if kind is LinkKind.DURABLE and self.directory.ends_with_link(key):
            kind = LinkKind.EXPIRING
        if (closed or kind is LinkKind.EXPIRING) and not self.directory.sure(key):
            self._log.after(link.later(partial(self.leave, link, closed)))  # as in subscribe
            return
        current = self.directory.get(key)
        others = len(current.consumers) if current is not None else 0
        decision = decide_leave(kind, closed, others)
        if decision.action is LeaveAction.REFUSE_IN_USE:
            link.detach(closed=True, condition=LOCKED, description=decision.reason)
        elif decision.action is LeaveAction.KEEP or key is None or current is None:
            link.detach(closed=closed)
        elif closed and (amqp_error := self._unended(link, key, LinkOperation.END_DURABLE)):
            link.detach(
                closed=True, condition=amqp_error.condition, description=amqp_error.description
            )
        else:
            dropped = self._counters.owed_below(current)
            detached = link.later(partial(_detach, link, closed))
            by = link.connection.user if closed else ""
            self.directory.delete(current, detached, by=by, dropped=dropped)

    def lost(self, link: Link) -> None:
        """Release a link that ended without a detach, or whose peer can't read an answer."""
        self.release(link)
        owner = link.owner
        if isinstance(owner, Consumer) and owner.kind is LinkKind.VOLATILE:
            key = owner.subscription.key
            if key is not None and key in self.directory and not owner.subscription.consumers:
                self.directory.drop(key)
        self.ends.end_due()


def _kind(key: SubscriptionKey) -> LinkKind:
    if key.queue:
        return LinkKind.QUEUE
    return LinkKind.DURABLE if key.durable else LinkKind.VOLATILE


def _detach(link: Link, closed: bool) -> None:
    if link.alive:
        link.detach(closed=closed)
