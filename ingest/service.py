"""The gateway: what peers ask for, brought together with the log and the subscriptions.

Implements the engine's `Handler`. The durable steps are the log's; who gets what is decided by the
pure part (`pipeline`); here is only what must happen for each frame that matters.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import assert_never

import structlog

from ingest import termini
from ingest.admission import Admission
from ingest.backlogs import Backlogs
from ingest.claims import Claims
from ingest.connection import Connection
from ingest.consumer import Consumer
from ingest.coordinator import Coordinator
from ingest.delivery import DeliveryService
from ingest.engine import Engine
from ingest.intake import Intake
from ingest.link import Link
from ingest.log import Log
from ingest.management.node import Node, RequestLink
from ingest.management.opening import open_node
from ingest.management.peers import Peers
from ingest.management.replies import ReplyLink
from ingest.management.taking import open_taking
from ingest.marking import Marking
from ingest.named import Named
from ingest.policies import Policies
from ingest.producer import Producer
from ingest.pump import Outcomes, Received
from ingest.retiring import Retiring
from ingest.security.access import Access
from ingest.settings import Settings
from ingest.subscriptions import Subscriptions
from ingest.temporary import Temporary
from pipeline import wishes
from pipeline.address import Destination, Kind, destination_of
from pipeline.cursor import Doubt
from pipeline.refusal import INVALID_FIELD, Refusal
from pipeline.subscription import Made, Origin, SubscriptionKey
from pipeline.subscriptions.rights import LinkOperation
from pipeline.tables.snapshot import Snapshot
from pipeline.tables.topic_log import TopicLog
from pipeline.transaction import unknown

_events = structlog.get_logger("gateway")


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
        access: Access,
        policies: Policies,
        claims: Claims,
    ) -> None:
        self._loop, self._settings, self._log = loop, settings, log
        self._access = access
        self._containers: dict[str, Connection] = {}
        self._subscriptions = Subscriptions(
            log, marking, snapshot, doubts, access, policies, claims, settings.amqp.quota
        )
        log.begun.update((state.key.id, state.began) for state in snapshot.subscriptions)
        self._temporary = Temporary(self._subscriptions, log, settings.amqp.temporary_max)
        self._admission = Admission(access, self._subscriptions, self._temporary)
        self.intake = Intake(log, policies, settings.delivery.duplicates_max)
        self._marking = marking
        self._bare = Kind(settings.amqp.bare_address)
        self._delivery: DeliveryService
        self._claims = claims
        self.backlogs: Backlogs
        self.node: Node
        self._transactions: Coordinator
        self.engine: Engine

    def bind(self, engine: Engine, delivery: DeliveryService, table: TopicLog) -> None:
        """Those that know this one, and that it must know."""
        self.engine, self._delivery = engine, delivery
        self._transactions = Coordinator(
            self._loop,
            self._settings.amqp,
            self._log,
            self.intake,
            Retiring(delivery),
            self._marked,
        )
        self._marking.passed = self._marked
        self._log.lowest_floor = self._subscriptions.named.lowest_floor
        self.backlogs = Backlogs(
            self._loop,
            self._log,
            self._claims,
            delivery.paging,
            self._settings.delivery.expiry_scan_ms,
            delivery.give_up,
        )
        self.backlogs.limited = self._limited
        self.intake.admit, self.intake.published = self.backlogs.admit, self.backlogs.published
        self._subscriptions.bind(delivery, self.backlogs.tallies)
        peers = Peers(engine)
        self.node = open_node(
            self._loop,
            self._settings,
            self._log,
            table,
            self._access,
            self._subscriptions.named,
            delivery,
            peers,
            self.backlogs.tallies,
            self._reply_to,
            self._marked,
        )
        self.node.taking = open_taking(
            self._loop,
            self._settings.management,
            self._log,
            table,
            self._access,
            self._subscriptions.named,
            delivery,
            self._marking,
            self._marked,
        )

    def _limited(self) -> None:
        """From now on publishers may be refused."""
        self.intake.limited = True
        self.engine.pump.accept_late()

    @property
    def named(self) -> Named:
        """The subscriptions that have a name."""
        return self._subscriptions.named

    def keep_queue(self, queue: Destination) -> SubscriptionKey:
        """Make a queue of dead letters if it isn't there."""
        return self._subscriptions.keep_queue(queue, Made(Origin.GATEWAY))

    # Connections.

    def opened(self, connection: Connection) -> None:
        name = self._settings.gateway.container_id
        container = connection.container
        wrong: str | None = self._too_long("a container-id", container)
        wrong = wrong or self._access.unnamed(connection.user, container)
        if not wrong and container and container in self._containers:
            wrong = f"container-id '{container}' is in use by another connection"
        if wrong:
            connection.refuse(name, INVALID_FIELD, wrong, "container-id")
            return
        if container:
            self._containers[container] = connection
        connection.accept(name)
        _events.debug(
            "connection.opened", container=container, peer=connection.peer, user=connection.user
        )

    def closed(self, connection: Connection) -> None:
        self._transactions.closed(connection)
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
            self.flowed(link)
        if writable:
            self.passed()

    def passed(self) -> None:
        self._transactions.passed()
        self._delivery.run()
        self._log.kick()

    # Links.

    def _too_long(self, what: str, name: str) -> str:
        """Why this is no name, as every settlement in the log repeats it; empty if it is one."""
        most = self._settings.amqp.name_bytes_max
        size = len(name.encode())
        return f"{what} has {size} bytes, {most} at most (amqp.name_bytes_max)" * (size > most)

    def attached(self, link: Link) -> None:
        if wrong := self._too_long("a link's name", link.name):
            link.refuse(INVALID_FIELD, wrong)
            return
        attach = termini.read(link.proton, link.desired_capabilities)
        if self.node.attached(link, attach):
            return
        wish = wishes.wish(attach, link.connection.container, self._bare)
        if isinstance(wish, wishes.Make):
            wish = self._made(link, wish.kind, attach)
        self._perform(link, wish)
        self._log.slow(link)
        match link.owner:
            case Producer(topic=str(topic)):
                self._temporary.joined(link, topic)
            case Consumer(subscription=subscription):
                self._temporary.joined(link, subscription.definition.topic)

    def _made(self, link: Link, kind: Kind, attach: wishes.Attach) -> wishes.Wish:
        """A temporary destination is made, and the link wants it; it goes if that is refused."""
        made = self._temporary.make(link, kind)
        if isinstance(made, Refusal):
            return made
        refusal = self._admission.making_temporary(link.connection.user, made.topic)
        return refusal or wishes.wish_for(made, attach, link.connection.container)

    def _perform(self, link: Link, wish: wishes.Wish) -> None:
        match wish:
            case wishes.Produce(destination):
                self._produce(link, destination)
            case wishes.Relay():
                self._open_producer(link, None)
            case wishes.Subscribe():
                self._subscribe(link, wish)
            case wishes.Browse():
                self._browse(link, wish)
            case wishes.Coordinate():
                self._transactions.attach(link)
            case wishes.Lookup(key):
                self._subscriptions.look_up(link, key)
            case Refusal(condition, description):
                link.refuse(condition, description)
            case _ as never:
                assert_never(never)

    def _produce(self, link: Link, destination: Destination) -> None:
        """A queue is there, durably, before its producer is."""
        refusal = self._admission.sending(link.connection, destination, LinkOperation.SEND)
        if refusal is not None:
            link.refuse(refusal.condition, refusal.description)
        elif destination.is_queue and not destination.is_temporary:
            made = Made(Origin.CLIENT, link.connection.user)
            key = self._subscriptions.keep_queue(destination, made)
            opened = partial(self._open_producer, link, destination)
            self._subscriptions.named.when_sure(key, link.later(opened))
        else:
            self._open_producer(link, destination)

    def _subscribe(self, link: Link, wish: wishes.Subscribe) -> None:
        key, definition = wish.key, wish.definition
        refusal = self._admission.consuming(link, definition.topic, key, LinkOperation.CONSUME)
        refusal = refusal or self._unreadable(definition.selector or wish.selector)
        if refusal is None and link.attach.priority is None:
            refusal = Refusal(INVALID_FIELD, "the link's property 'priority' must be an integer")
        if refusal is not None:
            link.refuse(refusal.condition, refusal.description)
        else:
            self._subscriptions.subscribe(link, key, definition, wish.selector)

    def _unreadable(self, selector: str | None) -> Refusal | None:
        """Why this is no selector, if it is none."""
        if selector is None:
            return None
        return wishes.unreadable(selector, self._settings.delivery.selector)

    def _browse(self, link: Link, wish: wishes.Browse) -> None:
        queue = wish.queue
        refusal = self._admission.consuming(link, queue.topic, None, LinkOperation.BROWSE)
        refusal = refusal or self._unreadable(wish.selector)
        refusal = refusal or self._admission.making(link.connection.user, queue)
        if refusal is not None:
            link.refuse(refusal.condition, refusal.description)
        else:
            self._subscriptions.browse(link, queue, wish.selector)

    def _open_producer(self, link: Link, destination: Destination | None) -> None:
        if not link.alive or link.ended:
            return
        link.owner = Producer(destination.topic if destination else None)
        message_bytes_max = self._settings.amqp.message_bytes_max
        termini.echo(link.proton, link.owner.topic, message_bytes_max=message_bytes_max)
        link.offered_capabilities = wishes.offered(link.owner.topic, outgoing=False)
        link.open()
        link.grant(self._settings.amqp.producer_credit)

    def _marked(self) -> None:
        self.passed()
        self.engine.flush()

    def detached(self, link: Link, closed: bool) -> None:
        self._let_go(link)
        if link.waiting:
            # The peer hears of every outcome before it hears the end of its link.
            link.when_answered = partial(self._subscriptions.leave, link, closed)
        else:
            self._subscriptions.leave(link, closed)
        self._log.slow(link)

    def lost(self, link: Link) -> None:
        self._let_go(link)
        self._subscriptions.lost(link)

    def _let_go(self, link: Link) -> None:
        """All parts that may keep something for a link give it back; a second time nothing."""
        self._temporary.left(link)  # what it has made, and its place on what others have
        self.node.left(link)  # answers that wait for it, and the sequences of its holders
        self._transactions.left(link)  # those that it declared
        self._subscriptions.release(link)  # deliveries, and its place among the consumers

    # Messages.

    def received(self, link: Link, received: Received) -> None:
        owner = link.owner
        if isinstance(owner, RequestLink):
            self.node.received(link, received)
            self._log.slow(link)
            return
        assert isinstance(owner, Producer)  # noqa: S101
        if received.transaction:
            if self._knows(link, received.transaction):
                resolve = partial(self._resolve, link, LinkOperation.POST_BY_RELAY)
                self._transactions.post(link, received, owner.topic, resolve)
            return
        if owner.topic is not None:
            self.intake.take(link, received, owner.topic)
        else:
            resolve = partial(self._resolve, link, LinkOperation.SEND_BY_RELAY)
            self.intake.relay(link, received, resolve)

    def _resolve(
        self, link: Link, operation: LinkOperation, address: str, said: Kind | None
    ) -> str | Refusal:
        """The topic of a message that says itself where it goes; its queue is there before it."""
        destination = destination_of(address, said, self._bare)
        if isinstance(destination, Refusal):
            return destination
        refusal = self._admission.sending(link.connection, destination, operation)
        if refusal is not None:
            return refusal
        if destination.is_queue and not destination.is_temporary:
            made = Made(Origin.CLIENT, link.connection.user)
            self._subscriptions.keep_queue(destination, made)
        return destination.topic

    def _reply_to(self, link: Link, address: str) -> str | Refusal:
        return self._resolve(link, LinkOperation.ANSWER, address, None)

    def settled(self, link: Link, outcomes: Outcomes) -> None:
        if not isinstance(link.owner, Consumer):
            return
        if not outcomes.transaction:
            self._delivery.settled(link.owner, outcomes)
            self._log.slow(link)
        elif self._knows(link, outcomes.transaction):
            self._transactions.retire(link.owner, outcomes)

    def commanded(self, link: Link, message: bytes, delivery: bytes) -> None:
        refusal = self._transactions.commanded(link, message, delivery)
        self._log.slow(link)
        if refusal is not None:
            link.end(refusal.condition, refusal.description)

    def _knows(self, link: Link, transaction: int) -> bool:
        """Whether this is a transaction of the link's connection. If not, the link ends: its peer
        takes something for done that never will be."""
        if self._transactions.knows(link.connection, transaction):
            return True
        refusal = unknown(transaction)
        link.end(refusal.condition, f"link '{link.name}': {refusal.description}")
        return False

    def flowed(self, link: Link) -> None:
        match link.owner:
            case Consumer() as consumer:
                self._delivery.flowed(consumer)
            case ReplyLink() as taker:
                taker.flowed()
