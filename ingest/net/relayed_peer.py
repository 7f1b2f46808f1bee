"""Clients of other gateways, as the owner of a log has them: behind one connection of a gateway.

Rule 1: only the links of a connection that another gateway has made are theirs (`Access.trusts`).
Rule 2: a client is one peer here, however many of its sessions there are: it is opened with its
        first link and closed with its last session.
Rule 3: what ends a client ends its links; the others on the connection go on.
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

#: A gateway that isn't the owner of a log says so of a link to it.
NOT_OWNER = "distributary:not-owner"
_NO_GATEWAY = AmqpError(UNAUTHORIZED, "only gateways relay links for others")
_NOT_RELAYED = AmqpError(UNAUTHORIZED, "a gateway has no links here but those of its clients")
#: The links of a client that has ended are refused so until its last session has ended.
_OVER = AmqpError("amqp:connection:forced", "the client's connection has ended")


#: Sessions and links of one connection between two gateways: each client's are bounded where it is
#: connected. The engine has no more channels.
CHANNELS_MAX = 1 << 15
LINKS_MAX = 1 << 20
#: Likewise the deliveries that it holds unsettled.
UNSETTLED_MAX = (1 << 31) - 1


def relaying_limits(limits: Amqp, gateway: GatewayLogin) -> Amqp:
    """The limits of a connection whose peer is a gateway."""
    return replace(
        limits,
        channels_max=CHANNELS_MAX,
        links_max=LINKS_MAX,
        connection_unsettled_max=UNSETTLED_MAX,
        idle_timeout_ms=gateway.silence_ms,
    )


class Holding(Protocol):
    """Holds a connection as long as one of its clients is held."""

    def held(self, peer: "RelayedPeer", on: bool) -> None:
        """This client's messages wait, or don't any more."""


class RelayedPeer(ContainedPeer):
    """A client of another gateway. `refusal` is why its links are refused, if they are."""

    def __init__(self, real: Peer, engine: BugReports, holding: Holding, said: RelayedFor) -> None:
        self._real, self._engine, self._holding = real, engine, holding
        self.container, self.user, self.peer = said.container, said.user, said.peer
        self.through, self.number = real.container, said.connection
        self._client: Peer | None = None
        self.sole, self.outflow, self.outgoing = said.sole, real.outflow, real.outgoing
        self.accepted = self.closing = False
        self.sessions = 0  #: how many it has here
        self.refusal: AmqpError | None = None
        self._ended = False

    @property
    def alive(self) -> bool:  # type: ignore[override]
        """Whether its links can live."""
        return self._real.alive and not self._ended

    @property
    def writable(self) -> bool:
        """Whether the other gateway takes what is written to it."""
        return self._real.writable

    @property
    def inbound(self) -> LinkKeeper:
        """The connection's links, those of other clients too."""
        return self._real.inbound

    @property
    def client(self) -> Peer:  # type: ignore[override]
        """Itself, or whom it stands for."""
        return self._client or self

    def stand_for(self, client: Peer) -> None:
        """It is a client of this gateway, which relays its links to itself."""
        self._client = client

    def accept(self, container_id: str) -> None:  # noqa: ARG002 (the gateway has answered its open)
        """Its links may come."""
        self.accepted = True

    def refuse(self, container_id: str, condition: str, description: str, field: str) -> None:  # noqa: ARG002
        """Its links are refused for this reason."""
        self.refusal = AmqpError(condition, description)

    def close(self, condition: str, description: str) -> None:
        """End all of its links, and refuse those that come."""
        self.closing, self.refusal = True, AmqpError(condition, description)
        for link in self.inbound.links:
            if link.connection is self:
                link.end(condition, description)

    def end(self) -> None:
        """Its last session has ended, or the connection."""
        self._client = None
        self._ended, self.refusal = True, _OVER

    def abort(self) -> None:
        """Drop the connection: what is wrong with this client can't be ended otherwise."""
        self._real.abort()

    def hold(self, on: bool) -> None:
        self._holding.held(self, on)

    def touch(self) -> None:
        self._real.touch()

    def flush(self) -> None:
        self._real.flush()

    def go_on(self) -> None:
        self._real.go_on()

    def leave(self, at_once: bool) -> None:
        self._real.leave(at_once)


class OwnedLink(msgspec.Struct, frozen=True):
    """Whose a link is that comes, and what its attach says for that peer. It is to be refused if
    there is a `refusal`."""

    peer: Peer
    attach: WalkedAttach
    refusal: AmqpError | None = None


class Peers(Protocol):
    """Whose the links of one connection are."""

    def of(self, attach: WalkedAttach, session: int) -> OwnedLink:
        """A link wants to be on this session."""

    def session_ended(self, session: int) -> None:
        """A session has ended, and its links before it."""

    def closed(self) -> None:
        """The connection has ended, and all links before it. May be said again."""


class OnePeer:
    """All links are those of the connection's own peer."""

    def __init__(self, connection: Peer, handler: Handler) -> None:
        self._connection, self._handler = connection, handler

    def of(self, attach: WalkedAttach, session: int) -> OwnedLink:  # noqa: ARG002 (whichever it is)
        """Its own; who says that it is another's isn't believed."""
        return OwnedLink(self._connection, attach, _NO_GATEWAY if attach.relayed else None)

    def session_ended(self, session: int) -> None:
        """A session has ended, and its links before it."""
        self._handler.session_ended(self._connection, session)

    def closed(self) -> None:
        """The connection has ended, and all links before it. May be said again."""
        self._handler.closed(self._connection)


class RelayedPeers:
    """The clients behind one connection of a gateway, by the numbers that it gives them, and the
    sessions that each has here."""

    def __init__(self, real: Peer, engine: BugReports, handler: Handler, log: str) -> None:
        self._real, self._engine, self._handler, self._log = real, engine, handler, log
        self._peers: dict[int, RelayedPeer] = {}
        self._of_session: dict[int, RelayedPeer] = {}
        self._held: set[RelayedPeer] = set()

    def of(self, attach: WalkedAttach, session: int) -> OwnedLink:
        """The client for whom a link is, which comes with it if it is the first one."""
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
        """The connection has ended, and all links before it. May be said again."""
        peers, self._peers = self._peers, {}
        self._of_session.clear()
        for peer in peers.values():
            self._close(peer)
        self._handler.closed(self._real)

    def _close(self, peer: RelayedPeer) -> None:
        peer.end()
        if peer in self._held:
            self.held(peer, False)
        self._handler.closed(peer)

    def held(self, peer: RelayedPeer, on: bool) -> None:
        """One of them is held, or isn't any more."""
        (self._held.add if on else self._held.discard)(peer)
        self._real.hold(bool(self._held))
