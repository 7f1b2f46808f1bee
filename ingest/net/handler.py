"""What the service must be to the engine."""

from collections.abc import Callable
from typing import Protocol

from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.link import Link, Peer


class Handler(Protocol):
    """The service, as the engine sees it. Calls come in the order of the peer's frames."""

    def opened(self, connection: Peer) -> None:
        """The peer opened: `accept` or `refuse` it."""

    def attached(self, link: Link) -> None:
        """A link wants to be: `open` or `refuse` it, now or later."""

    def received(self, link: Link, received: Received) -> None:
        """A run of messages came on an incoming link."""

    def commanded(self, link: Link, message: bytes, delivery: bytes) -> None:
        """A message to the coordinator of transactions came; `delivery` is its address, to be
        answered and settled, or nothing if its sender waits for nothing."""

    def settled(self, link: Link, outcomes: Outcomes) -> None:
        """The peer of an outgoing link gave an outcome to a run of deliveries."""

    def flowed(self, link: Link) -> None:
        """An outgoing link's credit or drain changed."""

    def detached(self, link: Link, closed: bool) -> None:
        """The peer detached or closed the link: answer with `link.detach`, now or later."""

    def lost(self, link: Link) -> None:
        """The link has ended, by whatever cause but its peer's detach: give back all that is kept
        for it. Also after `detached`, when nobody waits for the answer any more."""

    def session_ended(self, connection: Peer, session: int) -> None:
        """The peer has ended this session (its number, as links have it); its links were `lost`
        before. Sessions that end with their connection aren't told."""

    def ended(self, links: tuple[Link, ...], answer: Callable[[str], None]) -> None:
        """The peer has ended the session or connection of these links, which were `lost`. Call
        `answer` when what it said on them before is durable, or with a sentence when that takes too
        long."""

    def writable(self, links: tuple[Link, ...], writable: bool) -> None:
        """The peer of these links reads too slowly (False), or took what waited (True)."""

    def closed(self, connection: Peer) -> None:
        """The connection has ended, or is about to; its links were `lost` before. May be called
        again."""

    def passed(self, *, last: bool = False) -> None:
        """One pass over what came is done: hand on what was gathered. `last`: in this turn the
        caller does nothing more but write to the sockets."""

    def failed(self, connection: Peer, reason: str) -> None:
        """A peer was turned away before or because of its frames, for the log."""
