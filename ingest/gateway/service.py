"""The gateway: what peers ask for, brought together with the log and the subscriptions.

Implements the engine's `Handler`. The durable steps are the log's; who gets what is decided by the
pure part (`pipeline`); here is only what must happen for each frame that matters.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import assert_never

import structlog

from distributary.ingest.commit.group_log import Log
from distributary.ingest.delivery.consumer import Consumer
from distributary.ingest.delivery.delivery_service import DeliveryService
from distributary.ingest.delivery.dispatch_marking import DispatchMarking
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.management.lease_requests import open_taking
from distributary.ingest.management.node import Node, RequestLink
from distributary.ingest.management.node_assembly import open_node
from distributary.ingest.management.peers import Peers
from distributary.ingest.management.replies import ReplyLink
from distributary.ingest.native.pump import Outcomes, Received
from distributary.ingest.net import termini
from distributary.ingest.net.connection import Connection
from distributary.ingest.net.engine import Engine
from distributary.ingest.net.link import Link
from distributary.ingest.net.producer import Producer
from distributary.ingest.publish.backlog_limits import Backlogs
from distributary.ingest.publish.intake import Intake
from distributary.ingest.runtime.policies import Policies
from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.admission import Admission
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.ingest.subscriptions.subscription_service import SubscriptionService
from distributary.ingest.subscriptions.temporary_nodes import TemporaryNodes
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.ingest.transactions.retiring import Retiring
from distributary.pipeline.log.cursor import Doubt
from distributary.pipeline.log.transaction import unknown
from distributary.pipeline.model.address import Destination, Kind, destination_of
from distributary.pipeline.model.amqp_error import INVALID_FIELD, AmqpError
from distributary.pipeline.model.subscription import Made, Origin, SubscriptionKey
from distributary.pipeline.subscriptions import attach_intent
from distributary.pipeline.subscriptions.rights import LinkOperation
from distributary.pipeline.tables.recovery.snapshot import Snapshot
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

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
        marking: DispatchMarking,
        access: Access,
        policies: Policies,
        claims: TopicDirectory,
    ) -> None:
        self._loop, self._settings, self._log = loop, settings, log
        self._access = access
        self._containers: dict[str, Connection] = {}
        self._subscriptions = SubscriptionService(
            log, marking, snapshot, doubts, access, policies, claims, settings.amqp.quota
        )
        log.begun.update((state.key.id, state.began) for state in snapshot.subscriptions)
        self._temporary = TemporaryNodes(self._subscriptions, log, settings.amqp.temporary_max)
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
            delivery.faults,
            self._settings.delivery.expiry_scan_ms,
            delivery.give_up,
        )
        self.backlogs.limited = self._limited
        self.intake.admit, self.intake.published = self.backlogs.admit, self.backlogs.published
        self._subscriptions.bind(delivery, self.backlogs.counters)
        peers = Peers(engine)
        parts = TaskTurns(self._loop)
        self.node = open_node(
            self._loop,
            self._settings,
            self._log,
            table,
            self._access,
            self._subscriptions.named,
            delivery,
            peers,
            self.backlogs.counters,
            self._reply_to,
            self._marked,
            parts,
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
            parts,
        )

    def _limited(self) -> None:
        """From now on publishers may be refused."""
        self.intake.limited = True
        self.engine.pump.accept_late()

    @property
    def named(self) -> SubscriptionDirectory:
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
        # Who has least goes first: what there is room for isn't the same ones' each time.
        for link in sorted(connection.inbound.links, key=lambda link: link.unsettled):
            self.flowed(link)
        if writable:
            self.passed()

    def passed(self) -> None:
        self._transactions.passed()
        self._delivery.run()
        self._log.flush()

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
        wish = attach_intent.wish(attach, link.connection.container, self._bare)
        if isinstance(wish, attach_intent.Make):
            wish = self._made(link, wish.kind, attach)
        self._perform(link, wish)
        self._log.slow(link)
        match link.owner:
            case Producer(topic=str(topic)):
                self._temporary.joined(link, topic)
            case Consumer(subscription=subscription):
                self._temporary.joined(link, subscription.definition.topic)

    def _made(
        self, link: Link, kind: Kind, attach: attach_intent.Attach
    ) -> attach_intent.AttachIntent:
        """A temporary destination is made, and the link wants it; it goes if that is refused."""
        made = self._temporary.make(link, kind)
        if isinstance(made, AmqpError):
            return made
        amqp_error = self._admission.making_temporary(link.connection.user, made.topic)
        return amqp_error or attach_intent.wish_for(made, attach, link.connection.container)

    def _perform(self, link: Link, wish: attach_intent.AttachIntent) -> None:
        match wish:
            case attach_intent.Produce(destination):
                self._produce(link, destination)
            case attach_intent.Relay():
                self._open_producer(link, None)
            case attach_intent.Subscribe():
                self._subscribe(link, wish)
            case attach_intent.Browse():
                self._browse(link, wish)
            case attach_intent.Coordinate():
                self._transactions.attach(link)
            case attach_intent.Lookup(key):
                self._subscriptions.look_up(link, key)
            case AmqpError(condition, description):
                link.refuse(condition, description)
            case _ as never:
                assert_never(never)

    def _produce(self, link: Link, destination: Destination) -> None:
        """A queue is there, durably, before its producer is."""
        amqp_error = self._admission.sending(link.connection, destination, LinkOperation.SEND)
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        elif destination.is_queue and not destination.is_temporary:
            made = Made(Origin.CLIENT, link.connection.user)
            key = self._subscriptions.keep_queue(destination, made)
            opened = partial(self._open_producer, link, destination)
            self._subscriptions.named.when_sure(key, link.later(opened))
        else:
            self._open_producer(link, destination)

    def _subscribe(self, link: Link, wish: attach_intent.Subscribe) -> None:
        key, definition = wish.key, wish.definition
        amqp_error = self._admission.consuming(link, definition.topic, key, LinkOperation.CONSUME)
        amqp_error = amqp_error or self._unreadable(definition.selector or wish.selector)
        if amqp_error is None and link.attach.priority is None:
            amqp_error = AmqpError(
                INVALID_FIELD, "the link's property 'priority' must be an integer"
            )
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        else:
            self._subscriptions.subscribe(link, key, definition, wish.selector)

    def _unreadable(self, selector: str | None) -> AmqpError | None:
        """Why this is no selector, if it is none."""
        if selector is None:
            return None
        return attach_intent.unreadable(selector, self._settings.delivery.selector)

    def _browse(self, link: Link, wish: attach_intent.Browse) -> None:
        queue = wish.queue
        amqp_error = self._admission.consuming(link, queue.topic, None, LinkOperation.BROWSE)
        amqp_error = amqp_error or self._unreadable(wish.selector)
        amqp_error = amqp_error or self._admission.making(link.connection.user, queue)
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        else:
            self._subscriptions.browse(link, queue, wish.selector)

    def _open_producer(self, link: Link, destination: Destination | None) -> None:
        if not link.alive or link.ended:
            return
        link.owner = Producer(destination.topic if destination else None)
        message_bytes_max = self._settings.amqp.message_bytes_max
        termini.echo(link.proton, link.owner.topic, message_bytes_max=message_bytes_max)
        link.offered_capabilities = attach_intent.offered(link.owner.topic, outgoing=False)
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
    ) -> str | AmqpError:
        """The topic of a message that says itself where it goes; its queue is there before it."""
        destination = destination_of(address, said, self._bare)
        if isinstance(destination, AmqpError):
            return destination
        amqp_error = self._admission.sending(link.connection, destination, operation)
        if amqp_error is not None:
            return amqp_error
        if destination.is_queue and not destination.is_temporary:
            made = Made(Origin.CLIENT, link.connection.user)
            self._subscriptions.keep_queue(destination, made)
        return destination.topic

    def _reply_to(self, link: Link, address: str) -> str | AmqpError:
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
        amqp_error = self._transactions.commanded(link, message, delivery)
        self._log.slow(link)
        if amqp_error is not None:
            link.end(amqp_error.condition, amqp_error.description)

    def _knows(self, link: Link, transaction: int) -> bool:
        """Whether this is a transaction of the link's connection. If not, the link ends: its peer
        takes something for done that never will be."""
        if self._transactions.knows(link.connection, transaction):
            return True
        amqp_error = unknown(transaction)
        link.end(amqp_error.condition, f"link '{link.name}': {amqp_error.description}")
        return False

    def flowed(self, link: Link) -> None:
        match link.owner:
            case Consumer() as consumer:
                self._delivery.flowed(consumer)
            case ReplyLink() as taker:
                taker.flowed()
