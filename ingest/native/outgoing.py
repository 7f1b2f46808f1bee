"""Output to one connection's peer: messages by reference, and frames of their bytes."""

import sys
from collections.abc import Sequence
from typing import Any, Protocol

from distributary.ingest.native.pump import Pump, assert_sent, kept_bytes, of_batch, pointer
from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.errors import DistributaryError
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run

#: The protocol's header stands before the first frame.
HEADER_BYTES = 8
#: Most bytes of one write to a socket: fewer than `ingest.runtime.memory` maps anew each time.
WRITE_BYTES = 3 << 16


class Queue(Protocol):
    """The part of a link that its connection's output needs."""

    @property
    def queued(self) -> int:
        """The number of deliveries in the engine that wait for the peer's window or a write."""

    @property
    def session(self) -> int:
        """The address of its session."""


class Links(Protocol):
    """The links of a connection, for its output."""

    @property
    def links(self) -> Sequence[Queue]:
        """The links that are alive."""


class StaleReference(DistributaryError):
    """The engine has written a transfer whose message isn't held any more: a bug of ours."""


class Outgoing:
    """One connection's output. The engine has references to messages (`outgoing.c`); the messages'
    batches are held until the engine has none of these references any more.

    `full`: the sessions whose peer's window takes nothing, by address, while more bytes than the
    limit wait for it. They are to get no more until it has taken half of that; others go on.
    """

    __slots__ = ("_collector", "_handed", "_held", "_most", "_pump", "_state", "_transport", "full")

    def __init__(self, pump: Pump, transport: int, collector: int, most: int = sys.maxsize) -> None:
        """`transport` and `collector` are addresses. Events of the engine's own output are removed
        from the collector; 0: they aren't. `most`: bytes that may wait for windows."""
        self._pump, self._transport, self._collector = pump, transport, collector
        self._most, self._handed = most, 0  #: no more bytes wait than were handed over
        self.full: frozenset[int] = frozenset()
        self._state = ffi.new("pump_outgoing *", {"passing": HEADER_BYTES})
        self._held: list[tuple[Any, ...]] = []

    def send(
        self,
        link: int,
        batch: RecordBatch,
        run: Run,
        delivery_count: int,
        at: int,
        presettled: bool,
        transaction: int = 0,
    ) -> int:
        """Send as `pump.send` does, in a transaction unless that is 0. Messages that fit into the
        peer's window now aren't copied into the engine."""
        state, given = self._state, of_batch(batch, run)
        waiting = state.waiting
        sent = lib.pump_send(*given, delivery_count, link, at, presettled, transaction, state)
        if state.waiting > waiting:
            self._held.append(given)
        self._handed += sent
        return assert_sent(sent, batch, run)

    def output(self, room: Any, size: int) -> int:
        """Take up to `size` bytes for the peer, and return their number; fewer than `size`: there
        are no more for now; -1: there will never be any again. Raises StaleReference."""
        into = self._state, room, size
        columns = self._pump.columns
        taken = int(lib.pump_output(self._transport, *into, self._collector, columns))
        if taken == -2:
            raise StaleReference
        if taken < size and self._held and not self._state.waiting:
            self._held.clear()
        return taken

    @property
    def holds(self) -> bool:
        """Whether batches are held for references in the engine."""
        return bool(self._held)

    def written(self, links: Links) -> bool:
        """Drop held batches if no link of the connection has queued deliveries, after the engine
        has written all it can: it has dropped the references of ended links, and never writes them.
        Return whether other sessions than before are `full`.
        """
        if self._held and not any(link.queued for link in links.links):
            self._state.waiting = 0
            self._state.era += 1
            self._held.clear()
        # To count goes over all links: only if there may be too many bytes.
        return (self._handed > self._most or bool(self.full)) and self._count(links)

    def _count(self, links: Links) -> bool:
        # The engine goes on counting bytes that ended links have taken along: a session without
        # queued deliveries isn't asked.
        waiting = frozenset(link.session for link in links.links if link.queued)
        self._handed = sum(map(kept_bytes, waiting))
        most = self._most // 2 if self.full else self._most
        before, self.full = self.full, waiting if self._handed > most else frozenset()
        return self.full != before


class Socket(Protocol):
    """The part of an asyncio transport that a write buffer needs."""

    def get_write_buffer_size(self) -> int:
        """Return the bytes that it keeps, as they aren't sent yet."""


class WriteBuffer:
    """The buffer of output on its way to a socket; one for many connections."""

    __slots__ = ("_bytes", "_pointer")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        # C points to the bytes, not to a view of them: a view that is in a cycle is cleared when
        # the interpreter ends, while C may still point to it.
        room = bytearray(WRITE_BYTES)
        self._bytes, self._pointer = memoryview(room), pointer(room)

    def take(self, outgoing: Outgoing) -> bytes | memoryview | None:
        """Take the engine's bytes for a peer, at most WRITE_BYTES; None: there will never be any
        again. The result is a view of the buffer if it fills most of it, as copying it would be
        slow, and a socket that keeps it wastes little memory. Raises StaleReference."""
        size = outgoing.output(self._pointer, WRITE_BYTES)
        if size <= 0:
            return None if size < 0 else b""
        view = self._bytes[:size]
        return view if size > WRITE_BYTES // 2 else view.tobytes()

    def written(self, chunk: bytes | memoryview, socket: Socket) -> None:
        """Note that the last taken bytes were written to this socket. It keeps unsent bytes,
        perhaps without a copy: then the next output goes to another buffer."""
        if not isinstance(chunk, bytes) and socket.get_write_buffer_size():
            self._renew()
