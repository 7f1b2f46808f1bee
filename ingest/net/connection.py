"""One connection: Proton's C engine under an asyncio protocol of our own.

The rules are in `ingest.net.engine`.
"""

import asyncio
from time import monotonic
from typing import Any, cast

from proton import Condition, Endpoint

from distributary.ingest.native.outgoing import WRITE_BYTES, Outgoing
from distributary.ingest.native.pump import address
from distributary.ingest.native.pump_library import ffi, lib
from distributary.ingest.net import endpoint_answers
from distributary.ingest.net.containment import ContainedPeer, contained
from distributary.ingest.net.engine import Engine
from distributary.ingest.net.frames.engine_error import NO_FRAME, BrokenFrame, engine_error
from distributary.ingest.net.frames.frame_scanner import Inflow, Outflow
from distributary.ingest.net.inbound import Inbound
from distributary.ingest.net.relayed_peer import OnePeer, Peers, RelayedPeers, relaying_limits
from distributary.ingest.runtime.settings import Amqp
from distributary.ingest.runtime.turns import READ_BYTES_FIRST, next_room
from distributary.ingest.security.gateway_login import GatewayLogin
from distributary.ingest.security.handshake import (
    AMQP_HEADER,
    Established,
    Failed,
    Handshake,
    Reply,
    Step,
    Verify,
)
from distributary.pipeline.amqp.performative import BARE_OPEN

#: Seconds that a peer has for its own close after we closed with an error.
CLOSE_SECONDS = 2.0


class Connection(ContainedPeer, asyncio.BufferedProtocol):
    """One peer: handshake, then Proton. One for each socket."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Engine = engine
        self._handler = engine.handler
        self._handshake: Handshake | None = None
        self._check: asyncio.Future[bool] | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pausing = self._touched = self.alive = self._freed = self._ended = False
        self.writable, self._going_on, self._held = True, False, set[object]()
        self._waits = False  #: its input is more than one turn's work
        self._unheard, self._room = 0, READ_BYTES_FIRST  #: read since `writable` ended; of a read
        self.user = self.container = self.peer = self.through = ""
        self.sole = self.accepted = self.closing = False
        self.ending = False  #: one of us has closed: when all is written, the socket may end

    # The socket's side. Work that begins here is for this peer alone (`ingest.net.containment`).

    @contained
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        limits = self._engine.limits
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(limits.write_buffer_bytes)
        self.peer = str(transport.get_extra_info("peername"))
        self.proton, self._collector, self._amqp = endpoint_answers.engine(limits)
        amqp = self._amqp_address = address(self._amqp._impl)
        pump, events = self._engine.pump, self._collector._impl
        self._listen(limits, OnePeer(self, self._handler))
        where = amqp, address(events), limits.write_buffer_bytes
        self.outflow, self.outgoing = Outflow(), Outgoing(pump, *where)
        self._handshake = self._engine.access.handshake(transport)
        self.alive = True
        self._wait(limits.handshake_ms_max)
        if not self._engine.add(self):
            self._turn_away(b"", f"there are {limits.connections_max} connections already")

    def _listen(self, limits: Amqp, peers: Peers) -> None:
        """Take input within these limits and for these peers, from now on."""
        self._idle_ms = limits.idle_timeout_ms
        given = (self._engine.pump, self._handler, limits, self._engine.ends, peers)
        self.inbound = Inbound(self, self._collector._impl, *given)
        self._inflow = Inflow(self._amqp_address, self.inbound, limits)

    def _trust(self, other: GatewayLogin) -> None:
        """Treat the peer as another gateway, which relays the links of its clients."""
        limits = relaying_limits(self._engine.limits, other)
        endpoint_answers.bound(self._amqp, limits)
        self._listen(limits, RelayedPeers(self, self._engine, self._handler, other.log))

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._engine.read_buffer[: self._room]

    @contained
    def buffer_updated(self, size: int) -> None:
        if not self.alive or self.broken or not self._engine.sure():
            return
        if self._handshake is not None:
            self._steps(self._handshake.feed(bytes(self._engine.read_buffer[:size])))
            return
        if self._pausing:
            self._pausing = False
            self._wait(self._engine.limits.handshake_ms_max)
        self._feed(self._engine.read_pointer, size)
        if not self.writable:
            self._unheard += size
            self._read_or_wait()

    @contained
    def pause_writing(self) -> None:
        self.writable = self._engine.takes(self, False)
        self._handler.writable(self.inbound.links, False)

    def resumed(self) -> None:
        self.writable, self._unheard = self._engine.takes(self, True), 0
        self.touch()
        self._read_or_wait()
        self._handler.writable(self.inbound.links, True)
        self._engine.flush()

    @contained
    def connection_lost(self, _error: Exception | None) -> None:
        if not self.alive:
            return
        self.alive = False
        self._untime()
        if self._check is not None:
            self._check.cancel()
        self._engine.remove(self)
        self._let_go()
        self._engine.finish_pass()

    def _let_go(self) -> None:
        """Have the service release its state of this peer, whatever ends it. A second call does
        nothing. Raises NotGivenBack."""
        self.inbound.lose_all()
        self.leave(False)

    @contained
    def leave(self, at_once: bool) -> None:
        """Release the state of the next links; after the last one, of the connection."""
        if self.inbound.lose_some(at_once=at_once):
            self._engine.leaves(self)
            return
        self.inbound.closed()
        if not (self.alive or self._freed):
            self._freed = True
            self._free()

    def _free(self) -> None:
        self._amqp.unbind()
        self.proton.free()
        del self.proton, self._collector, self._amqp  # as in Link.release

    # Before AMQP.

    @contained
    def _verified(self, check: "asyncio.Future[bool]") -> None:
        """Go on after the answer of `Access.verify`."""
        if self.alive and self._handshake is not None and not check.cancelled():
            self._steps(self._handshake.verified(check.result()))

    def _steps(self, steps: list[Step]) -> None:
        transport = cast("asyncio.Transport", self._transport)
        for step in steps:
            match step:
                case Reply(data):
                    transport.write(data)
                case Verify(user, password):
                    self._check = self._engine.access.verify(user, password)
                    self._check.add_done_callback(self._verified)
                case Established(user, rest):
                    self.user, self._handshake = user, None
                    if (gateway := self._engine.access.trusted(user)) is not None:
                        self._trust(gateway)
                    # A client may log in now, and have nothing to do for long.
                    self._pausing = len(rest) <= len(AMQP_HEADER)
                    if self._pausing:
                        self._wait(self._engine.limits.open_ms_max)
                    self._feed(ffi.from_buffer(rest), len(rest))
                case Failed(reply, reason):
                    self._turn_away(reply, reason)

    def _turn_away(self, reply: bytes, reason: str) -> None:
        self._engine.logins_refused += 1
        transport = cast("asyncio.Transport", self._transport)
        self._handler.failed(self, reason)
        transport.write(reply)
        transport.close()

    def _wait(self, milliseconds: int) -> None:
        """Give the peer this time until its open."""
        self._untime()
        self._timer = self._engine.loop.call_later(milliseconds / 1_000, self._too_slow)

    def _untime(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    @contained
    def _too_slow(self) -> None:
        self._timer = None
        if not self.accepted and self.alive:
            limit = "amqp.open_ms_max" if self._pausing else "amqp.handshake_ms_max"
            self._handler.failed(self, f"the peer did not open in time ({limit})")
            cast("asyncio.Transport", self._transport).close()
        elif self.alive:
            self._tick()

    # AMQP in.

    def _feed(self, data: Any, size: int) -> None:
        more, began, waits = True, monotonic(), False
        self.inbound.begin(size)
        try:
            if self._waits and not self.inbound.process(part=True):
                self._inflow.keep(data, size)
                waits = True
            else:
                more = self._inflow.feed(data, size)
                waits = not self.inbound.process(part=True) or self._inflow.waits
        except BrokenFrame as error:
            self.close("amqp:decode-error", str(error))
        if (fault := self._inflow.fault) is not None:
            self.close(fault.condition, fault.description)
        elif not (more or waits or self.proton.state & Endpoint.REMOTE_CLOSED):
            self._unreadable()  # a close that waits for its turn is no wrong byte, either
        if waits or self._waits:
            self._wait_turn(waits)
        if self.inbound.unfinished_bytes:
            self._engine.bound_unfinished()
        self._room = next_room(self._room, monotonic() - began)
        asks = self.ending or self.inbound.echoes or self.inbound.unsettled.full
        if asks or lib.pump_pending(self._amqp_address):
            self.touch()
        self._engine.finish_pass(last=True)

    def _wait_turn(self, waits: bool) -> None:
        """Stop reading a peer that has used its part of this turn, until it has gone on."""
        if waits and not self._going_on:
            self._going_on = True
            self._engine.goes_on(self)
        if waits != self._waits:
            self._waits = waits
            self._read_or_wait()

    @contained
    def go_on(self) -> None:
        self._going_on = False
        if self.alive and not (self.broken or self._held) and self._engine.sure():
            self._feed(self._engine.read_pointer, 0)

    def _unreadable(self) -> None:
        """End a peer that hasn't closed, but whose bytes the engine refuses as wrong. For some
        faults the engine has its own condition; for the others we send a close."""
        self.ending = True
        error = engine_error(self._amqp._impl) or NO_FRAME
        self.close(error.condition or NO_FRAME.condition, error.description or NO_FRAME.description)
        if not self.accepted:
            self.flush()  # the engine holds a close back until an open came: only the socket ends
            cast("asyncio.Transport", self._transport).close()

    # AMQP out.

    def accept(self, container_id: str) -> None:
        self.accepted = True
        endpoint_answers.accepted(self.proton, container_id)
        self._tick()

    def refuse(self, container_id: str, condition: str, description: str, field: str) -> None:
        endpoint_answers.refused(self.proton, container_id, condition, description, field)
        self._handler.failed(self, description)
        self._close()

    def close(self, condition: str, description: str) -> None:
        """End the connection with an error; its links are lost at once."""
        if not self.alive or not self.proton.state & (
            Endpoint.LOCAL_ACTIVE | Endpoint.LOCAL_UNINIT
        ):
            return
        self._engine.ended_by[condition] = self._engine.ended_by.get(condition, 0) + 1
        self._handler.failed(self, description)
        self._let_go()
        if self.proton.state & Endpoint.LOCAL_UNINIT:
            self.proton.open()
        self.proton.condition = Condition(condition, description)
        self._close()
        if not self.accepted and self._handshake is None:
            # The engine holds a close back until an open came.
            lib.pump_input(self._amqp_address, BARE_OPEN, len(BARE_OPEN))

    def closed(self) -> None:
        """Answer the peer's close, when its earlier outcomes are durable."""
        links = self.inbound.links
        self._let_go()
        self._handler.ended(links, self._answer_close)

    @contained
    def _answer_close(self, late: str) -> None:
        if self.alive:
            endpoint_answers.closed(self.proton, late)
            self.ending = True
            self.touch()

    def _close(self) -> None:
        """Send our close, and give the peer CLOSE_SECONDS for its own."""
        self.proton.close()
        self.closing = self.ending = True
        self._engine.loop.call_later(CLOSE_SECONDS, self._give_up)
        self.touch()

    @contained
    def _give_up(self) -> None:
        """End the socket: even one byte that its peer doesn't read would keep it open."""
        if self.alive:
            endpoint_answers.end(self._transport)

    @contained
    def hold(self, on: bool, by: object) -> None:
        (self._held.add if on else self._held.discard)(by)
        self._read_or_wait()
        if self._waits and not self._held:
            self._wait_turn(True)

    def _read_or_wait(self) -> None:
        """Pause or resume reading. A peer that doesn't read is itself read only for
        `write_buffer_bytes` more: each of its frames may have an answer that waits in memory."""
        transport = cast("asyncio.Transport", self._transport)
        most = self._engine.limits.write_buffer_bytes
        waits = bool(self._held) or self._waits or self._unheard > most
        if self.alive and waits == transport.is_reading():
            (transport.pause_reading if waits else transport.resume_reading)()

    def abort(self) -> None:
        cast("asyncio.Transport", self._transport).abort()

    def touch(self) -> None:
        """Have `Engine.flush` check for bytes to write."""
        if not self._touched:
            self._touched = True
            self._engine.touched.add(self)

    @contained
    def flush(self) -> None:
        """Write the engine's bytes for the peer, then answers to its flows with `echo`."""
        self._touched = False
        if self.inbound.unsettled.full:
            self.inbound.eased()
        written = self._engine.sure() and self._write()
        if written and self.inbound.echoes:
            self.inbound.answer_echoes()
            written = self._write()
        if written and self.outgoing.written(self.inbound):
            self._handler.writable(self.inbound.links, self.writable)

    def _write(self) -> bool:
        """Write the engine's bytes; return whether all of them were written."""
        transport, buffer = self._transport, self._engine.write_buffer
        while self.alive and self.writable and transport is not None:
            chunk = buffer.take(self.outgoing)
            if chunk is None:
                self._end(transport)
            if not chunk:
                return chunk is not None
            last = len(chunk) < WRITE_BYTES
            transport.write(self.outflow.passed(chunk, last=last))
            buffer.written(chunk, transport)
            if last and not self.ending:
                return True
        return False

    def _end(self, transport: asyncio.Transport) -> None:
        """End the output. If the peer may still send, only our half of the socket is closed:
        unread bytes would make the kernel discard our close."""
        if self.proton.state & Endpoint.REMOTE_CLOSED or not transport.can_write_eof():
            transport.close()
        elif not self._ended:
            self._ended = True
            endpoint_answers.end_output(transport)
            self._engine.loop.call_later(CLOSE_SECONDS, self._give_up)

    def _tick(self) -> None:
        """Run Proton's clock: it sends heartbeats and notices the peer's silence."""
        self._untime()
        now_ms = int(self._engine.loop.time() * 1_000)
        next_ms = endpoint_answers.ticked(self._amqp, now_ms, self._idle_ms, held=bool(self._held))
        self.touch()
        if next_ms:
            delay_ms = max(1, next_ms - now_ms)
            self._timer = self._engine.loop.call_later(delay_ms / 1_000, self._ticked)

    @contained
    def _ticked(self) -> None:
        self._timer = None
        if self.alive:
            self._tick()
            self._engine.flush()
            if engine_error(self._amqp._impl) and endpoint_answers.unwritten(self._transport):
                self._give_up()  # silent for too long, and it wouldn't read a close either
