"""The interface by which the engine calls the service."""

from collections.abc import Callable
from typing import Protocol

from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.link import Link, Peer


class Handler(Protocol):
    """The service's end of the engine. Calls come in the order of the peer's frames."""

    def opened(self, connection: Peer) -> None:
        """The peer has sent its open: `accept` or `refuse` it."""

    def attached(self, link: Link) -> None:
        """The peer has attached a link: `open` or `refuse` it, now or later."""

    def received(self, link: Link, received: Received) -> None:
        """A run of messages has arrived on an incoming link."""

    def commanded(self, link: Link, message: bytes, delivery: bytes) -> None:
        """A message to the coordinator of transactions has arrived. `delivery` is the address of
        the delivery to answer and settle; empty: the sender has settled it already."""

    def settled(self, link: Link, outcomes: Outcomes) -> None:
        """The peer of an outgoing link has given an outcome to a run of deliveries."""

    def flowed(self, link: Link) -> None:
        """An outgoing link's credit or drain has changed."""

    def detached(self, link: Link, closed: bool) -> None:
        """The peer has detached or closed the link: answer with `link.detach`, now or later."""

    def lost(self, link: Link) -> None:
        """The link has ended, not by its peer's detach: release all state of it. May also come
        after `detached`, when the peer doesn't wait for the answer any more."""

    def session_ended(self, connection: Peer, session: int) -> None:
        """The peer has ended a session (`Link.session`); its links were `lost` before. There is no
        call for sessions that end with their connection."""

    def ended(self, links: tuple[Link, ...], answer: Callable[[str], None]) -> None:
        """The peer has ended the session or connection of these links, which were `lost`. Call
        `answer` with "" when its earlier outcomes on them are durable, or with a sentence when that
        takes too long."""

    def writable(self, links: tuple[Link, ...], writable: bool) -> None:
        """The peer of these links reads too slowly (False), or has caught up (True)."""

    def closed(self, connection: Peer) -> None:
        """The connection has ended, or is about to; its links were `lost` before. May be called
        again."""

    def passed(self, *, last: bool = False) -> None:
        """One pass over a peer's input is done: hand on the gathered work. `last`: the caller does
        nothing more in this turn but write to the sockets."""

    def failed(self, connection: Peer, reason: str) -> None:
        """A peer was refused before or because of its frames: log the reason."""
