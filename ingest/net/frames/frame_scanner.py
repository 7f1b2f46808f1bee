"""A connection's frames, walked before the engine has them and after it has written them.

A frame that the states of a peer's endpoints don't allow never reaches the engine
(`ingest.native.guard`). A few frames have AMQP fields that the engine can't read or write. `Inflow`
stops at such frames and reads them (`pipeline.amqp.performative`), `Outflow` adds missing fields to
attaches and flows; all other bytes pass through C (`walk.c`) untouched.
"""

from collections import deque
from typing import Any, Protocol

import msgspec

from distributary.ingest.native import pump
from distributary.ingest.native.guard import Guard
from distributary.ingest.native.pump_library import ffi, lib
from distributary.ingest.runtime.settings import Amqp
from distributary.ingest.runtime.turns import PeerTurn
from distributary.pipeline.amqp import performative
from distributary.pipeline.amqp.delivery_state import STATES
from distributary.pipeline.amqp.endpoint_states import NOT_ALLOWED, RESOURCE_LIMIT
from distributary.pipeline.amqp.link_state import LinkState, told
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.codec.amqp_codes import Descriptor
from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.model.amqp_error import NOT_IMPLEMENTED

#: The protocol's header stands before the first frame, in both directions.
HEADER_BYTES = 8
UNKNOWN_STATE = "a delivery's state must be received or an outcome, alone or in a transaction"


class Fault(msgspec.Struct, frozen=True):
    """Why a connection must end: a condition and a sentence."""

    condition: str
    description: str


class Acting(Protocol):
    """The handler of a connection's frames: `Inbound` is it. All methods but `links_on` raise
    BrokenFrame for earlier frames."""

    turn: PeerTurn
    #: Walked attaches whose links the engine hasn't reported yet, in the same order.
    coming: deque[WalkedAttach]
    #: Flows that want an answer: their channels, and their handles if they have one.
    echoes: dict[tuple[int, int | None], None]

    def process(self) -> bool:
        """Handle all events that the engine has."""

    def covered(self) -> bool:
        """Handle dispositions that cover many deliveries; return whether this turn allows more
        input."""

    def links_on(self, channel: int) -> int:
        """Return the number of links, also ended ones, of the session on the peer's channel."""

    def refuse_transfer(self, channel: int, handle: int, condition: str, description: str) -> None:
        """End the link of a message that the gateway doesn't take, before the engine has it."""

    def overruns(self, channel: int, window: int) -> bool:
        """Whether more transfers than this window allows have gone out in a session, after those
        that its peer had seen when it sent its last flow, which the engine has just read."""

    def began_in_transaction(self, channel: int, handle: int) -> bool:
        """Whether the first transfer of the message that goes on here named a transaction."""


class Inflow:
    """A peer's bytes on their way to the engine.

    A frame that can't be judged yet is held back until it can. After a `fault`, or after the peer's
    close, no more bytes reach the engine.
    """

    def __init__(self, transport: int, inbound: Acting, limits: Amqp) -> None:
        self._transport, self._inbound, self._limits = transport, inbound, limits
        self._guard = Guard(limits.channels_max, limits.links_max)
        most = (limits.decode.values_max, limits.decode.depth_max)
        walk = {"left": HEADER_BYTES, "limits": most, "covers_max": inbound.turn.most}
        walk["guard"] = self._guard.states
        self._walk = ffi.new("pump_walk *", walk)
        self._held = bytearray()
        self._needed = 0
        self.fault: Fault | None = None
        self._no_more = False  #: the engine takes no more bytes
        #: The peer has used its part of this turn: feed nothing more, and go on in the next one.
        self.waits = False

    def feed(self, data: Any, size: int) -> bool:
        """Hand bytes to the engine. Return False when it takes no more: the peer has closed, or its
        bytes can't be read. Raises BrokenFrame for frames that were read on the way."""
        self.waits = False
        if self._no_more:
            return False
        if not self._held:
            self._no_more = not self._feed(data, size)
            return not self._no_more
        self._held += ffi.buffer(data, size)
        if len(self._held) < self._needed:
            return True
        held, self._held = bytes(self._held), bytearray()
        self._no_more = not self._feed(ffi.from_buffer(held), len(held))
        return not self._no_more

    def _feed(self, data: Any, size: int) -> bool:
        walk, at = self._walk, 0
        while at < size and self.fault is None:
            stop = lib.pump_walk_in(
                self._transport, walk, data + at, size - at, self._limits.frame_bytes_max
            )
            if stop == lib.WALK_NO_MORE:
                return False
            if stop == lib.WALK_ALL:
                return True
            at += walk.at
            if stop in self._LAST:
                return self._passed(stop, data + at, size - at)
            if stop == lib.WALK_ROOM:
                self._guard.grow()
                continue
            if stop == lib.WALK_COVERS:
                walk.covers = 0
                if not self._inbound.covered():
                    return self.keep(data + at, size - at)
                continue
            frame = bytes(ffi.buffer(data + at, walk.size))
            at += walk.size
            turn = self._inbound.turn
            turn.done += turn.ATTACH if stop == lib.WALK_ATTACH else turn.READ
            if not self._judge(stop, frame):
                return False
            if turn.over:
                return self.keep(data + at, size - at)
        return True

    #: Stops after which the walk ends, for now or for good.
    _LAST = frozenset({lib.WALK_CLOSED, lib.WALK_SHORT, lib.WALK_VIOLATION})

    def _passed(self, stop: int, data: Any, size: int) -> bool:
        """Keep the remaining bytes if they begin a frame; else they never reach the engine."""
        if stop == lib.WALK_SHORT:
            self._held[:] = ffi.buffer(data, size)
            self._needed = self._walk.size
        elif stop == lib.WALK_VIOLATION:
            self.fault = Fault(*self._guard.violation())
        return True

    def keep(self, data: Any, size: int) -> bool:
        """Keep these bytes until the next turn of the loop."""
        self._held += ffi.buffer(data, size)
        self._needed, self.waits = 0, True
        return True

    def _judge(self, stop: int, frame: bytes) -> bool:
        """Read a frame that stopped the walk, and hand the engine the part that it can read."""
        try:
            match stop:
                case lib.WALK_ATTACH:
                    frame = self._attach(frame)
                case lib.WALK_FLOW:
                    return self._flow(frame)
                case lib.WALK_TRANSFER:
                    frame = self._transfer(frame)
                case lib.WALK_DISPOSITION:
                    frame = self._disposition(frame)
                    self._inbound.process()
                case lib.WALK_END:
                    return self._end(frame)
                case lib.WALK_HEAVY:
                    performative.refuse_heavy(frame, self._limits.decode)
                case lib.WALK_NAMED:
                    frame = performative.numbered(frame)
                    return self._feed(ffi.from_buffer(frame), len(frame))
        except DecodeError as error:
            self.fault = Fault("amqp:decode-error", str(error))
        return self.fault is not None or self._push(frame)

    def _push(self, frame: bytes) -> bool:
        return pump.feed(self._transport, pump.pointer(frame), len(frame))

    def _write(self) -> None:
        """Have earlier frames answered, and the answers written: then our channels and handles that
        the peer has released are free again. Without a free one the engine would stop silently."""
        self._inbound.process()
        lib.pump_write(self._transport)

    def _end(self, frame: bytes) -> bool:
        """Handle an end by itself. If begin and end were handled together, the engine would answer
        as if the session were ours; and a begin right after an end needs that end's channel."""
        self._write()
        more = self._push(frame)
        self._write()
        return more

    def _attach(self, frame: bytes) -> bytes:
        attach = performative.attach(frame)
        most = self._guard.peer_handles
        if most <= 2 * self._limits.links_max:
            self._write()
            if self._inbound.links_on(attach.channel) >= most:
                text = (
                    f"attach: the peer's handle-max leaves no handle for an answer, it has {most}"
                )
                self.fault = Fault(RESOURCE_LIMIT, text)
        self._inbound.coming.append(attach)
        return attach.frame

    def _flow(self, frame: bytes) -> bool:
        """Handle earlier frames before a flow: two flows by which a sender gives back credit could
        make the engine's count of it wrap around. So could a window smaller than what has gone out
        since its peer has set it: then the window is closed."""
        flow = performative.flow(frame)
        self._inbound.process()
        if flow.acquires and flow.handle is not None:
            text = "messages aren't sent in transactions, outcomes can be given in them"
            self._inbound.refuse_transfer(flow.channel, flow.handle, NOT_IMPLEMENTED, text)
        if flow.asks:
            self._inbound.echoes[flow.channel, flow.handle] = None
        more = self._push(flow.frame)
        if more and self._inbound.overruns(flow.channel, flow.window):
            return self._push(performative.shut(flow.frame))
        return more

    def _transfer(self, frame: bytes) -> bytes:
        """End the link of a message whose format or state isn't served, before the engine has the
        message."""
        odd = performative.transfer(frame)
        if odd.resumes:
            return odd.frame  # no message: the pump releases it
        if odd.message_format:
            condition = NOT_IMPLEMENTED
            text = f"message-format 0x{odd.message_format:x} is not served, only 0 is"
        elif odd.state == Descriptor.TRANSACTIONAL_STATE and odd.continues:
            if self._inbound.began_in_transaction(odd.channel, odd.handle):
                return odd.frame
            condition, text = NOT_ALLOWED, "a message's first transfer says its transaction"
        elif odd.state in (0, *STATES):
            return odd.frame
        else:
            condition, text = NOT_IMPLEMENTED, UNKNOWN_STATE
        self._inbound.refuse_transfer(odd.channel, odd.handle, condition, text)
        return odd.frame

    def _disposition(self, frame: bytes) -> bytes:
        frame, state = performative.disposition(frame)
        if state and state not in STATES:
            self.fault = Fault(NOT_IMPLEMENTED, UNKNOWN_STATE)
        return frame


class Outflow:
    """The engine's bytes on their way to the peer.

    `due` says that fields must be added to a frame. `tell` adds a link's state to the next flow of
    its session.
    """

    def __init__(self, frame_bytes_max: int = 0xFFFFFFFF) -> None:
        self._walk = ffi.new("pump_walk *", {"left": HEADER_BYTES})
        self._frame_bytes_max = frame_bytes_max
        self._held = b""
        self._places: dict[int, tuple[int, int]] = {}  #: of a link: its channel and handle
        self._told: dict[int, list[LinkState]] = {}  #: by channel
        self.due = False

    def tell(self, link: int, delivery_count: int, credit: int, *, drain: bool) -> None:
        """Set the link's state that the next flow of its session tells; do nothing for a link whose
        attach the engine hasn't written yet."""
        if (place := self._places.get(link)) is not None:
            channel, handle = place
            state = LinkState(handle, delivery_count, credit, drain)
            self._told.setdefault(channel, []).append(state)
            self.due = True

    def forget(self, link: int) -> None:
        """Forget a link that has ended."""
        self._places.pop(link, None)

    def passed(self, chunk: bytes | memoryview, *, last: bool) -> bytes | memoryview:
        """Return the chunk with the added fields of its attaches and flows. `last`: the engine has
        no more for now, so that the chunk ends with a frame. Otherwise a cut frame may be held back
        until the next chunk."""
        if last and not self.due:
            self._walk.left, held = 0, self._held
            self._held = b""
            return held + chunk if held else chunk
        data, parts, at = self._held + chunk if self._held else chunk, [], 0
        pointer, self._held = ffi.from_buffer(data), b""
        way = lib.WALK_OUT_FLOWS if self._told else lib.WALK_OUT
        while at < len(data):
            stop = lib.pump_walk_on(
                self._walk, pointer + at, len(data) - at, self._frame_bytes_max, way
            )
            begin = at + self._walk.at
            parts.append(data[at:begin])
            if stop == lib.WALK_SHORT:
                self._held = bytes(data[begin:])
                break
            at = begin
            if stop != lib.WALK_ALL:
                at += self._walk.size
                parts.append(self._spoken(stop, bytes(data[begin:at])))
        if last:
            self.due = False
            self._told.clear()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _spoken(self, stop: int, frame: bytes) -> bytes:
        if stop == lib.WALK_FLOW:
            return told(frame, lambda channel: self._told.pop(channel, ()))
        attach = performative.spliced(frame)
        if attach.link:
            self._places[attach.link] = attach.channel, attach.handle
        return attach.frame
