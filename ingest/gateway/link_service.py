"""Peers' connections and links: which are admitted, what an attach makes, how a link ends.

The pure part (`pipeline.subscriptions.attach_intent`) reads the intent of an attach; this module
allows or refuses the intent, and performs it.
"""

from functools import partial
from typing import assert_never

import msgspec
import structlog

from distributary.ingest.delivery.consumer import Consumer
from distributary.ingest.gateway.containers import Containers
from distributary.ingest.management.node import Node
from distributary.ingest.net import termini
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.net.relayed_link import RelayedLink, Relays
from distributary.ingest.net.relayed_peer import RelayedPeer
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.producer import Producer
from distributary.ingest.runtime.host import Host
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.admission import Admission
from distributary.ingest.subscriptions.subscription_service import SubscriptionService
from distributary.ingest.subscriptions.temporary_nodes import TemporaryNodes
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.amqp_error import INVALID_FIELD, LIMIT_EXCEEDED, AmqpError
from distributary.pipeline.model.subscription import Made, Origin, SubscriptionKey
from distributary.pipeline.model.topic_pattern import PatternStyle
from distributary.pipeline.subscriptions import attach_intent
from distributary.pipeline.subscriptions.rights import LinkOperation

_events = structlog.get_logger("gateway")


class LinkParts(msgspec.Struct, frozen=True):
    """Termini of links: subscriptions, temporary destinations, the coordinator of transactions, the
    node `$management`; and the access rules to them."""

    access: Access
    admission: Admission
    subscriptions: SubscriptionService
    temporary: TemporaryNodes
    transactions: Coordinator
    node: Node
    relays: Relays


class LinkService:
    """All connections of one home, and their links."""

    def __init__(self, host: Host, messages: MessageParts, parts: LinkParts) -> None:
        self._settings, self._log = host.settings, messages.log
        self._recording = messages.delivery.recording
        self._access, self._admission = parts.access, parts.admission
        self._subscriptions, self._temporary = parts.subscriptions, parts.temporary
        self._transactions, self._node = parts.transactions, parts.node
        self._relays = parts.relays
        self._table, self._containers = messages.store.table, Containers()
        self._bare = Kind(host.settings.amqp.bare_address)

    # Connections.

    def opened(self, connection: Peer) -> None:
        name = self._settings.gateway.container_id
        container = connection.container
        if self._access.trusted(connection.user) is not None:
            connection.accept(name)  # its clients are peers of their own
            return
        if isinstance(connection, RelayedPeer) and connection.through == name:
            # One of our own clients, whose container id is registered already.
            if (client := self._relays.client(connection.number)) is not None:
                connection.stand_for(client)
            connection.accept(name)
            return
        wrong: str | None = self._too_long("a container-id", container)
        wrong = wrong or self._access.unnamed(connection.user, container)
        wrong = wrong or self._containers.refused(connection)
        if wrong:
            connection.refuse(name, INVALID_FIELD, wrong, "container-id")
            return
        self._containers.add(connection)
        connection.accept(name)
        _events.debug(
            "connection.opened", container=container, peer=connection.peer, user=connection.user
        )

    def session_ended(self, connection: Peer, session: int) -> None:
        self._relays.session_ended(connection, session)
        self._subscriptions.ends.session_ended(connection, session)

    def closed(self, connection: Peer) -> None:
        self._relays.closed(connection)
        self._transactions.closed(connection)
        self._subscriptions.ends.connection_ended(connection)
        if connection in self._containers:
            self._containers.remove(connection)
            _events.debug("connection.closed", container=connection.container)

    def failed(self, connection: Peer, reason: str) -> None:
        _events.warning(
            "connection.failed",
            peer=connection.peer,
            container=connection.container,
            reason=reason,
        )

    # Links.

    def _too_long(self, what: str, name: str) -> str:
        """Return why a name is too long, else "". Each settlement in the log repeats the name."""
        most = self._settings.amqp.name_bytes_max
        size = len(name.encode())
        return f"{what} has {size} bytes, {most} at most (amqp.name_bytes_max)" * (size > most)

    def attached(self, link: Link) -> None:
        self._table.prepare()  # the link may cause rows; on an empty home the first loads Arrow
        if wrong := self._too_long("a link's name", link.name):
            link.refuse(INVALID_FIELD, wrong)
            return
        attach = termini.read(link.proton, link.attach)
        if self._node.attached(link, attach):
            return
        container, style = link.connection.container, self._settings.delivery.pattern_style
        if link.attach.relayed is not None:
            style = PatternStyle.NONE  # the address is a word of the log
        intent = attach_intent.decide_intent(attach, container, self._bare, style)
        if isinstance(intent, attach_intent.Make):
            intent = self._made(link, intent.kind, attach)
        if logs := self._elsewhere(link, intent):
            self._relays.attach(link, attach, intent, logs)
        else:
            self._perform(link, intent)
        self._log.slow(link)
        match link.owner:
            case Producer(topic=str(topic)):
                self._temporary.joined(link, topic)
            case Consumer(subscription=subscription):
                self._temporary.joined(link, subscription.definition.topic)

    def _elsewhere(self, link: Link, intent: attach_intent.AttachIntent) -> tuple[str, ...]:
        """Return the logs at whose owners the link is made; empty: it is made here alone."""
        if link.attach.relayed is not None:
            return ()
        match intent:
            case attach_intent.Lookup(key) | attach_intent.BrowseSubscription(key):
                if (found := self._subscriptions.directory.get(key)) is not None:
                    return self._relays.beside(found.definition.topic)
        return self._relays.elsewhere(intent)

    def _made(
        self, link: Link, kind: Kind, attach: attach_intent.Attach
    ) -> attach_intent.AttachIntent:
        """Make a temporary destination, and return the intent of the link that asked for it. The
        destination is removed again when the link is refused."""
        made = self._temporary.make(link, kind)
        if isinstance(made, AmqpError):
            return made
        amqp_error = self._admission.making_temporary(link.connection.user, made.topic)
        return amqp_error or attach_intent.intent_for(made, attach, link.connection.container)

    def _perform(self, link: Link, intent: attach_intent.AttachIntent) -> None:
        match intent:
            case attach_intent.Produce(destination):
                self._produce(link, destination)
            case attach_intent.Relay():
                self._open_producer(link, None)
            case attach_intent.Subscribe():
                self._subscribe(link, intent)
            case attach_intent.Browse():
                self._browse(link, intent)
            case attach_intent.BrowseSubscription(key, selector):
                self._browse_subscription(link, key, selector)
            case attach_intent.Coordinate():
                self._transactions.attach(link)
            case attach_intent.Lookup(key):
                self._subscriptions.look_up(link, key)
            case AmqpError(condition, description):
                link.refuse(condition, description)
            case _ as never:
                assert_never(never)

    def _produce(self, link: Link, destination: Destination) -> None:
        """Open a producer. Its queue is made durable first, unless all of the queue's partitions
        are in other logs: their owners make them."""
        own, _ = self._relays.logs
        if own not in self._relays.logs_of(destination.topic) and not link.attach.relayed:
            peer, topic = link.connection, destination.topic
            why = self._admission.sending_elsewhere(peer, topic, LinkOperation.SEND)
            if why is not None:
                link.refuse(why.condition, why.description)
            else:
                self._open_producer(link, destination)
            return
        amqp_error = self._admission.sending(link.connection, destination, LinkOperation.SEND)
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        elif destination.is_queue and not destination.is_temporary:
            made = Made(Origin.CLIENT, link.connection.user)
            key = self._subscriptions.keep_queue(destination, made)
            opened = partial(self._open_producer, link, destination)
            self._subscriptions.directory.when_sure(key, link.later(opened))
        else:
            self._open_producer(link, destination)

    def _subscribe(self, link: Link, intent: attach_intent.Subscribe) -> None:
        key, definition = intent.key, intent.definition
        amqp_error = self._admission.consuming(link, definition.topic, key, LinkOperation.CONSUME)
        amqp_error = amqp_error or self._unreadable(definition.selector or intent.selector)
        if amqp_error is None and link.attach.redeliver and not (key is not None and key.own):
            text = "'redeliver' is for a durable subscription of the client's own"
            amqp_error = AmqpError(INVALID_FIELD, text)
        if amqp_error is None and link.attach.priority is None:
            amqp_error = AmqpError(
                INVALID_FIELD, "the link's property 'priority' must be an integer"
            )
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        else:
            self._subscriptions.subscribe(link, intent)

    def _unreadable(self, selector: str | None) -> AmqpError | None:
        """Return why a selector is invalid; None if it is valid or missing."""
        if selector is None:
            return None
        return attach_intent.unreadable(selector, self._settings.delivery.selector)

    def _browse(self, link: Link, intent: attach_intent.Browse) -> None:
        queue = intent.queue
        amqp_error = self._admission.consuming(link, queue.topic, None, LinkOperation.BROWSE)
        amqp_error = amqp_error or self._unreadable(intent.selector)
        amqp_error = amqp_error or self._admission.making(link.connection.user, queue)
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        else:
            self._subscriptions.browse(link, queue, intent.selector)

    def _browse_subscription(self, link: Link, key: SubscriptionKey, selector: str | None) -> None:
        amqp_error = self._unreadable(selector)
        if amqp_error is not None:
            link.refuse(amqp_error.condition, amqp_error.description)
        else:
            self._subscriptions.browse_subscription(link, key, selector)

    def _open_producer(self, link: Link, destination: Destination | None) -> None:
        if not link.alive or link.ended:
            return
        topic, desired = destination.topic if destination else None, link.desired_capabilities
        offers = attach_intent.offered(topic, outgoing=False, desired=desired)
        divided = self._relays.divides(link, topic)
        link.owner = Producer(topic, returns=attach_intent.RELEASES in offers, divided=divided)
        message_bytes_max = self._settings.amqp.message_bytes_max
        termini.echo(link.proton, topic, message_bytes_max=message_bytes_max)
        link.offered_capabilities = offers
        link.open()
        link.grant(self._settings.amqp.producer_credit)

    def detached(self, link: Link, closed: bool) -> None:
        if isinstance(link.owner, RelayedLink):
            link.owner.detached(closed=closed)
            return
        self._let_go(link)
        attempt = link.connection.attempt
        answer = partial(self._answer_detach, link, closed)
        self._recording.when_durable((link,), lambda late: attempt(partial(answer, late)))
        self._log.slow(link)

    def _answer_detach(self, link: Link, closed: bool, late: str) -> None:
        """Answer a detach: the link's outcomes are durable, or (`late`) it isn't known."""
        if not late:
            link.when_answered(partial(self._subscriptions.leave, link, closed))
        elif link.alive:
            link.detach(closed=closed, condition=LIMIT_EXCEEDED, description=late)

    def lost(self, link: Link) -> None:
        if isinstance(link.owner, RelayedLink):
            link.owner.left()
        self._let_go(link)
        self._subscriptions.lost(link)

    def _let_go(self, link: Link) -> None:
        """Make all parts release their state of a link. A second call does nothing."""
        self._relays.left(link)  # its messages that went to other logs
        self._temporary.left(link)  # destinations that it made, or that it uses
        self._node.left(link)  # answers that wait for it, and the sequences of its holders
        self._transactions.left(link)  # transactions that it declared
        self._subscriptions.release(link)  # deliveries, and its place among the consumers
