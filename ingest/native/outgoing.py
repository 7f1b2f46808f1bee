"""What goes out to one connection's peer: messages by reference, and frames of their bytes."""

from collections.abc import Sequence
from typing import Any, Protocol

from distributary.ingest.native.pump import Pump, assert_sent, of_batch, pointer
from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.errors import DistributaryError
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run

#: The protocol's header stands before the first frame.
HEADER_BYTES = 8
#: Bytes that one write of a socket gives: below what `ingest.runtime.memory` maps anew each time.
WRITE_BYTES = 3 << 16


class Queue(Protocol):
    """A link, to its connection's output."""

    @property
    def queued(self) -> int:
        """How many deliveries wait in the engine, for the peer's window or to be written."""


class Links(Protocol):
    """The links of a connection, to its output."""

    @property
    def links(self) -> Sequence[Queue]:
        """Those that are alive."""


class StaleReference(DistributaryError):
    """The engine wrote a transfer whose message isn't held any more: a bug of ours."""


class Outgoing:
    """One connection's output. The engine has references of messages (`outgoing.c`); the batches in
    which they lie are held until the engine has none of them any more."""

    __slots__ = ("_collector", "_held", "_pump", "_state", "_transport")

    def __init__(self, pump: Pump, transport: int, collector: int) -> None:
        """`transport` and `collector` are addresses. What the collector is told by the engine's own
        output isn't told on; 0: it is."""
        self._pump, self._transport, self._collector = pump, transport, collector
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
        """As `pump.send`, in a transaction if it isn't 0. What the peer takes now isn't copied into
        the engine."""
        state, given = self._state, of_batch(batch, run)
        waiting = state.waiting
        sent = lib.pump_send(*given, delivery_count, link, at, presettled, transaction, state)
        if state.waiting > waiting:
            self._held.append(given)
        return assert_sent(sent, batch, run)

    def output(self, room: Any, size: int) -> int:
        """Take up to `size` bytes for the peer; -1 when there will never be any again. Less than
        `size`: there is no more for now. Raises StaleReference."""
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
        """Whether batches are held, for references that the engine has."""
        return bool(self._held)

    def written(self, links: Links) -> None:
        """The engine has written what it can now, and these are the connection's links. What none
        of them has queued any more it took back when its link ended: it won't write that."""
        if self._held and not any(link.queued for link in links.links):
            self._state.waiting = 0
            self._state.era += 1
            self._held.clear()


class Socket(Protocol):
    """Takes what is written."""

    def get_write_buffer_size(self) -> int:
        """Bytes that it keeps, as they don't go out yet."""


class WriteBuffer:
    """Where output lies on its way to a socket; one for many connections."""

    __slots__ = ("_bytes", "_pointer")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        # C points to the bytes, not to a view of them: a view that lies in a cycle is cleared when
        # the interpreter ends, under whoever still points to it.
        room = bytearray(WRITE_BYTES)
        self._bytes, self._pointer = memoryview(room), pointer(room)

    def take(self, outgoing: Outgoing) -> bytes | memoryview | None:
        """What the engine has for a peer, at most WRITE_BYTES; None: it will never have any again.
        These are the buffer's own bytes if they are most of it, as a copy of as many is dear, and
        what waits for a socket then holds little more. Raises StaleReference."""
        size = outgoing.output(self._pointer, WRITE_BYTES)
        if size <= 0:
            return None if size < 0 else b""
        view = self._bytes[:size]
        return view if size > WRITE_BYTES // 2 else view.tobytes()

    def written(self, chunk: bytes | memoryview, socket: Socket) -> None:
        """What was taken last was written to this socket. It keeps what doesn't go out yet, perhaps
        without a copy: then the next output goes to another buffer."""
        if not isinstance(chunk, bytes) and socket.get_write_buffer_size():
            self._renew()
