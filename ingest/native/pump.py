"""Whole runs of messages between Proton and Python, in one call each (`pump.c`).
All functions run on the event loop's thread only.
"""

from array import array
from enum import IntEnum
from typing import Any

from cproton import ffi as proton_ffi
from cproton import lib as proton

from distributary.ingest.native.pump_library import ffi, lib
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.runtime import clock
from distributary.pipeline.codec.amqp_codes import Descriptor
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run

#: Most messages that one call receives; a read of the socket seldom holds more.
ROOM_MESSAGES = 4096
#: Most runs of outcomes that one call returns, as each is work for Python; most events it handles.
ROOM_OUTCOMES = 128
EVENTS_MAX = 4096
#: Most bytes of messages that one call receives; a larger message is received alone.
ROOM_BYTES = 1 << 20

#: Stands for a message that doesn't name the kind of its destination.
NO_DESTINATION = 255

ACCEPTED, REJECTED = int(Descriptor.ACCEPTED), int(Descriptor.REJECTED)
RELEASED = int(Descriptor.RELEASED)

#: The arrays with the places of a message's address and id.
_PLACES = ("to_at", "to_size", "id_at", "id_size")

#: Events of Proton that Python wants to see; all others are dropped by the pump.
_EVENTS = (
    proton.PN_CONNECTION_REMOTE_OPEN,
    proton.PN_CONNECTION_REMOTE_CLOSE,
    proton.PN_SESSION_REMOTE_OPEN,
    proton.PN_SESSION_REMOTE_CLOSE,
    proton.PN_LINK_REMOTE_OPEN,
    proton.PN_LINK_REMOTE_CLOSE,
    proton.PN_LINK_REMOTE_DETACH,
    proton.PN_LINK_FLOW,
)


class Stop(IntEnum):
    """Why the pump stopped; see `pump.c`."""

    IDLE = lib.PUMP_IDLE
    EVENT = lib.PUMP_EVENT
    FULL = lib.PUMP_FULL
    TOO_LARGE = lib.PUMP_TOO_LARGE
    MALFORMED = lib.PUMP_MALFORMED
    ALONE = lib.PUMP_ALONE
    COMMAND = lib.PUMP_COMMAND


def address(pointer: Any) -> int:
    """Return the address of a Proton object; it identifies the object while Proton keeps it."""
    return int(proton_ffi.cast("uintptr_t", pointer))


class Pump:
    """The arrays that `pump.c` fills; one for all connections of a loop. After each call of
    `events` the caller must take the results (`received`, `outcomes`) before the next one."""

    def __init__(self, message_bytes_max: int) -> None:
        self.columns = p = ffi.new("pump_t *")
        self._arrays = {
            "bytes": ffi.new("char[]", ROOM_BYTES),
            **{n: ffi.new("uint32_t[]", ROOM_MESSAGES) for n in ("lengths", "ttl")},
            **{n: ffi.new("uint32_t[]", ROOM_MESSAGES) for n in _PLACES},
            **{n: ffi.new("int64_t[]", ROOM_MESSAGES) for n in ("expires_at", "deliver_at")},
            **{n: ffi.new("uint8_t[]", ROOM_MESSAGES) for n in ("durable", "priority")},
            **{
                n: ffi.new("uint64_t[]", ROOM_MESSAGES)
                for n in ("deliveries", "unsettled", "settled")
            },
            "outcomes": ffi.new("pump_outcome[]", ROOM_OUTCOMES),
        }
        for name, room in self._arrays.items():
            setattr(p, name, room)
        # Each array's bytes: a slice of one of them is a copy, without a call.
        buffers = {name: ffi.buffer(room) for name, room in self._arrays.items()}
        self._bytes, self._lengths, self._ttl = (buffers[n] for n in ("bytes", "lengths", "ttl"))
        self._durable, self._priority = buffers["durable"], buffers["priority"]
        self._deliveries = buffers["deliveries"]
        self._to_at, self._to_size, self._id_at, self._id_size = (buffers[n] for n in _PLACES)
        self._expires_at, self._deliver_at = buffers["expires_at"], buffers["deliver_at"]
        p.bytes_room = ROOM_BYTES
        p.room = p.unsettled_room = p.settled_room = ROOM_MESSAGES
        p.outcomes_room, p.seen_max = ROOM_OUTCOMES, EVENTS_MAX
        p.message_bytes_max = self.message_bytes_max = message_bytes_max
        p.event_mask = sum(1 << event for event in _EVENTS)
        p.type_delivery, p.type_flow = proton.PN_DELIVERY, proton.PN_LINK_FLOW
        #: Counts of the last call of `events`: messages, runs of outcomes, events.
        self.received_count = self.outcomes_count = self.seen = 0
        #: Whether this pass has received a part of a message that isn't complete.
        self.unfinished = 0

    def events(self, collector: int) -> int:
        """Handle events up to one that needs a decision; return why it stopped (a `Stop`)."""
        p = self.columns
        stop: int = lib.pump_events(collector, p)
        self.received_count, self.outcomes_count, self.seen = p.count, p.outcomes_count, p.seen
        self.unfinished = p.unfinished
        return stop

    def begin(self, size: int) -> None:
        """Begin a pass over `size` bytes of a peer: all messages that `events` receives until the
        next pass get the present time."""
        columns, self.unfinished = self.columns, 0
        columns.unfinished, columns.brought, columns.now = False, size, clock.now()

    def accept_late(self) -> None:
        """Accept no message on receipt from now on, as it may be refused later."""
        self.columns.late = True

    @property
    def stopped_link(self) -> int:
        """The link of the delivery that stopped the pump."""
        return int(self.columns.link)

    @property
    def stopped_delivery(self) -> int:
        return int(self.columns.delivery)

    def id_of(self, message: memoryview) -> bytes:
        """Return the id of a stored message by which duplicates are found, with its constructor;
        empty if it has none."""
        if lib.pump_inspect(ffi.from_buffer(message), len(message), self.columns, 0):
            return b""
        at, size = self.columns.id_at[0], self.columns.id_size[0]
        return bytes(message[at : at + size])

    def received(self, alone: bytes = b"") -> Received:
        """Return the received messages; `alone` are the bytes of one too large for the arrays."""
        p = self.columns
        n = p.count
        four, eight = 4 * n, 8 * n
        return Received(
            link=p.link,
            count=n,
            blob=alone or self._bytes[: p.bytes_used],
            lengths=self._lengths[:four],
            durable=self._durable[:n],
            priority=self._priority[:n],
            ttl=self._ttl[:four],
            deliveries=self._deliveries[:eight],
            unsettled=p.to_settle,
            to_at=self._to_at[:four],
            to_size=self._to_size[:four],
            id_at=self._id_at[:four],
            id_size=self._id_size[:four],
            expires_at=self._expires_at[:eight] if p.expiring else b"",
            deliver_at=self._deliver_at[:eight] if p.delayed else b"",
            transaction=p.transaction,
            plain=not p.special,
        )

    def receive_alone(self) -> Received | None:
        """Return the one message that was too large for the arrays; None if it is malformed."""
        p = self.columns
        size = proton.pn_delivery_pending(proton_ffi.cast("pn_delivery_t *", p.delivery))
        blob = bytes(size)  # filled in place, before it is shared: a copy of 16 MiB takes 5 ms
        p.to_settle = 0
        if lib.pump_receive_alone(p, ffi.from_buffer(blob), size):
            return None
        return self.received(blob)

    def outcomes(self) -> list[Outcomes]:
        p = self.columns
        addresses = bytes(ffi.buffer(p.unsettled, 8 * p.unsettled_count))
        found, at, nth = [], 0, 0
        for i in range(p.outcomes_count):
            o = p.outcomes[i]
            size = 8 * o.count if o.confirm else 0
            run: Run = range(o.first, o.first + o.step * o.count, o.step) if o.step else range(0)
            if not o.step:
                run = array("q", ffi.buffer(p.settled + nth, 8 * o.count)[:])
            nth += o.count
            found.append(
                Outcomes(
                    o.link,
                    o.delivered_at,
                    run,
                    o.state,
                    bool(o.failed),
                    bool(o.undeliverable),
                    addresses[at : at + size],
                    o.transaction,
                )
            )
            at += size
        return found


def settle(deliveries: bytes, state: int) -> None:
    """Settle deliveries by address with `state`, or with the peer's own state if it is 0.

    The caller must know that their link and connection are still alive.
    """
    lib.pump_settle(ffi.from_buffer("uint64_t[]", deliveries), len(deliveries) // 8, state)


def offsets(lengths: Bytes, count: int) -> bytearray:
    """Return where each message of a blob begins, and where the last one ends: int32."""
    out = bytearray(4 * (count + 1))
    lib.pump_offsets(
        ffi.from_buffer("uint32_t[]", lengths), count, ffi.from_buffer("int32_t[]", out)
    )
    return out


def groups(batch: RecordBatch) -> bytes:
    """Return a hash of each message's group-id as uint64, 0 where it has none; empty if no message
    has one."""
    out = bytearray(8 * batch.count)
    found = lib.pump_groups(
        ffi.from_buffer(batch.blob),
        ffi.from_buffer("int32_t[]", batch.offsets),
        batch.count,
        ffi.from_buffer("uint64_t[]", out),
    )
    return bytes(out) if found else b""


def laid_out(blob: Bytes, lengths: Bytes, count: int) -> tuple[bytearray, bool]:
    """Return the `offsets` of a blob's messages, and whether any message has a group."""
    out = bytearray(4 * (count + 1))
    grouped = lib.pump_batch(
        ffi.from_buffer(blob),
        ffi.from_buffer("uint32_t[]", lengths),
        count,
        ffi.from_buffer("int32_t[]", out),
    )
    return out, bool(grouped)


def destinations(received: Received) -> bytes:
    """Return the kind of destination that each message names, one byte each: the value of its
    annotation `x-opt-jms-dest` (0 queue, 1 topic, 2 temporary queue, 3 temporary topic), or of the
    older `x-opt-to-type` in words; `NO_DESTINATION` where neither has a known value."""
    out = bytearray(received.count)
    lib.pump_destinations(
        ffi.from_buffer(received.blob),
        ffi.from_buffer("uint32_t[]", received.lengths),
        received.count,
        ffi.from_buffer("uint8_t[]", out),
    )
    return bytes(out)


def send(
    link: int, batch: RecordBatch, run: Run, delivery_count: int, at: int, presettled: bool
) -> int:
    """Send the messages of `batch` whose sequences are `run`; their tags are their sequences.

    A header section with `delivery_count` is put in front if it is higher than the publisher's own.
    `at` (microseconds) comes back with the outcome. Return the bytes handed to the engine, which
    copies them; the caller must flush.
    """
    given = of_batch(batch, run)
    sent = lib.pump_send(*given, delivery_count, link, at, presettled, 0, ffi.NULL)
    return assert_sent(sent, batch, run)


def assert_sent(sent: int, batch: RecordBatch, run: Run) -> int:
    """Return the result of `pump_send`, after a check that the batch has all messages."""
    assert sent >= 0, f"{run} isn't all in the batch {batch.first} to {batch.stop - 1}"  # noqa: S101
    return sent


def fitting(batch: RecordBatch, run: Run, delivery_count: int, bytes_max: int) -> tuple[int, int]:
    """Return how many messages of a run come before the first one that would be sent with more than
    `bytes_max` bytes, and the bytes of that one; without such a message the whole count."""
    size = ffi.new("uint64_t *")
    count: int = lib.pump_fitting(*of_batch(batch, run), delivery_count, bytes_max, size)
    assert count >= 0, f"{run} isn't all in the batch {batch.first} to {batch.stop - 1}"  # noqa: S101
    return count, int(size[0])


def of_batch(batch: RecordBatch, run: Run) -> tuple[Any, ...]:
    """Return a run of a batch's messages as C's arguments."""
    if isinstance(run, range):
        first, step, listed = run.start, run.step, ffi.NULL
    else:
        first, step, listed = 0, 0, ffi.from_buffer("uint64_t[]", run)
    sequences = batch.sequences
    return (
        ffi.from_buffer(batch.blob),
        ffi.from_buffer("int32_t[]", batch.offsets),
        batch.first,
        batch.count,
        ffi.NULL if sequences is None else ffi.from_buffer("uint64_t[]", sequences),
        first,
        step,
        len(run),
        listed,
    )


def discard(link: int, delivery: int) -> None:
    """Discard the bytes of an incoming delivery that have arrived."""
    size = proton.pn_delivery_pending(proton_ffi.cast("pn_delivery_t *", delivery))
    room = proton_ffi.new("char[]", size)
    proton.pn_link_recv(proton_ffi.cast("pn_link_t *", link), room, size)


def pointer(data: Bytes) -> Any:
    """Return a C pointer into `data`, which must be held as long as the pointer is used."""
    return ffi.from_buffer(data)


def feed(transport: int, data: Any, size: int) -> bool:
    """Hand bytes of the peer to the engine. Return False when it takes no more: the peer has
    closed, or its bytes can't be read."""
    return bool(lib.pump_input(transport, data, size))


def waiting_bytes(session: int) -> int:
    """Return the bytes of a session's messages in the engine."""
    return int(proton.pn_session_incoming_bytes(proton_ffi.cast("pn_session_t *", session)))


def kept_bytes(session: int) -> int:
    """Return the bytes in the engine that were sent in a session, and wait for its peer's window.
    Those of a link that has ended stay in this count."""
    return int(proton.pn_session_outgoing_bytes(proton_ffi.cast("pn_session_t *", session)))


def overruns(session: int, window: int) -> bool:
    """Whether more transfers than this window allows have gone out in a session, after those that
    its peer had seen when it sent its last flow, which the engine has just read."""
    unseen = (window - int(lib.pump_window(session))) & 0xFFFFFFFF
    return unseen > window


def echo(session: int, link: int) -> None:
    """Tell the peer a session's state, and that of one of its incoming links (0: of none)."""
    lib.pump_echo(session, link)


def reject(deliveries: bytes, condition: str, description: str) -> None:
    """Settle deliveries by address as rejected, each with the error; zeros are skipped."""
    for one in memoryview(deliveries).cast("Q"):
        if one:
            delivery = proton_ffi.cast("pn_delivery_t *", one)
            error = proton.pn_disposition_condition(proton.pn_delivery_local(delivery))
            proton.pn_condition_set_name(error, condition.encode())
            proton.pn_condition_set_description(error, description.encode())
            proton.pn_delivery_update(delivery, REJECTED)
            proton.pn_delivery_settle(delivery)
