"""The gateway: what peers ask for, brought together with the log and the subscriptions.

Implements the engine's `Handler`. The durable steps are the log's; who gets what is decided by the
pure part (`pipeline`); here is only what must happen for each frame that matters.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from ingest import links, relay
from ingest.delivery import Consumer, DeliveryService, Subscription
from ingest.engine import Connection, Engine
from ingest.link import Link
from ingest.log import Log, Receipt
from ingest.marking import Marking
from ingest.pump import Outcomes, Received
from ingest.settings import Settings
from ingest.users import Users
from pipeline.cursor import Doubt
from pipeline.dispatch import Dispatcher
from pipeline.errors import StoreError
from pipeline.registry import (
    AttachAction,
    LeaveAction,
    LinkKind,
    decide_attach,
    decide_leave,
)
from pipeline.subscription import Definition, SubscriptionEvent, SubscriptionKey
from pipeline.tables.snapshot import Snapshot, SubscriptionState

_events = structlog.get_logger("gateway")


class Producer:
    """An incoming link: messages for one topic, or (None) each for its own."""

    __slots__ = ("topic",)

    def __init__(self, topic: str | None) -> None:
        self.topic = topic


class Lookup:
    """A link that only asked for a subscription by name, to end it."""

    __slots__ = ("key",)

    def __init__(self, key: SubscriptionKey) -> None:
        self.key = key


class Gateway:
    """All peers of one home."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        log: Log,
        snapshot: Snapshot,
        doubts: Mapping[str, Doubt],
        marking: Marking,
        users: Users | None,
    ) -> None:
        self._loop, self._settings, self._log, self._users = loop, settings, log, users
        self._containers: dict[str, Connection] = {}
        self._subscriptions: dict[SubscriptionKey, Subscription] = {
            state.key: _subscription(state, doubts[state.key.id])
            for state in snapshot.subscriptions
        }
        self._marking = marking
        #: Subscriptions whose last record isn't durable yet.
        self._unsure: dict[SubscriptionKey, int] = {}
        self._delivery: DeliveryService
        self.engine: Engine

    def bind(self, engine: Engine, delivery: DeliveryService) -> None:
        """The two that know this one, and that it must know."""
        self.engine, self._delivery = engine, delivery
        self._marking.passed = self._marked
        self._log.lowest_floor = self._lowest_floor

    def _lowest_floor(self) -> int:
        """The first sequence that any durable subscription may be owed."""
        durable = (s for s in self._subscriptions.values() if s.durable)
        return min((s.dispatcher.floor for s in durable), default=self._log.next_sequence)

    # Connections.

    def verify(self, connection: Connection, user: str, password: str) -> None:
        users = self._users
        if users is None:
            connection.verified(True)
            return
        # scrypt takes long on purpose, and leaves the interpreter alone while it does.
        job = self._loop.run_in_executor(None, users.verify, user, password)
        job.add_done_callback(lambda done: connection.verified(done.result()))

    def opened(self, connection: Connection) -> None:
        name = self._settings.gateway.container_id
        container = connection.container
        if container and container in self._containers:
            connection.refuse(
                name,
                "amqp:invalid-field",
                f"container-id '{container}' is in use by another connection",
                "container-id",
            )
            return
        if container:
            self._containers[container] = connection
        connection.accept(name)
        _events.debug("connection.opened", container=container, peer=connection.peer)

    def closed(self, connection: Connection) -> None:
        if self._containers.get(connection.container) is connection:
            del self._containers[connection.container]
            _events.debug("connection.closed", container=connection.container)

    def failed(self, connection: Connection, reason: str) -> None:
        _events.warning(
            "connection.failed",
            peer=connection.peer,
            container=connection.container,
            reason=reason,
        )

    def writable(self, connection: Connection, writable: bool) -> None:
        for link in connection.inbound.links:
            if isinstance(link.owner, Consumer):
                self._delivery.flowed(link.owner)
        if writable:
            self.passed()

    def passed(self) -> None:
        self._delivery.run()
        self._log.kick()

    # Links.

    def attached(self, link: Link) -> None:
        attach = links.read(link.proton)
        wish = links.wish(attach, link.connection.container)
        match wish:
            case links.Produce(topic):
                self._open_producer(link, topic)
            case links.Relay():
                self._open_producer(link, None)
            case links.Subscribe(key, definition):
                self._subscribe(link, key, definition)
            case links.Lookup(key):
                self._look_up(link, key)
            case links.Refusal(condition, description):
                link.refuse(condition, description)

    def _open_producer(self, link: Link, topic: str | None) -> None:
        link.owner = Producer(topic)
        links.echo(link.proton, self._settings.amqp.message_bytes_max)
        link.open()
        link.grant(self._settings.amqp.producer_credit)

    def _subscribe(self, link: Link, key: SubscriptionKey | None, definition: Definition) -> None:
        if key is None:
            subscription = Subscription(None, definition, Dispatcher(self._log.next_sequence))
            self._join(link, subscription, LinkKind.PRIVATE)
            return
        existing = self._subscriptions.get(key)
        decision = decide_attach(
            existing.definition if existing else None,
            len(existing.consumers) if existing else 0,
            definition,
        )
        kind = LinkKind.DURABLE if key.durable else LinkKind.VOLATILE
        match decision.action:
            case AttachAction.REFUSE_IN_USE:
                link.refuse("amqp:resource-locked", f"{key.id}: {decision.reason}")
            case AttachAction.JOIN:
                assert existing is not None  # noqa: S101
                self._join(link, existing, kind)
            case AttachAction.CREATE | AttachAction.REDEFINE if key in self._unsure:
                # A group holds one event of a subscription, no more: their order would be lost.
                self._log.after(partial(self._subscribe_again, link, key, definition))
            case AttachAction.CREATE | AttachAction.REDEFINE:
                event = (
                    SubscriptionEvent.CREATED
                    if decision.action is AttachAction.CREATE
                    else SubscriptionEvent.REDEFINED
                )
                self._join(link, self._define(event, key, definition), kind)

    def _subscribe_again(self, link: Link, key: SubscriptionKey, definition: Definition) -> None:
        if link.alive and not link.ended:
            self._subscribe(link, key, definition)

    def _define(
        self, event: SubscriptionEvent, key: SubscriptionKey, definition: Definition
    ) -> Subscription:
        subscription = Subscription(key, definition, Dispatcher(self._log.next_sequence))
        self._subscriptions[key] = subscription
        if key.durable:
            self._remember(event, key, definition, lambda: None)
            _events.info(f"subscription.{event.value}", subscription=key.id, topic=definition.topic)
        return subscription

    def _remember(
        self,
        event: SubscriptionEvent,
        key: SubscriptionKey,
        definition: Definition,
        then: Callable[[], None],
    ) -> None:
        """Record the event; until it is durable nobody is told that the subscription is so."""
        self._unsure[key] = self._unsure.get(key, 0) + 1

        def durable() -> None:
            self._unsure[key] -= 1
            if not self._unsure[key]:
                del self._unsure[key]
            then()

        self._log.record(event, key, definition, durable)

    def _join(self, link: Link, subscription: Subscription, kind: LinkKind) -> None:
        """The consumer counts at once; its attach is answered when what it rests on is durable."""
        name = f"{link.connection.container}/{link.name}"
        link.owner = self._delivery.attach(subscription, link, name, kind)

        waits = 1 + (subscription.key in self._unsure)

        def answer() -> None:
            nonlocal waits
            waits -= 1
            if not waits and link.alive and not link.ended:
                links.echo(link.proton)
                link.open()

        if subscription.key in self._unsure:
            self._log.after(answer)
        if not subscription.durable:
            answer()
            return
        try:
            self._marking.joined(subscription, answer)
        except StoreError as error:
            self._release(link)
            link.refuse("amqp:resource-limit-exceeded", str(error))

    def _marked(self) -> None:
        self.passed()
        self.engine.flush()

    def _look_up(self, link: Link, key: SubscriptionKey) -> None:
        subscription = self._subscriptions.get(key)
        if subscription is None:
            link.refuse("amqp:not-found", f"there is no durable subscription {key.id}")
            return
        link.owner = Lookup(key)
        links.found(link.proton, subscription.definition, global_=key.container is None)
        link.open()

    def detached(self, link: Link, closed: bool) -> None:
        if link.waiting:
            # The peer hears of every outcome before it hears the end of its link.
            self._release(link)
            link.when_answered = partial(self._leave, link, closed)
        else:
            self._leave(link, closed)

    def _release(self, link: Link) -> None:
        if isinstance(link.owner, Consumer):
            self._delivery.detach(link.owner)
            self._marking.left(link.owner.subscription)

    def _leave(self, link: Link, closed: bool) -> None:
        """Answer the detach, after what it means for the subscription is durable."""
        self._release(link)
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
        if closed and key in self._unsure:
            self._log.after(partial(self._leave, link, closed))  # as in _subscribe
            return
        current = self._subscriptions.get(key) if key is not None else None
        others = len(current.consumers) if current is not None else 0
        decision = decide_leave(kind, closed, others)
        if decision.action is LeaveAction.REFUSE_IN_USE:
            link.detach(closed=True, condition="amqp:resource-locked", description=decision.reason)
        elif decision.action is LeaveAction.KEEP or key is None or current is None:
            link.detach(closed=closed)
        else:
            self._delete(key, current, partial(_detach, link, closed))

    def _delete(
        self, key: SubscriptionKey, subscription: Subscription, then: Callable[[], None]
    ) -> None:
        del self._subscriptions[key]
        if not key.durable:
            then()
            return
        definition = subscription.definition

        def deleted() -> None:
            self._marking.deleted(subscription)
            then()

        self._remember(SubscriptionEvent.DELETED, key, definition, deleted)
        _events.info("subscription.deleted", subscription=key.id, topic=definition.topic)

    def lost(self, link: Link) -> None:
        """No detach came, or nobody would read our answer to it."""
        self._release(link)
        owner = link.owner
        if isinstance(owner, Consumer) and owner.kind is LinkKind.VOLATILE:
            key = owner.subscription.key
            if key is not None and not owner.subscription.consumers:
                self._subscriptions.pop(key, None)

    # Messages.

    def received(self, link: Link, received: Received) -> None:
        owner = link.owner
        assert isinstance(owner, Producer)  # noqa: S101
        receipt = Receipt(link, received.deliveries, received.kept, received.count)
        if owner.topic is not None:
            self._log.publish(received.run(owner.topic), receipt)
            return
        runs, receipt, complaints = relay.route(received, receipt)
        for last, run in enumerate(runs, start=1 - len(runs)):
            # All of them lie in one group, so the receipt of the whole goes with the last.
            self._log.publish(run, receipt if not last else Receipt(link, b"", 0, 0))
        for complaint in complaints:
            relay.reject(link, complaint)

    def settled(self, link: Link, outcomes: Outcomes) -> None:
        if isinstance(link.owner, Consumer):
            self._delivery.settled(link.owner, outcomes)

    def flowed(self, link: Link) -> None:
        if isinstance(link.owner, Consumer):
            self._delivery.flowed(link.owner)


def _subscription(state: SubscriptionState, doubt: Doubt) -> Subscription:
    """One from before the start. A delivery of which nobody knows how it ended counts as failed."""
    dispatcher = Dispatcher(
        state.floor,
        state.settled,
        failures=doubt.failures(state.failures),
        doubtful_below=doubt.below,
    )
    return Subscription(state.key, state.definition, dispatcher)


def _detach(link: Link, closed: bool) -> None:
    if link.alive:
        link.detach(closed=closed)
