"""Interfaces of links whose messages are in the log of another gateway.

`ingest.relaying` implements them, and is loaded where a home has several logs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.link import Link, Peer
from distributary.pipeline.management.node_answers import NodeAnswer
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.subscriptions.attach_intent import Attach, AttachIntent
from distributary.pipeline.transactions.transaction import InDoubt


class RelayedLink(ABC):
    """The `Link.owner` of a relayed link: it gets the peer's messages, outcomes and credit."""

    @abstractmethod
    def received(self, received: Received) -> None:
        """The peer has sent messages."""

    @abstractmethod
    def outcomes(self, outcomes: Outcomes) -> None:
        """The peer has given deliveries an outcome."""

    @abstractmethod
    def flowed(self) -> None:
        """The peer's credit has changed, or its socket has become writable, or isn't any more."""

    @abstractmethod
    def detached(self, *, closed: bool) -> None:
        """The peer has detached or closed the link: answer it when the log's owner has answered."""

    @abstractmethod
    def left(self) -> None:
        """The link has ended otherwise. May be called again."""


class OwnerSeen(msgspec.Struct, frozen=True):
    """The owner of another log, as this gateway sees it: whether it is connected, the number of
    links that are relayed there or wait for it, and how often its connection was lost."""

    log: str
    connected: bool
    links: int
    losses: int


class NotAsked(AmqpError):
    """Why a log's owner wasn't asked: nothing is done there."""


#: How a transaction ended: as its client wanted (None), with an error, or in doubt.
Ending: TypeAlias = AmqpError | InDoubt | None


class Branch(Protocol):
    """The work of a client's transaction in one log, ours or another gateway's. Each is ended once,
    by `prepare` or `end`; `then` is called when its log has answered."""

    def name(
        self, decision: str, logs: tuple[str, ...], then: Callable[[AmqpError | None], None]
    ) -> None:
        """Make this branch's commit decide the transaction with the id `decision`, of which `logs`
        have the other branches."""

    def prepare(self, branch: str, then: Callable[[Ending], None]) -> None:
        """Prepare this branch under the global id `branch`; it then waits for the decision of
        another log. Unless each branch is prepared, the transaction isn't committed."""

    def end(self, *, commit: bool, global_id: str, then: Callable[[Ending], None]) -> None:
        """Commit this branch or roll it back. With a transaction manager's global id, `commit` only
        prepares it under that id."""

    def spoil(self, reason: AmqpError) -> None:
        """Note that a part of the transaction failed: it can only be rolled back."""

    def give_up(self) -> None:
        """Stop holding deliveries for the transaction: it has taken too long, or holds too many."""


class ClientTransactions(Protocol):
    """The interface of relayed links to the transactions that clients have declared here."""

    def knows(self, connection: Peer, number: int) -> bool:
        """Whether a connection has an open transaction with this number."""

    def elsewhere(self, number: int, log: str) -> Branch | None:
        """Return the relayed branch of a known transaction in this log (another's, or our own)."""

    def relay(self, connection: Peer, number: int, log: str, branch: Branch) -> AmqpError | None:
        """Add a known transaction's first branch in a log. Return the error of an earlier part, if
        one has failed."""

    def watch(self, connection: Peer, number: int) -> None:
        """Start a transaction's time limit, unless it runs: it has work in another log."""

    def hold(self, connection: Peer, number: int, count: int) -> None:
        """Count deliveries with an outcome in the transaction that a relayed link holds. A
        transaction that holds too many is given up."""

    def spoil(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """Note that a part of the transaction failed: it can only be rolled back. Do nothing if it
        isn't known any more."""


class Relaying(Protocol):
    """A gateway's part in a lake."""

    @property
    def log(self) -> str:
        """The log that it owns; empty where the home is no lake."""

    def temporary_name(self, unique: str) -> str:
        """Return the name of a temporary destination of its log."""

    def relays(self, finish_pass: Callable[[], None], transactions: ClientTransactions) -> "Relays":
        """Make its relayed links; `finish_pass` hands on the work gathered for peers."""


class Relays(Protocol):
    """All relayed links of a gateway."""

    @property
    def logs(self) -> tuple[str, tuple[str, ...]]:
        """Its own log, and its lake's other logs; ("", ()) where the home is no lake."""

    def owners(self) -> list[OwnerSeen]:
        """Return the owners of the logs to which links were relayed so far."""

    def client(self, number: int) -> Peer | None:
        """Return the client whose links are relayed under this number; None: it has gone."""

    def logs_of(self, word: str) -> tuple[str, ...]:
        """Return the logs of a topic, a queue or a pattern of topics, by its word in the log."""

    def divides(self, link: Link, topic: str | None) -> bool:
        """Whether messages on this link, to this topic or (None) to topics that they name, may
        belong to several logs."""

    async def ask(
        self, link: Link, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """Send a request of this link to the management node of another log's owner, and return its
        answer, or the reason why there is none. `encoded` gets a message-id and the reply
        address."""

    async def ask_owner(
        self, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """Ask as `ask` does, for this gateway itself."""

    def elsewhere(self, intent: AttachIntent) -> tuple[str, ...]:
        """Return the logs to which a link is relayed: another one, or several, perhaps with ours;
        empty: the link belongs here."""

    def beside(self, word: str) -> tuple[str, ...]:
        """Return the logs of a destination, by its word in the log; empty if ours is the only
        one."""

    def attach(
        self, link: Link, attach: Attach, intent: AttachIntent, logs: tuple[str, ...]
    ) -> None:
        """Relay the link, from now on, to the owners of these logs."""

    def own_part(self, link: Link, topic: str | None, received: Received) -> Received | None:
        """Send a divided link's messages for other logs to their owners; return ours, if any."""

    def publish(self, link: Link, log: str, data: bytes) -> None:
        """Send a message to a topic of another log, as if this link's client had sent it there. It
        isn't persistent, its `to` names the topic, and its credit comes back once it is sent."""

    def left(self, link: Link) -> None:
        """A link that isn't relayed has ended. May be called again."""

    def session_ended(self, connection: Peer, session: int) -> None:
        """The peer has ended this session; its links have left."""

    def closed(self, connection: Peer) -> None:
        """The connection has ended, or is about to; its links have left. May be called again."""

    def when_ended(self, links: tuple[Link, ...], then: Callable[[], None]) -> None:
        """Call `then` when the owners know of the end of these links' sessions, or are lost."""

    def close(self) -> None:
        """The gateway ends, and its peers have gone."""


class OneLog:
    """The part of a gateway whose home is no lake."""

    log = ""

    def temporary_name(self, unique: str) -> str:
        """Return the unique part: there is no log to name."""
        return unique

    def relays(
        self,
        finish_pass: Callable[[], None],  # noqa: ARG002 (there are no other gateways)
        transactions: ClientTransactions,  # noqa: ARG002 (none has work elsewhere)
    ) -> Relays:
        """No link is relayed."""
        return NoRelays()


class NoRelays:
    """The relays of a gateway whose home has one log: no link is relayed."""

    @property
    def logs(self) -> tuple[str, tuple[str, ...]]:
        """The one log has no name here, and there are no others."""
        return "", ()

    def owners(self) -> list[OwnerSeen]:
        """Return no owners."""
        return []

    def client(self, _number: int) -> Peer | None:
        """Return no client."""
        return None

    def logs_of(self, _word: str) -> tuple[str, ...]:
        """Return the one log."""
        return ("",)

    def divides(self, _link: Link, _topic: str | None) -> bool:
        """All messages belong to the one log."""
        return False

    async def ask(
        self, link: Link, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """There is no other log."""
        raise NotImplementedError

    async def ask_owner(
        self, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """There is no other log."""
        raise NotImplementedError

    def elsewhere(self, _intent: AttachIntent) -> tuple[str, ...]:
        """Every link belongs here."""
        return ()

    def beside(self, _word: str) -> tuple[str, ...]:
        """Every destination is in the one log alone."""
        return ()

    def attach(
        self, link: Link, attach: Attach, intent: AttachIntent, logs: tuple[str, ...]
    ) -> None:
        """There is no other log."""
        raise NotImplementedError

    def own_part(self, _link: Link, _topic: str | None, received: Received) -> Received | None:
        """Return all messages."""
        return received

    def publish(self, link: Link, log: str, data: bytes) -> None:
        """There is no other log."""
        raise NotImplementedError

    def left(self, _link: Link) -> None:
        """Do nothing."""

    def session_ended(self, _connection: Peer, _session: int) -> None:
        """Do nothing: it had no relayed link."""

    def closed(self, _connection: Peer) -> None:
        """Do nothing: it had no relayed link."""

    def when_ended(self, _links: tuple[Link, ...], then: Callable[[], None]) -> None:
        """Call `then` at once."""
        then()

    def close(self) -> None:
        """Do nothing."""
