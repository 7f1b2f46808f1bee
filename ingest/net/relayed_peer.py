"""Clients of other gateways, at the owner of a log: several share one connection of their gateway.

Rule 1: only connections of other gateways have links of such clients (`Access.trusted`).
Rule 2: a client is one peer here, whatever the number of its sessions: it is opened with its first
        link and closed with its last session.
Rule 3: the end of a client ends its links; other links on the connection go on.
"""

from typing import Protocol

import msgspec
from msgspec.structs import replace

from distributary.ingest.net.containment import BugReports, ContainedPeer
from distributary.ingest.net.handler import Handler
from distributary.ingest.net.link import LinkKeeper, Peer
from distributary.ingest.runtime.settings import Amqp
from distributary.ingest.security.gateway_login import GatewayLogin
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.amqp.relayed_for import RelayedFor
from distributary.pipeline.model.amqp_error import UNAUTHORIZED, AmqpError

#: Condition by which a gateway refuses a relayed link to a log that it doesn't own.
NOT_OWNER = "distributary:not-owner"
_NO_GATEWAY = AmqpError(UNAUTHORIZED, "only gateways relay links for others")
_NOT_RELAYED = AmqpError(UNAUTHORIZED, "a gateway has no links here but those of its clients")
#: Refusal of later links of a client that has ended.
_OVER = AmqpError("amqp:connection:forced", "the client's connection has ended")


#: Most sessions and links of one connection between two gateways: the client's own gateway bounds
#: each client's. The engine has no more channels.
CHANNELS_MAX = 1 << 15
LINKS_MAX = 1 << 20
#: Most unsettled deliveries of such a connection: the client's own gateway bounds them, too.
UNSETTLED_MAX = (1 << 31) - 1


def relaying_limits(limits: Amqp, gateway: GatewayLogin) -> Amqp:
    """Return the limits of a connection whose peer is a gateway."""
    return replace(
        limits,
        channels_max=CHANNELS_MAX,
        links_max=LINKS_MAX,
        connection_unsettled_max=UNSETTLED_MAX,
        idle_timeout_ms=gateway.silence_ms,
    )


class Holding(Protocol):
    """Stops reading from a connection while one of its clients is held."""

    def held(self, peer: "RelayedPeer", on: bool, by: object) -> None:
        """Note whether `by` holds a client."""


class RelayedPeer(ContainedPeer):
    """A client of another gateway. `refusal` is the error for its links, if they are refused."""

    def __init__(self, real: Peer, engine: BugReports, holding: Holding, said: RelayedFor) -> None:
        self._real, self._engine, self._holding = real, engine, holding
        self.container, self.user, self.peer = said.container, said.user, said.peer
        self.through, self.number = real.container, said.connection
        self._client: Peer | None = None
        self.sole, self.outflow, self.outgoing = said.sole, real.outflow, real.outgoing
        self.accepted = self.closing = False
        self.sessions = 0  #: the number of its sessions here
        self.refusal: AmqpError | None = None
        self._ended = False

    @property
    def alive(self) -> bool:  # type: ignore[override]
        """Whether its links can live."""
        return self._real.alive and not self._ended

    @property
    def writable(self) -> bool:
        """Whether the other gateway reads what is written to it."""
        return self._real.writable

    @property
    def inbound(self) -> LinkKeeper:
        """The connection's links, also those of other clients."""
        return self._real.inbound

    @property
    def client(self) -> Peer:  # type: ignore[override]
        """The client: itself, or the client of this gateway that it stands for."""
        return self._client or self

    def stand_for(self, client: Peer) -> None:
        """Stand for a client of this gateway, which relays that client's links to itself."""
        self._client = client

    def accept(self, container_id: str) -> None:  # noqa: ARG002 (the gateway has answered its open)
        """Admit its links."""
        self.accepted = True

    def refuse(self, container_id: str, condition: str, description: str, field: str) -> None:  # noqa: ARG002
        """Refuse its links with this error."""
        self.refusal = AmqpError(condition, description)

    def close(self, condition: str, description: str) -> None:
        """End all of its links, and refuse later ones."""
        self.closing, self.refusal = True, AmqpError(condition, description)
        for link in self.inbound.links:
            if link.connection is self:
                link.end(condition, description)

    def end(self) -> None:
        """End the client: its last session or the connection has ended."""
        self._client = None
        self._ended, self.refusal = True, _OVER

    def abort(self) -> None:
        """Drop the whole connection: this client can't be ended otherwise."""
        self._real.abort()

    def hold(self, on: bool, by: object) -> None:
        self._holding.held(self, on, by)

    def touch(self) -> None:
        self._real.touch()

    def flush(self) -> None:
        self._real.flush()

    def go_on(self) -> None:
        self._real.go_on()

    def leave(self, at_once: bool) -> None:
        self._real.leave(at_once)


class OwnedLink(msgspec.Struct, frozen=True):
    """A new link's peer, and its attach as that peer has sent it. With a `refusal` the link is
    refused."""

    peer: Peer
    attach: WalkedAttach
    refusal: AmqpError | None = None


class Peers(Protocol):
    """The peers to which the links of one connection belong."""

    def of(self, attach: WalkedAttach, session: int) -> OwnedLink:
        """Return the peer of a new link on this session."""

    def session_ended(self, session: int) -> None:
        """A session has ended, and its links before it."""

    def closed(self) -> None:
        """The connection has ended, and all links before it. May be called again."""


class OnePeer:
    """The peer of an ordinary connection: all links are its own."""

    def __init__(self, connection: Peer, handler: Handler) -> None:
        self._connection, self._handler = connection, handler

    def of(self, attach: WalkedAttach, session: int) -> OwnedLink:  # noqa: ARG002 (whichever it is)
        """Return the connection's peer; refuse a link that claims to be relayed for another."""
        return OwnedLink(self._connection, attach, _NO_GATEWAY if attach.relayed else None)

    def session_ended(self, session: int) -> None:
        """A session has ended, and its links before it."""
        self._handler.session_ended(self._connection, session)

    def closed(self) -> None:
        """The connection has ended, and all links before it. May be called again."""
        self._handler.closed(self._connection)


class RelayedPeers:
    """The clients behind one connection of a gateway, by the numbers that this gateway gives them,
    and each client's sessions here."""

    def __init__(self, real: Peer, engine: BugReports, handler: Handler, log: str) -> None:
        self._real, self._engine, self._handler, self._log = real, engine, handler, log
        self._peers: dict[int, RelayedPeer] = {}
        self._of_session: dict[int, RelayedPeer] = {}
        self._held: set[tuple[RelayedPeer, object]] = set()

    def of(self, attach: WalkedAttach, session: int) -> OwnedLink:
        """Return the client of a new link; the client is opened with its first link."""
        said = attach.relayed
        if said is None:
            return OwnedLink(self._real, attach, _NOT_RELAYED)
        if said.log != self._log:
            text = f"the log '{said.log}' isn't this gateway's, it has '{self._log}'"
            return OwnedLink(self._real, attach, AmqpError(NOT_OWNER, text))
        peer = self._peer(said, session)
        return OwnedLink(peer, replace(attach, desired=said.desired), peer.refusal)

    def _peer(self, said: RelayedFor, session: int) -> RelayedPeer:
        peer = self._peers.get(said.connection)
        if peer is None:
            peer = RelayedPeer(self._real, self._engine, self, said)
            self._peers[said.connection] = peer
            self._handler.opened(peer)
        if self._of_session.get(session) is not peer:
            self._of_session[session] = peer
            peer.sessions += 1
        return peer

    def session_ended(self, session: int) -> None:
        """A session has ended, and its links before it."""
        peer = self._of_session.pop(session, None)
        if peer is None:
            return
        self._handler.session_ended(peer, session)
        peer.sessions -= 1
        if not peer.sessions:
            self._close(self._peers.pop(peer.number))

    def closed(self) -> None:
        """The connection has ended, and all links before it. May be called again."""
        peers, self._peers = self._peers, {}
        self._of_session.clear()
        for peer in peers.values():
            self._close(peer)
        self._handler.closed(self._real)

    def _close(self, peer: RelayedPeer) -> None:
        peer.end()
        for one, by in [held for held in self._held if held[0] is peer]:
            self.held(one, False, by)
        self._handler.closed(peer)

    def held(self, peer: RelayedPeer, on: bool, by: object) -> None:
        """Note whether `by` holds a client, and hold the connection while any client is held."""
        (self._held.add if on else self._held.discard)((peer, by))
        self._real.hold(bool(self._held), self)
