"""Links whose messages lie in the log of another gateway: what the engine's service asks of them.

`ingest.relaying` has them; it is loaded where a home has several logs.
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
    """The owner of a link that is relayed: it hears what its peer says."""

    @abstractmethod
    def received(self, received: Received) -> None:
        """The peer has sent messages."""

    @abstractmethod
    def outcomes(self, outcomes: Outcomes) -> None:
        """The peer has given deliveries an outcome."""

    @abstractmethod
    def flowed(self) -> None:
        """The peer's credit has changed, or its socket takes more, or less."""

    @abstractmethod
    def detached(self, *, closed: bool) -> None:
        """The peer has detached or closed the link: it is answered when the owner has answered."""

    @abstractmethod
    def left(self) -> None:
        """The link has ended otherwise. To say it again is no error."""


class OwnerSeen(msgspec.Struct, frozen=True):
    """The owner of another log, as this gateway sees it: whether it is connected, how many links
    are relayed there or wait for it, and how often its connection was lost."""

    log: str
    connected: bool
    links: int
    losses: int


class NotAsked(AmqpError):
    """Why the owner of a log wasn't asked: nothing is done there."""


#: How a transaction ended: as its client wanted it, or not, or nobody knows.
Ending: TypeAlias = AmqpError | InDoubt | None


class Branch(Protocol):
    """The work of a client's transaction in one log, ours or another gateway's. Each is ended once,
    by `prepare` or `end`; `then` is called when its log has answered."""

    def name(
        self, decision: str, logs: tuple[str, ...], then: Callable[[AmqpError | None], None]
    ) -> None:
        """Its commit will decide the transaction with this id, of which these other logs have
        branches."""

    def prepare(self, branch: str, then: Callable[[Ending], None]) -> None:
        """It waits for the decision of another log, under this global id. Who can't say that it is
        prepared has no say in it: the decision won't be made."""

    def end(self, *, commit: bool, global_id: str, then: Callable[[Ending], None]) -> None:
        """Commit it or roll it back. With the global id of a transaction manager its commit
        prepares it under that."""

    def spoil(self, reason: AmqpError) -> None:
        """A part of the transaction can't be done: it can only be rolled back."""

    def give_up(self) -> None:
        """It has taken too long, or holds too many deliveries: those that were given an outcome in
        it aren't held for it any more."""


class ClientTransactions(Protocol):
    """The transactions that clients have declared here, to relayed links."""

    def knows(self, connection: Peer, number: int) -> bool:
        """Whether a connection has such an open transaction."""

    def elsewhere(self, number: int, log: str) -> Branch | None:
        """What a known transaction has in this log, of another gateway or relayed to ourselves."""

    def relay(self, connection: Peer, number: int, log: str, branch: Branch) -> AmqpError | None:
        """A known transaction gets work in such a log, its first one there. Why that can't be, if
        so: a part of it has failed before."""

    def watch(self, connection: Peer, number: int) -> None:
        """Something is done in it in another gateway's log: from now on, if no time ran, it has so
        much until it is given up."""

    def hold(self, connection: Peer, number: int, count: int) -> None:
        """So many deliveries that were given an outcome in it are held at a relayed link. Where
        that is more than a transaction may hold it is given up."""

    def spoil(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """A part of it can't be done: it can only be rolled back. Nothing, if it isn't known any
        more."""


class Relaying(Protocol):
    """A gateway's part in a lake."""

    @property
    def log(self) -> str:
        """The log that it owns; empty where the home is no lake."""

    def temporary_name(self, unique: str) -> str:
        """The name of a temporary destination of its log."""

    def relays(self, finish_pass: Callable[[], None], transactions: ClientTransactions) -> "Relays":
        """Its relayed links; `finish_pass` hands on what was gathered for peers."""


class Relays(Protocol):
    """All relayed links of a gateway."""

    @property
    def logs(self) -> tuple[str, tuple[str, ...]]:
        """Its own log, and the others of its lake; empty, and none, where the home is none."""

    def owners(self) -> list[OwnerSeen]:
        """The owners of the logs to which links were relayed so far."""

    def client(self, number: int) -> Peer | None:
        """The client of this gateway whose links it relays under this number; None: it has gone."""

    def logs_of(self, word: str) -> tuple[str, ...]:
        """The logs of a topic, a queue or a pattern of topics, by the word of the log for it."""

    def divides(self, link: Link, topic: str | None) -> bool:
        """Whether messages that come on this link, for this topic or (None) those that they name,
        may be of several logs."""

    async def ask(
        self, link: Link, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """What the node of the owner of another log answers to a request that came by this link,
        which is encoded with a message-id and the address of its answer; or why there is no
        answer."""

    async def ask_owner(
        self, log: str, encoded: Callable[[int, str], bytes]
    ) -> NodeAnswer | AmqpError:
        """The same, of what this gateway itself has to ask there."""

    def elsewhere(self, intent: AttachIntent) -> tuple[str, ...]:
        """The logs where this link belongs: another one, or several, ours perhaps among them; or
        none: it belongs here."""

    def beside(self, word: str) -> tuple[str, ...]:
        """The logs of what a word of the log means, unless all of it is in ours."""

    def attach(
        self, link: Link, attach: Attach, intent: AttachIntent, logs: tuple[str, ...]
    ) -> None:
        """Relay the link, from now on, to the owners of these logs."""

    def own_part(self, link: Link, topic: str | None, received: Received) -> Received | None:
        """What is for our log of messages of a link that is divided over logs; the rest is on its
        way to other owners."""

    def publish(self, link: Link, log: str, data: bytes) -> None:
        """A message that this link's client has sent, so to speak, to a topic of another log: it
        isn't persistent, names in `to` where it goes, and its credit comes back when it is on its
        way."""

    def left(self, link: Link) -> None:
        """A link that isn't relayed has ended. May be said again."""

    def session_ended(self, connection: Peer, session: int) -> None:
        """The peer has ended this session; its links have left."""

    def closed(self, connection: Peer) -> None:
        """The connection has ended, or is about to; its links have left. May be said again."""

    def when_ended(self, links: tuple[Link, ...], then: Callable[[], None]) -> None:
        """Do this when the owners know the end of the sessions of these links, or are lost."""

    def close(self) -> None:
        """The gateway ends, and its peers have gone."""


class OneLog:
    """The part in a lake of a gateway whose home is none."""

    log = ""

    def temporary_name(self, unique: str) -> str:
        """Nobody else looks for it."""
        return unique

    def relays(
        self,
        finish_pass: Callable[[], None],  # noqa: ARG002 (nothing comes of other gateways)
        transactions: ClientTransactions,  # noqa: ARG002 (none has work elsewhere)
    ) -> Relays:
        """No link is relayed."""
        return NoRelays()


class NoRelays:
    """Those of a gateway whose home has one log."""

    @property
    def logs(self) -> tuple[str, tuple[str, ...]]:
        """It needs no name."""
        return "", ()

    def owners(self) -> list[OwnerSeen]:
        """No link was."""
        return []

    def client(self, _number: int) -> Peer | None:
        """None has one."""
        return None

    def logs_of(self, _word: str) -> tuple[str, ...]:
        """The one that there is."""
        return ("",)

    def divides(self, _link: Link, _topic: str | None) -> bool:
        """All of them are of the one log."""
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
        """All is in the one log."""
        return ()

    def attach(
        self, link: Link, attach: Attach, intent: AttachIntent, logs: tuple[str, ...]
    ) -> None:
        """There is no other log."""
        raise NotImplementedError

    def own_part(self, _link: Link, _topic: str | None, received: Received) -> Received | None:
        """All of it."""
        return received

    def publish(self, link: Link, log: str, data: bytes) -> None:
        """There is no other log."""
        raise NotImplementedError

    def left(self, _link: Link) -> None:
        """Nothing of it was another log's."""

    def session_ended(self, _connection: Peer, _session: int) -> None:
        """It had no relayed link."""

    def closed(self, _connection: Peer) -> None:
        """It had none."""

    def when_ended(self, _links: tuple[Link, ...], then: Callable[[], None]) -> None:
        """At once."""
        then()

    def close(self) -> None:
        """There is nothing."""
