"""The way of a message, top to bottom. Read this file first.

read → admit → write → durable → accept → cache and count → dispatch → send → settle → commit

A pass begins with the input of one peer: the engine (`ingest.net`) reads frames and calls
`received` with a run of messages, `settled` with a run of outcomes, `flowed` with new credit;
`passed` ends the pass. Threads and timers report their finished work to `complete`, as a value: a
group of the log that is on the disk, a page that was read.

The constructor makes the parts, each with everything that it needs, in the order of the imports.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, assert_never

import msgspec

from distributary.ingest.commit.group_log import Log
from distributary.ingest.commit.home_opening import Store
from distributary.ingest.commit.pending_group import CreditGiven, GroupDurable, SealedGroup
from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.delivery.delivery_service import DeliveryDue, DeliveryService
from distributary.ingest.delivery.dispatch_marking import DispatchMarking, MarksDurable
from distributary.ingest.delivery.message_source import PageRead
from distributary.ingest.delivery.outcome_recording import AnswerDue
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.gateway.descriptors import room_for
from distributary.ingest.gateway.link_service import LinkParts, LinkService
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.management.node import NO_PART, RequestLink
from distributary.ingest.management.node_assembly import open_node
from distributary.ingest.management.peers import Peers
from distributary.ingest.management.replies import ReplyLink
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.engine import Engine
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.net.relayed_link import RelayedLink, Relaying
from distributary.ingest.publish import relay
from distributary.ingest.publish.backlog_limits import Backlogs
from distributary.ingest.publish.intake import Intake
from distributary.ingest.publish.memory_intake import MemoryIntake
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.no_local import NoLocal
from distributary.ingest.publish.producer import Producer
from distributary.ingest.publish.restored_duplicates import restore_duplicates
from distributary.ingest.publish.routes import Routes
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.policies import Policies
from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.schemas.schema_directory import SchemaDirectory
from distributary.ingest.schemas.validator import CheckDone, CheckedRun, HeldFrame, Validator
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.address_resolver import AddressResolver
from distributary.ingest.subscriptions.admission import Admission
from distributary.ingest.subscriptions.idle_floors import IdleFloors
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.ingest.subscriptions.subscription_service import SubscriptionService
from distributary.ingest.subscriptions.temporary_nodes import TemporaryNodes
from distributary.ingest.transactions.controller import Controller
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.ingest.transactions.other_logs import OtherLogs
from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.subscription import Made, Origin, SubscriptionKey
from distributary.pipeline.subscriptions.rights import LinkOperation
from distributary.pipeline.transactions.transaction import unknown

#: Work that was begun earlier and is done now.
Completion: TypeAlias = (
    GroupDurable | CreditGiven | MarksDurable | PageRead | DeliveryDue | AnswerDue | CheckDone
)


class MessageLoop:
    """The one way of messages from and to all peers of a home. Implements the engine's `Handler`;
    all methods run on the loop's thread."""

    def __init__(
        self,
        host: Host,
        store: Store,
        access: Access,
        policies: Policies,
        sure: Callable[[], bool],
        relaying: Relaying,
    ) -> None:
        """`sure` says whether the home is certainly ours; if not, nothing is read or written.
        Raises InvalidRequest when a subscription's own policy is invalid."""
        limits = host.settings.amqp
        room = room_for(limits.connections_max)
        limits = msgspec.structs.replace(limits, connections_max=room)
        #: The peers' connections.
        self.engine = Engine(host.loop, self, limits, access, sure=sure)
        self._counts, self._traces = host.counts, host.traces
        self._messages = parts = self._message_parts(host, store, access, policies)
        self._log, self._delivery, self._intake = parts.log, parts.delivery, parts.intake
        self._topics, self._backlogs = parts.topics, parts.backlogs
        schemas = SchemaDirectory(parts.log, store.snapshot, self.engine.pump.accept_late)
        self._validator = Validator(host, schemas, policies, self.complete)
        self._subscriptions = SubscriptionService(host, parts, access, policies)
        most, named = limits.temporary_max, relaying.temporary_name
        temporary = TemporaryNodes(self._subscriptions, parts.log, most, named)
        admission = Admission(access, self._subscriptions, temporary)
        bare, style = Kind(limits.bare_address), host.settings.delivery.pattern_style
        self._addresses = AddressResolver(admission, self._subscriptions, bare, style)
        directory, turns = self._subscriptions.directory, TaskTurns(host.loop)
        self.transactions = Coordinator(host, parts, directory, relaying.log, self.finish_pass)
        self.relays = relaying.relays(self.finish_pass, self.transactions)
        finish, peers = self.finish_pass, Peers(self.engine)
        managed = ManagementParts(host, parts, access, directory, self._validator, turns, finish)
        resolve = self._addresses.answering
        self._node = open_node(managed, peers, resolve, self.relays, self.transactions)
        nodes = (temporary, self.transactions, self._node, self.relays)
        link_parts = LinkParts(access, admission, self._subscriptions, *nodes)
        self._links = LinkService(host, parts, link_parts)
        self._other_logs = OtherLogs(host, self.transactions, self.relays, finish)
        self._floors = IdleFloors(host, parts, directory)
        self._restore(store, policies)

    def _message_parts(
        self, host: Host, store: Store, access: Access, policies: Policies
    ) -> MessageParts:
        patterns = PatternIndex()
        no_local = NoLocal(patterns, lambda: access.rights.permissions)
        floors = (self._lowest_floor, self._served_floor)
        log = Log(host, store, patterns, no_local, *floors, self.complete)
        marking = DispatchMarking(host, log, store.marks, self.complete)
        memory_bytes_max = host.settings.delivery.memory_bytes_max
        topics = TopicDirectory(log.recent, self._subscription_changed, memory_bytes_max)
        delivery = DeliveryService(host, store, log, topics, self._keep_queue, self.complete)
        backlogs = Backlogs(host, log, topics, delivery, self.engine.pump)
        memory = MemoryIntake(log, topics, delivery, host.counts, host.traces)
        routes, ids_max = Routes(self._keep_queue), host.settings.delivery.duplicates_max
        intake = Intake(log, policies, backlogs, routes, memory, ids_max)
        return MessageParts(
            host.counts, store, no_local, log, marking, topics, delivery, backlogs, intake
        )

    def _restore(self, store: Store, policies: Policies) -> None:
        """Restore the state that the home's table keeps of the time before the start."""
        self._subscriptions.dead_letter_exhausted()
        restore_duplicates(self._intake.windows, policies, store.table)
        floor = self._lowest_floor()
        self._topics.seed(store.table.priority_statistics(floor))
        self._backlogs.seed(store.table, floor)

    # Read, admit, write: a run of messages arrives, and waits for the next group of the log.

    def received(self, link: Link, received: Received) -> None:
        match link.owner:
            case Producer(divided=False) as producer:
                self._publish(link, producer, received)
            case Producer() as producer:
                own = self.relays.own_part(link, producer.topic, received)
                if own is not None:
                    self._publish(link, producer, own)
            case RelayedLink() as relayed:
                relayed.received(received)
            case RequestLink() if received.transaction:
                self._take(link, received, [(NO_PART, received.count)], {})
            case _ as owner:
                assert isinstance(owner, RequestLink)  # noqa: S101
                self._node.received(link, received)
                self._log.slow(link)

    def _publish(self, link: Link, owner: Producer, received: Received) -> None:
        topic = owner.topic
        if received.transaction:
            if not self._knows(link, received.transaction):
                return
            operation = LinkOperation.POST_BY_RELAY
        elif topic is None:
            operation = LinkOperation.SEND_BY_RELAY
        elif owner.returns and received.unsettled == received.count and self._unwanted(topic):
            relay.release(link, received)
            return
        elif not self._validator.active:
            self._intake.take(link, received, topic)
            return
        if topic is not None:
            goals: relay.Goals = [(topic, received.count)]
        else:
            goals = relay.goals_of(received, partial(self._addresses.resolve, link, operation))
        if self._validator.active:
            goals = self._intake.but_stored(received, goals)
        now = self._validator.admit(link, received, goals)
        if now is not None:
            self._take(link, received, now, {})

    def _take(
        self, link: Link, received: Received, goals: relay.Goals, unrouted: relay.Unrouted
    ) -> None:
        """Take messages whose schemas allow their goals, and those that go to dead letters."""
        into = self.transactions.post if received.transaction else self._intake.take_to
        into(link, received, goals, unrouted)

    def _unwanted(self, topic: str) -> bool:
        """Whether a topic's messages would go nowhere: it has no subscription and no route."""
        return not (self._topics.of(topic) or self._intake.routes_of(topic))

    def passed(self, *, last: bool = False) -> None:
        self.transactions.passed()
        self._delivery.run()
        self._log.flush(last=last)

    def finish_pass(self) -> None:
        """Hand on work that came outside of a peer's pass, to the sockets, too."""
        self.passed()
        self.engine.flush()

    # Durable, accept, cache and count, dispatch, send.

    def complete(self, what: Completion) -> None:
        """Go on after the work of another thread, of a timer or of a later turn of the loop."""
        match what:
            case GroupDurable(sealed):
                self._durable(sealed)
            case CreditGiven():
                self._dispatch(())
            case PageRead(subscription):
                self._delivery.resume(subscription)
                self.finish_pass()
            case CheckDone():
                self._go_on(self._validator.checked(what))
                self.finish_pass()
            case MarksDurable() | DeliveryDue() | AnswerDue():
                self.finish_pass()
            case _ as never:
                assert_never(never)

    def _go_on(self, held: CheckedRun | HeldFrame) -> None:
        """Go on with a run or frame that waited for schemas. A bug here ends its peer alone."""
        match held:
            case CheckedRun(link, received, goals, unrouted):
                goals = relay.still(goals, partial(self._addresses.gone, link))
                link.connection.attempt(partial(self._take, link, received, goals, unrouted))
            case HeldFrame(link, work):
                if link.alive and not link.ended:
                    link.connection.attempt(work)

    def _durable(self, sealed: SealedGroup) -> None:
        """Go on with a group that is on the disk. Its senders wait, so they get `accepted` first.
        Then its messages are cached and counted, before any peer's input is read; actions that
        waited for the group are run; then consumers get the messages."""
        self._log.accept(sealed.waiting)
        self.engine.flush()
        for topic, batch in sealed.batches:
            self._log.recent.add(topic, batch)
            self._backlogs.arrived(topic, batch, sealed.group.written_at)
            self._counts.published(topic, batch.count, len(batch.blob))
            if batch.attributes is not None:
                self._topics.arrived(topic, batch)
            if self._topics.streams:
                self._topics.logged(topic, batch, sealed.group.written_at)
        for then in sealed.waiting.then:
            then()
        if self._traces is not None:
            self._traces.durable(sealed.group, sealed.batches)
        self._dispatch([topic for topic, _ in sealed.batches])

    def _dispatch(self, topics: Sequence[str]) -> None:
        """Send messages to consumers. The dispatchers (`pipeline.dispatch`) decide which consumer
        gets which message; the delivery service sends it; the sockets get as many bytes as one
        turn may write."""
        self._delivery.arrived(topics)
        self._delivery.run()
        self.engine.flush()

    # Settle: outcomes wait for the next group, too. The committer commits them afterwards.

    def settled(self, link: Link, outcomes: Outcomes) -> None:
        owner = link.owner
        if not isinstance(owner, Consumer):
            if isinstance(owner, RelayedLink):
                owner.outcomes(outcomes)
        elif not outcomes.transaction:
            self._delivery.settled(owner, outcomes)
            self._log.slow(link)
        elif self._knows(link, outcomes.transaction):
            self.transactions.retire(owner, outcomes)

    def commanded(self, link: Link, message: bytes, delivery: bytes) -> None:
        work = partial(self._command, link, message, delivery)
        if not self._validator.holds(link, work):
            work()
        self._log.slow(link)

    def _command(self, link: Link, message: bytes, delivery: bytes) -> None:
        amqp_error = self.transactions.commanded(link, message, delivery)
        if amqp_error is not None:
            link.end(amqp_error.condition, amqp_error.description)

    def _knows(self, link: Link, transaction: int) -> bool:
        """Whether the link's connection has the transaction. If not, end the link."""
        if self.transactions.knows(link.connection, transaction):
            return True
        amqp_error = unknown(transaction)
        link.end(amqp_error.condition, f"link '{link.name}': {amqp_error.description}")
        return False

    def flowed(self, link: Link) -> None:
        match link.owner:
            case Consumer() as consumer:
                self._delivery.flowed(consumer)
            case ReplyLink() | RelayedLink() as other:
                other.flowed()

    def writable(self, links: tuple[Link, ...], writable: bool) -> None:
        # The link with the fewest unsettled goes first: no link takes the room each time.
        for link in sorted(links, key=lambda link: link.unsettled):
            self.flowed(link)
        if writable:
            self.passed()

    # Connections and links come and go.

    def opened(self, connection: Peer) -> None:
        self._links.opened(connection)

    def closed(self, connection: Peer) -> None:
        self._links.closed(connection)

    def failed(self, connection: Peer, reason: str) -> None:
        self._links.failed(connection, reason)

    def attached(self, link: Link) -> None:
        self._links.attached(link)

    def detached(self, link: Link, closed: bool) -> None:
        work = partial(self._links.detached, link, closed)
        if not (isinstance(link.owner, Controller) and self._validator.holds(link, work)):
            work()

    def lost(self, link: Link) -> None:
        self._links.lost(link)

    def session_ended(self, connection: Peer, session: int) -> None:
        self._links.session_ended(connection, session)

    def ended(self, links: tuple[Link, ...], answer: Callable[[str], None]) -> None:
        durable = partial(self._delivery.recording.when_durable, links, answer)
        self.relays.when_ended(links, durable)

    # Questions of lower parts to higher parts.

    def _keep_queue(self, queue: Destination) -> SubscriptionKey:
        """Make a queue of dead letters, if it isn't there, in the group that waits."""
        return self._subscriptions.keep_queue(queue, Made(Origin.GATEWAY))

    def _lowest_floor(self) -> int:
        return self._topics.durable_floor(self._log.next_sequence)

    def _served_floor(self) -> int:
        return self._topics.served_floor(self._log.next_sequence)

    def _subscription_changed(self, subscription: Subscription) -> None:
        self._backlogs.changed(subscription)

    # Parts that metrics and health show.

    @property
    def parts(self) -> MessageParts:
        """The parts through which messages go."""
        return self._messages

    @property
    def directory(self) -> SubscriptionDirectory:
        """All subscriptions with a name."""
        return self._subscriptions.directory

    @property
    def validator(self) -> Validator:
        """The messages and commands that wait for a check by a schema."""
        return self._validator

    def full(self) -> bool:
        """Whether the disk is full."""
        return self._log.full

    # The end.

    def quiet(self) -> None:
        """Stop the work that no peer asks for; the last peer has gone."""
        self._node.close()
        self._other_logs.close()
        self._validator.close()
        self._backlogs.close()
        self._floors.close()
        self._subscriptions.ends.close()
        self.relays.close()

    async def close(self, *, failed: bool) -> None:
        """Write and commit the waiting groups, and end the threads; after a failure write nothing.
        Raises StoreError when the marks can't be made durable."""
        if not failed:
            await self._delivery.finish()
        self._delivery.close()
        await self._log.close()
        self._messages.marking.close(failed=failed)
