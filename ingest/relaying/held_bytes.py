"""Bytes of messages that relayed links keep here, of all clients together.

Above the limit a client that sends isn't read: its messages wait for outcomes of an owner.
A client that doesn't take its messages is ended: no other consumer could have those messages, and
waiting for it would block the others. A request beyond the limit is refused.
"""

from typing import Protocol

from distributary.ingest.net.link import Peer


class Holder(Protocol):
    """A link that keeps messages."""

    @property
    def held_bytes(self) -> int:
        """Bytes that the link keeps."""

    def drop(self, reason: str) -> None:
        """End its client for this reason."""


class SendersBytes:
    """Bytes of messages that clients have sent and owners have given no outcome for."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._held: dict[Peer, None] = {}

    def add(self, peer: Peer, size: int) -> None:
        """Count bytes that came from this client."""
        self._bytes += size
        if self._bytes > self._most:
            self._held[peer] = None
            peer.hold(True, self)

    def forget(self, peer: Peer) -> None:
        """Forget a client that has gone."""
        self._held.pop(peer, None)

    def remove(self, size: int) -> None:
        """Take off bytes of messages that have their outcome, or whose link has ended."""
        self._bytes -= size
        if self._held and self._bytes <= self._most // 2:
            held, self._held = self._held, {}
            for peer in held:
                if peer.alive:
                    peer.hold(False, self)


class ReceiversBytes:
    """Bytes of messages that owners have sent and the sockets of clients haven't taken."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._holders: dict[Holder, None] = {}

    def add(self, holder: Holder, size: int) -> None:
        """Count bytes that wait on this link."""
        self._bytes += size
        self._holders[holder] = None
        if self._bytes > self._most:
            largest = max(self._holders, key=lambda one: one.held_bytes)
            largest.drop(
                f"more than {self._most} bytes of other gateways' messages wait for clients that "
                "don't take them (fleet.held_bytes_max), and most of them for this one"
            )

    def remove(self, holder: Holder, size: int) -> None:
        """Take off bytes that the client's socket took, or whose link has ended."""
        self._bytes -= size
        if not holder.held_bytes:
            self._holders.pop(holder, None)


class RequestsBytes:
    """Bytes of clients' requests that owners have not answered."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0

    def add(self, size: int) -> str:
        """Count one more waiting request; return why it can't wait, or an empty text."""
        if self._bytes + size > self._most:
            return (
                f"requests of {self._bytes} bytes wait for owners of other logs, {self._most} at "
                "most (fleet.held_bytes_max)"
            )
        self._bytes += size
        return ""

    def remove(self, size: int) -> None:
        """Take off a request that is answered or given up."""
        self._bytes -= size
