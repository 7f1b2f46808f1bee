"""All relayed links of a gateway, and the decision which links are relayed."""

from collections.abc import Callable
from itertools import count

import msgspec

from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.net.relayed_link import ClientTransactions, NotAsked, OwnerSeen
from distributary.ingest.relaying.gateway_requests import GatewayRequests
from distributary.ingest.relaying.gathered_consumer import ConsumerPart, GatheredConsumer, Place
from distributary.ingest.relaying.gathered_link import GatheredLink
from distributary.ingest.relaying.gathered_lookup import GatheredLookup, LookupPart
from distributary.ingest.relaying.held_bytes import ReceiversBytes, RequestsBytes, SendersBytes
from distributary.ingest.relaying.message_logs import MessageLogs
from distributary.ingest.relaying.owner_link import OwnerLink
from distributary.ingest.relaying.owner_requests import OwnerRequests
from distributary.ingest.relaying.owners.client_sessions import ClientSessions
from distributary.ingest.relaying.owners.lake_looks import LakeLooks
from distributary.ingest.relaying.owners.owner_terms import (
    ADDRESS_BYTES_MAX,
    DESIRED_WORDS,
    OwnerTerms,
)
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.relaying.relayed_consumer import RelayedConsumer
from distributary.ingest.relaying.relayed_part import (
    UNNAMED,
    RelayedPart,
    RelayedParts,
    divided,
    reject,
    settled_message,
)
from distributary.ingest.relaying.relayed_producer import RelayedProducer
from distributary.ingest.relaying.transactions.owner_coordinator import OwnerCoordinator
from distributary.ingest.relaying.transactions.relayed_work import RelayedWorks
from distributary.ingest.runtime.host import Host
from distributary.pipeline.amqp.relayed_for import PREFIX, RelayedFor
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.log_names import temporary_name
from distributary.pipeline.management.node_answers import NodeAnswer
from distributary.pipeline.model.address import Kind
from distributary.pipeline.model.amqp_error import (
    INVALID_FIELD,
    LIMIT_EXCEEDED,
    NOT_FOUND,
    AmqpError,
)
from distributary.pipeline.subscriptions.attach_intent import (
    Attach,
    AttachIntent,
    Browse,
    BrowseSubscription,
    Lookup,
    Produce,
    Subscribe,
    unreadable,
)
from distributary.pipeline.tables.lake.lake import Lake

#: No session of a client has this number.
_BESIDE = 0


class LakeRelaying(msgspec.Struct, frozen=True, eq=False):
    """Relaying of a lake's gateway that owns `log`. Implements the message loop's `Relaying`."""

    host: Host
    lake: Lake
    log: str
    placement: Placement

    def temporary_name(self, unique: str) -> str:
        """Return the name of a temporary destination of its log: other gateways find it by that
        name."""
        return temporary_name(self.log, unique)

    def relays(
        self, finish_pass: Callable[[], None], transactions: ClientTransactions
    ) -> "LakeRelays":
        """Return its relayed links; `finish_pass` hands on the frames gathered for peers."""
        return LakeRelays(self, finish_pass, transactions)


class LakeRelays:
    """The relayed links of a gateway that owns `log`. Implements the message loop's `Relays`; all
    methods run on the loop's thread."""

    def __init__(
        self,
        part: LakeRelaying,
        finish_pass: Callable[[], None],
        transactions: ClientTransactions,
    ) -> None:
        """`finish_pass` hands on gathered frames, where no peer's frames are the cause."""
        host = part.host
        self._host, self._log, self._placement = host, part.log, part.placement
        self._looks = LakeLooks(part.lake, host.loop)
        self._sessions = ClientSessions(host, self._looks, finish_pass, part.placement.logs)
        self._works = RelayedWorks(transactions, self._coordinator)
        self._coordinators: dict[Peer, dict[str, OwnerCoordinator]] = {}
        fleet = host.settings.fleet
        self._senders = SendersBytes(fleet.held_bytes_max)
        self._receivers = ReceiversBytes(fleet.held_bytes_max)
        self._requests = RequestsBytes(fleet.held_bytes_max)
        container = host.settings.gateway.container_id
        self._own_requests = GatewayRequests(container, self._requests, self._sessions)
        self._numbers: dict[Peer, int] = {}
        self._clients: dict[int, Peer] = {}
        self._count = count(1)
        self._asking: dict[Link, dict[str, OwnerRequests]] = {}
        self._bare = Kind(host.settings.amqp.bare_address)
        self._message_logs = MessageLogs(part.placement, part.log, self._bare)

    @property
    def logs(self) -> tuple[str, tuple[str, ...]]:
        """Return its own log, and the other logs of its lake."""
        return self._log, tuple(one for one in self._placement.logs if one != self._log)

    def owners(self) -> list[OwnerSeen]:
        """Return the owners of other logs to which links were relayed."""
        return list(self._sessions.seen())

    def client(self, number: int) -> Peer | None:
        """Return the client of this gateway whose links it relays under this number."""
        return self._clients.get(number)

    def logs_of(self, word: str) -> tuple[str, ...]:
        """Return the logs of a topic or pattern, given as the log writes it."""
        return self._placement.logs_of_pattern(word)

    def divides(self, link: Link, topic: str | None) -> bool:
        """Whether messages of this link may be of several logs. A relayed link's messages have been
        divided by the other gateway."""
        if link.attach.relayed is not None:
            return False
        return topic is None or len(self._placement.logs_of(topic)) > 1

    async def ask(
        self, link: Link, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """Return the answer of another log's `$management` to a request that came by this link, or
        why there is none."""
        if not link.alive or link.gone:  # `left` was called, and isn't called again
            return NotAsked(LIMIT_EXCEEDED, "the link that asked has ended")
        session, asking = self._session(link, log), self._asking.setdefault(link, {})
        if why := session.refusal:
            return NotAsked(LIMIT_EXCEEDED, why)
        requests = asking.get(log)
        if requests is None or requests.over:
            for one in [one for one, asked in asking.items() if asked.over]:
                del asking[one]
            name = f"{PREFIX}requests-{next(self._count)}"
            said = self._for(link, log)
            requests = asking[log] = OwnerRequests(session, name, said, self._requests)
        return await requests.ask(encoded)

    async def ask_owner(
        self, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """Return the owner's answer to a request of this gateway itself, or why there is none."""
        return await self._own_requests.ask(log, encoded)

    def elsewhere(self, intent: AttachIntent) -> tuple[str, ...]:
        """Return the logs where this link belongs; empty: our log, or each message by itself."""
        match intent:
            case Produce(destination):
                logs = self._placement.logs_of(destination.topic)
                return logs if len(logs) == 1 and logs != (self._log,) else ()
            case Browse(destination):
                return self.beside(destination.topic)
            case Subscribe(definition=definition):
                return self.beside(definition.topic)
            case Lookup() | BrowseSubscription():
                return self.logs[1]
        return ()

    def beside(self, word: str) -> tuple[str, ...]:
        """Return the logs of a topic or pattern; empty if it is in ours alone."""
        logs = self._placement.logs_of_pattern(word)
        return () if logs == (self._log,) else logs

    def attach(
        self, link: Link, attach: Attach, intent: AttachIntent, logs: tuple[str, ...]
    ) -> None:
        """Relay the link from now on, to the owners of these logs."""
        if (wrong := self._unrelayed(link, attach)) is not None:
            link.refuse(wrong.condition, wrong.description)
            return
        if why := next(filter(None, (self._session(link, log).refusal for log in logs)), ""):
            link.refuse(LIMIT_EXCEEDED, why)
        elif isinstance(intent, Lookup):
            self._look_up(link, attach, logs)
        elif len(logs) > 1:
            self._gather(link, attach, intent, logs)
        else:
            topic, durable, browses = _said(intent)
            terms = OwnerTerms(attach, topic, self._for(link, logs[0]), durable, browses)
            relayed = self._made(link, (self._session(link, logs[0]),), terms)
            link.owner = relayed
            relayed.begin()

    def _gather(
        self, link: Link, attach: Attach, intent: AttachIntent, logs: tuple[str, ...]
    ) -> None:
        """Relay a consumer's link to several logs."""
        fleet, optional = self._host.settings.fleet, isinstance(intent, BrowseSubscription)
        seconds = fleet.partition_look_ms / 1_000
        whole = GatheredConsumer(link, self._host.loop, len(logs), seconds, optional=optional)
        topic, durable, browses = _said(intent)
        window = max(fleet.window_bytes // len(logs), 1)
        link.owner = whole
        whole.gather(
            [
                ConsumerPart(
                    Place(whole, number),
                    link,
                    self._session(link, log),
                    OwnerTerms(attach, topic, self._for(link, log), durable, browses),
                    self._receivers,
                    self._works,
                    window,
                )
                for number, log in enumerate(logs)
            ]
        )

    def _look_up(self, link: Link, attach: Attach, logs: tuple[str, ...]) -> None:
        """Look for a subscription: the first of these logs that has it says where else it is."""

        def part(whole: GatheredLookup, logs: tuple[str, ...], topic: str = "") -> LookupPart:
            sessions = tuple(self._session(link, log) for log in logs)
            terms = OwnerTerms(attach, None, self._for(link, logs[0]))
            return LookupPart(whole, link, sessions, terms, topic)

        def others(whole: GatheredLookup, first: LookupPart) -> list[LookupPart]:
            there = self._placement.logs_of_pattern(first.topic)
            rest = [log for log in there if log != first.session.owner.log]
            return [part(whole, (log,), first.topic) for log in rest]

        link.owner = whole = GatheredLookup(link, others)
        whole.begin([part(whole, logs)])

    def own_part(self, link: Link, topic: str | None, received: Received) -> Received | None:
        """Return those messages of a run that belong to our own log; pass the others on to the
        owners of theirs."""
        logs = self._message_logs.of(topic, received)
        if not any(log != self._log for log in logs):
            return received
        found = divided(received, logs, self._log)
        own = found.pop(self._log, None)
        for log, one in found.items():
            self._pass_on(link, topic, log, one)
        return None if link.ended else own

    def publish(self, link: Link, log: str, data: bytes) -> None:
        """Pass on a message of this link's client that was sent settled and names its
        destination."""
        self._pass_on(link, None, log, settled_message(link.address, data))

    def _pass_on(self, link: Link, topic: str | None, log: str, received: Received) -> None:
        if link.ended:
            return
        part = self._part(link, topic, log)
        if isinstance(part, RelayedPart):
            part.received(received)
        elif received.transaction:
            self._works.refuse(link, received, part)
        else:
            reject(link, received.deliveries, received.count, received.unsettled, part)

    def _part(self, link: Link, topic: str | None, log: str) -> RelayedPart | AmqpError:
        """Return the part that takes messages for this log now, or why none does."""
        parts = link.parts
        if not isinstance(parts, RelayedParts):
            parts = link.parts = RelayedParts()
        part = parts.take(log)
        if part is None:
            terms = OwnerTerms(UNNAMED, topic, self._for(link, log))
            credit = self._host.settings.amqp.producer_credit
            session, held = self._session(link, log), self._senders
            if why := session.refusal:
                return AmqpError(LIMIT_EXCEEDED, why)
            part = parts.of[log] = RelayedPart(link, (session,), terms, held, self._works, credit)
            part.begin()
        return part

    def left(self, link: Link) -> None:
        """End the parts at other logs of a link that has ended; if its peer ended it, once all
        their messages have outcomes."""
        for requests in self._asking.pop(link, {}).values():
            why = AmqpError(NOT_FOUND, "the link that asked has ended")
            requests.end(why, at_once=link.alive)
        if isinstance(link.parts, RelayedParts):
            link.parts.left(waits=link.alive and not link.gone)

    def _unrelayed(self, link: Link, attach: Attach) -> AmqpError | None:
        """Return why an attach isn't relayed: its owner would refuse it, or it may be larger than a
        frame."""
        if link.attach.priority is None:
            text = "the link's property 'priority' must be an integer"
            return AmqpError(INVALID_FIELD, text)
        if len((attach.address or "").encode()) > ADDRESS_BYTES_MAX:
            return AmqpError(INVALID_FIELD, f"an address has {ADDRESS_BYTES_MAX} bytes at most")
        limits = self._host.settings.delivery.selector
        selectors = [one for one in attach.selectors if isinstance(one, str) and one.strip()]
        return unreadable(selectors[0], limits) if selectors else None

    def _made(
        self, link: Link, session: tuple[RelayedSession, ...], terms: OwnerTerms
    ) -> OwnerLink:
        settings = self._host.settings
        if link.is_outgoing:
            window = settings.fleet.window_bytes
            return RelayedConsumer(link, session, terms, self._receivers, self._works, window)
        credit = settings.amqp.producer_credit
        return RelayedProducer(link, session, terms, self._senders, self._works, credit)

    def _for(self, link: Link, log: str) -> RelayedFor:
        peer = link.connection
        number = self._numbers.get(peer)
        if number is None:
            number = self._numbers[peer] = next(self._count)
            self._clients[number] = peer
        desired = link.desired_capabilities & DESIRED_WORDS
        return RelayedFor(
            log,
            number,
            peer.container,
            peer.user,
            peer.peer,
            peer.sole,
            desired,
            bare=self._bare,
        )

    def _session(self, link: Link, log: str) -> RelayedSession:
        return self._sessions.of(link.connection, link.session, log)

    def _coordinator(self, link: Link, log: str) -> OwnerCoordinator:
        """Return a client's coordinator at the owner of a log, in a session of its own there."""
        found = self._coordinators.setdefault(link.connection, {})
        coordinator = found.get(log)
        if coordinator is None or not coordinator.joined:
            for one in [one for one, there in found.items() if not there.joined]:
                del found[one]
            session = self._sessions.of(link.connection, _BESIDE, log)
            coordinator = found[log] = OwnerCoordinator(session, self._for(link, log))
        return coordinator

    def session_ended(self, connection: Peer, session: int) -> None:
        """End a session at the owners that its peer has ended; its links have left."""
        self._sessions.ended(connection, session)

    def closed(self, connection: Peer) -> None:
        """End all sessions of a connection that ends; its links have left."""
        self._sessions.closed(connection)
        self._clients.pop(self._numbers.pop(connection, 0), None)
        self._senders.forget(connection)
        for coordinator in self._coordinators.pop(connection, {}).values():
            coordinator.close()

    def when_ended(self, links: tuple[Link, ...], then: Callable[[], None]) -> None:
        """Call `then` when the owners know the end of the sessions of these links."""
        owned = [one.owner for one in links if isinstance(one.owner, OwnerLink | GatheredLink)]
        parts_of = [one.parts for one in links if isinstance(one.parts, RelayedParts)]
        owned += [part for parts in parts_of for part in parts.of.values()]
        sessions = list({session: None for one in owned for session in one.sessions})
        left = len(sessions)
        if not left:
            then()
            return

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for session in sessions:
            session.when_ended(ended)

    def close(self) -> None:
        """End with the gateway, whose peers have gone."""
        self._sessions.close()
        self._looks.close()


def _said(intent: AttachIntent) -> tuple[str | None, bool, bool]:
    """Return the link's topic as the log writes it, whether the subscription is durable, and
    whether the link browses."""
    match intent:
        case Produce(destination) | Browse(destination):
            return destination.topic, False, isinstance(intent, Browse)
        case Subscribe(key=key, definition=definition):
            return definition.topic, key is not None and key.durable, False
    return None, False, isinstance(intent, BrowseSubscription)
