"""The bytes of messages that relayed links keep here, of all clients together.

A client that sends isn't read while they are too many: its messages wait for outcomes of an owner.
One that receives, and doesn't, is ended: nobody else could have its messages, and waiting for it
would have others wait. A request beyond them is refused.
"""

from typing import Protocol

from distributary.ingest.net.link import Peer


class Holder(Protocol):
    """A link that keeps messages."""

    @property
    def held_bytes(self) -> int:
        """How many bytes it keeps."""

    def drop(self, reason: str) -> None:
        """Its client is ended for this reason."""


class SendersBytes:
    """What clients have sent and owners have given no outcome for."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._held: dict[Peer, None] = {}

    def add(self, peer: Peer, size: int) -> None:
        """So much more came of this client."""
        self._bytes += size
        if self._bytes > self._most:
            self._held[peer] = None
            peer.hold(True)

    def forget(self, peer: Peer) -> None:
        """This client has gone: nothing is kept of it, however long the others wait."""
        self._held.pop(peer, None)

    def remove(self, size: int) -> None:
        """So much has its outcome, or is nobody's any more."""
        self._bytes -= size
        if self._held and self._bytes <= self._most // 2:
            held, self._held = self._held, {}
            for peer in held:
                if peer.alive:
                    peer.hold(False)


class ReceiversBytes:
    """What owners have sent and the sockets of clients haven't taken."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._holders: dict[Holder, None] = {}

    def add(self, holder: Holder, size: int) -> None:
        """So much more waits on this link."""
        self._bytes += size
        self._holders[holder] = None
        if self._bytes > self._most:
            largest = max(self._holders, key=lambda one: one.held_bytes)
            largest.drop(
                f"more than {self._most} bytes of other gateways' messages wait for clients that "
                "don't take them (fleet.held_bytes_max), and most of them for this one"
            )

    def remove(self, holder: Holder, size: int) -> None:
        """So much was taken, or is nobody's any more."""
        self._bytes -= size
        if not holder.held_bytes:
            self._holders.pop(holder, None)


class RequestsBytes:
    """What clients have asked of owners that have not answered."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0

    def add(self, size: int) -> str:
        """One more is to wait; why it can't, or nothing."""
        if self._bytes + size > self._most:
            return (
                f"requests of {self._bytes} bytes wait for owners of other logs, {self._most} at "
                "most (fleet.held_bytes_max)"
            )
        self._bytes += size
        return ""

    def remove(self, size: int) -> None:
        """It is answered, or nobody waits any more."""
        self._bytes -= size
