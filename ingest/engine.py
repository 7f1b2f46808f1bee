"""The AMQP engine: one connection is Proton's C engine under an asyncio protocol of our own.

Above this file nothing knows Proton's events; the service sees a `Handler`'s calls, in runs, and
acts through `Connection` and `Link`. Rules:

1. Everything runs on the event loop's thread.
2. Nothing is written while the service works; `flush` writes all that a pass gave, at once.
3. What a peer does wrong ends that peer's link or connection, with a condition, and nothing else.
4. Addresses of deliveries are only good while `link.alive`.
"""

import asyncio
import sys
from typing import Any, cast

from cproton import lib as proton
from proton import Collector, Condition, Endpoint, ProtonException, Session, Transport, symbol
from proton import Connection as ProtonConnection
from proton import Link as ProtonLink

from ingest import pump as pumping
from ingest.handshake import Established, Failed, Handshake, Reply, Step, Verify
from ingest.link import Handler, Link
from ingest.pump import Outcomes, Pump, Received, Stop, address
from ingest.settings import Amqp

#: What Proton's Python getters raise on a peer's broken values.
BROKEN_VALUES = (
    ProtonException,
    UnicodeError,
    ValueError,
    TypeError,
    RecursionError,
    OverflowError,
)
#: Bytes that one read of a socket takes; also the longest run that can arrive at once.
READ_BYTES = 1 << 19
#: Seconds that a peer has for its own close after we closed with an error.
CLOSE_SECONDS = 2.0
#: Bytes that one write of a socket gives.
WRITE_BYTES = 1 << 18

#: What a peer may rely on. DELAYED_DELIVERY is not offered: a client that asks for a delay is told
#: that it can't have one, instead of having its message delivered at once.
OFFERED_CAPABILITIES = ("ANONYMOUS-RELAY", "SHARED-SUBS", "sole-connection-for-container")


class Connection(asyncio.BufferedProtocol):
    """One peer: handshake, then Proton. Made by `Engine`, one for each socket."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._handler = engine.handler
        self._handshake: Handshake | None = engine.handshake()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._links: dict[int, Link] = {}
        self._touched = False
        self._closing = False
        self.alive = False
        self.writable = True
        self.user = ""
        self.container = ""
        self.peer = ""
        self.accepted = False

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        limits = self._engine.limits
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(limits.write_buffer_bytes)
        self.peer = str(transport.get_extra_info("peername"))
        self.proton = ProtonConnection()
        self._collector = Collector()
        self.proton.collect(self._collector)
        self._amqp = Transport(Transport.SERVER)
        self._amqp.idle_timeout = limits.idle_timeout_ms / 1_000
        self._amqp.max_frame_size = limits.frame_bytes_max
        self._amqp.channel_max = limits.channels_max - 1
        self._amqp.bind(self.proton)
        self._amqp_address = address(self._amqp._impl)
        self._collector_address = address(self._collector._impl)
        self.alive = True
        self._timer = self._engine.loop.call_later(limits.handshake_ms_max / 1_000, self._too_slow)
        if not self._engine.add(self):
            self._turn_away(b"", f"there are {limits.connections_max} connections already")

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._engine.read_buffer

    def buffer_updated(self, size: int) -> None:
        if not self.alive:
            return
        if self._handshake is not None:
            self._steps(self._handshake.feed(bytes(self._engine.read_buffer[:size])))
        else:
            self._feed(self._engine.read_pointer, size)

    def eof_received(self) -> bool:
        return False  # close the transport; connection_lost follows

    def pause_writing(self) -> None:
        self.writable = False
        self._handler.writable(self, False)

    def resume_writing(self) -> None:
        self.writable = True
        self.touch()
        self._handler.writable(self, True)
        self._engine.flush()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.alive:
            return
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
        for link in tuple(self._links.values()):
            self._lose(link)
        self._engine.remove(self)
        self._handler.closed(self)
        self._amqp.unbind()
        self.proton.free()
        self._handler.passed()
        self._engine.flush()

    # Before AMQP.

    def verified(self, ok: bool) -> None:
        """The answer to `Handler.verify`."""
        if self.alive and self._handshake is not None:
            self._steps(self._handshake.verified(ok))

    def _steps(self, steps: list[Step]) -> None:
        transport = cast("asyncio.Transport", self._transport)
        for step in steps:
            match step:
                case Reply(data):
                    transport.write(data)
                case Verify(user, password):
                    self._handler.verify(self, user, password)
                case Established(user, rest):
                    self.user, self._handshake = user, None
                    self._feed(pumping.pointer(rest), len(rest))
                case Failed(reply, reason):
                    self._turn_away(reply, reason)

    def _turn_away(self, reply: bytes, reason: str) -> None:
        transport = cast("asyncio.Transport", self._transport)
        self._handler.failed(self, reason)
        transport.write(reply)
        transport.close()

    def _too_slow(self) -> None:
        self._timer = None
        if not self.accepted and self.alive:
            self._handler.failed(self, "the peer did not open in time (amqp.handshake_ms_max)")
            cast("asyncio.Transport", self._transport).close()
        elif self.alive:
            self._tick()

    # AMQP in.

    def _feed(self, data: Any, size: int) -> None:
        pumping.feed(self._amqp_address, data, size)
        try:
            self._events()
        except BROKEN_VALUES as error:
            self.close("amqp:decode-error", f"a value in your frames is broken: {error}")
        self.touch()
        self._handler.passed()
        self._engine.flush()

    def _events(self) -> None:
        pump, collector = self._engine.pump, self._collector_address
        while self.alive:
            stop = pump.events(collector)
            if self._closing:
                if self._drop(Stop(stop)):
                    return
                continue
            if pump.received_count:
                self._received(pump.received())
            if pump.outcomes_count:
                self._settled(pump.outcomes())
            if stop == Stop.IDLE:
                return
            if stop == Stop.EVENT:
                event = proton.pn_collector_peek(self._collector._impl)
                self._event(proton.pn_event_type(event), event)
                proton.pn_collector_pop(self._collector._impl)
            elif stop != Stop.FULL:
                self._odd_message(Stop(stop))

    def _drop(self, stop: Stop) -> bool:
        """We have closed: nothing counts any more but the peer's own close. True at the end."""
        if stop in (Stop.IDLE, Stop.FULL):
            return stop == Stop.IDLE
        if stop in (Stop.TOO_LARGE, Stop.ALONE):
            pumping.discard(self._engine.pump.stopped_link, self._engine.pump.stopped_delivery)
        if stop != Stop.MALFORMED:
            proton.pn_collector_pop(self._collector._impl)
        return False

    def _settled(self, outcomes: list[Outcomes]) -> None:
        for one in outcomes:
            link = self._links.get(one.link)
            if link is not None and not link.ended:
                link.waiting += len(one.confirm) // 8
                self._handler.settled(link, one)

    def _received(self, received: Received) -> None:
        link = self._links.get(received.link)
        if link is None or link.ended:
            return  # its deliveries die with it
        if link.credit < 0:
            self._refuse_messages(
                link, "amqp:link:transfer-limit-exceeded", "more messages than credit"
            )
            return
        link.waiting += received.kept
        self._handler.received(link, received)

    def _odd_message(self, stop: Stop) -> None:
        """A message that stopped the pump: too large, malformed, or to be received alone."""
        pump = self._engine.pump
        link = self._links.get(pump.stopped_link)
        if link is None:  # it is gone, and its last frames with it
            pumping.discard(pump.stopped_link, pump.stopped_delivery)
            if stop != Stop.MALFORMED:
                proton.pn_collector_pop(self._collector._impl)
            return
        if stop == Stop.ALONE:
            received = pump.receive_alone()
            proton.pn_collector_pop(self._collector._impl)
            if received is not None:
                self._received(received)
                return
        if stop == Stop.TOO_LARGE:
            pumping.discard(link.address, pump.stopped_delivery)
            proton.pn_collector_pop(self._collector._impl)
            most = self._engine.limits.message_bytes_max
            self._refuse_messages(
                link,
                "amqp:link:message-size-exceeded",
                f"a message on link '{link.name}' is larger than {most} bytes",
            )
            return
        delivery = pump.stopped_delivery.to_bytes(8, sys.byteorder)
        pumping.reject(delivery, "amqp:decode-error", "the transfer holds no AMQP message")
        if not link.ended:
            link.grant(1)

    def links(self) -> tuple[Link, ...]:
        """The links that are alive."""
        return tuple(self._links.values())

    def _refuse_messages(self, link: Link, condition: str, description: str) -> None:
        if not link.ended:
            self._handler.lost(link)
            link.detach(closed=True, condition=condition, description=description)

    def _event(self, kind: int, event: Any) -> None:
        match kind:
            case proton.PN_LINK_FLOW:
                link = self._links.get(address(proton.pn_event_link(event)))
                if link is not None and link.owner is not None and link.is_outgoing:
                    self._handler.flowed(link)
            case proton.PN_LINK_REMOTE_OPEN:
                link = Link(self, _wrap(ProtonLink, proton.pn_event_link(event)))
                self._links[link.address] = link
                self._handler.attached(link)
            case proton.PN_LINK_REMOTE_CLOSE | proton.PN_LINK_REMOTE_DETACH:
                self._left(
                    self._links.get(address(proton.pn_event_link(event))),
                    closed=kind == proton.PN_LINK_REMOTE_CLOSE,
                )
            case proton.PN_SESSION_REMOTE_OPEN:
                _wrap(Session, proton.pn_event_session(event)).open()
            case proton.PN_SESSION_REMOTE_CLOSE:
                self._session_closed(_wrap(Session, proton.pn_event_session(event)))
            case proton.PN_CONNECTION_REMOTE_OPEN:
                self.container = self.proton.remote_container or ""
                self._handler.opened(self)
            case proton.PN_CONNECTION_REMOTE_CLOSE:
                self._lose_all()
                self.proton.close()

    def _left(self, link: Link | None, *, closed: bool) -> None:
        if link is None:
            return
        if not link.ended:
            self._handler.detached(link, closed)
        else:
            self.forget(link)  # the answer to our own detach

    def _session_closed(self, session: Session) -> None:
        gone = address(session._impl)
        for link in [link for link in self._links.values() if link.session == gone]:
            self._lose(link)
        session.close()
        session.free()

    def _lose_all(self) -> None:
        for link in tuple(self._links.values()):
            self._lose(link)

    def _lose(self, link: Link) -> None:
        if link.alive:
            link.alive = False
            self._links.pop(link.address, None)
            if not link.ended:
                self._handler.lost(link)

    def forget(self, link: Link) -> None:
        """Both sides have ended the link: free it, or each link would leak (P8)."""
        if link.alive:
            link.alive = False
            self._links.pop(link.address, None)
            link.proton.free()

    # AMQP out.

    def accept(self, container_id: str) -> None:
        """Answer the peer's open."""
        self.accepted = True
        self.proton.container = container_id
        self.proton.offered_capabilities = [symbol(name) for name in OFFERED_CAPABILITIES]
        self.proton.properties = {symbol("product"): "Distributary"}
        self.proton.open()
        self._tick()

    def refuse(self, container_id: str, condition: str, description: str, field: str) -> None:
        """Answer the open in the form by which clients know that they were refused."""
        self.proton.container = container_id
        self.proton.properties = {symbol("amqp:connection-establishment-failed"): True}
        self.proton.open()
        info: Any = {symbol("invalid-field"): symbol(field)}
        self.proton.condition = Condition(condition, description, info)
        self.proton.close()
        self._handler.failed(self, description)

    def close(self, condition: str, description: str) -> None:
        """End the connection with an error; its links are lost at once."""
        if not self.alive or not self.proton.state & (
            Endpoint.LOCAL_ACTIVE | Endpoint.LOCAL_UNINIT
        ):
            return
        self._handler.failed(self, description)
        self._lose_all()
        if self.proton.state & Endpoint.LOCAL_UNINIT:
            self.proton.open()
        self.proton.condition = Condition(condition, description)
        self.proton.close()
        self._closing = True
        self._engine.loop.call_later(CLOSE_SECONDS, self._give_up)
        self.touch()

    def _give_up(self) -> None:
        if self.alive:
            cast("asyncio.Transport", self._transport).close()

    def hold(self, on: bool) -> None:
        """Stop reading from this peer, or go on."""
        transport = cast("asyncio.Transport", self._transport)
        if self.alive and on == transport.is_reading():
            (transport.pause_reading if on else transport.resume_reading)()

    def abort(self) -> None:
        """Drop the socket now."""
        cast("asyncio.Transport", self._transport).abort()

    def touch(self) -> None:
        """There may be something to write; `Engine.flush` will."""
        if not self._touched:
            self._touched = True
            self._engine.touched.append(self)

    def flush(self) -> None:
        """Write what the engine has for the peer."""
        self._touched = False
        transport = self._transport
        while self.alive and self.writable and transport is not None:
            size = pumping.output(self._amqp_address, self._engine.write_pointer, WRITE_BYTES)
            if size < 0:
                transport.close()
                return
            if size == 0:
                return
            transport.write(bytes(self._engine.write_buffer[:size]))
            if size < WRITE_BYTES:
                return

    def _tick(self) -> None:
        """Proton's own clock: heartbeats to the peer, and its silence noticed."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        now_ms = int(self._engine.loop.time() * 1_000)
        next_ms = proton.pn_transport_tick(self._amqp._impl, now_ms)
        self.touch()
        if next_ms:
            delay = max(0.001, (next_ms - now_ms) / 1_000)
            self._timer = self._engine.loop.call_later(delay, self._ticked)

    def _ticked(self) -> None:
        self._timer = None
        if self.alive:
            self._tick()
            self._engine.flush()


class Engine:
    """What all connections of a loop share: the pump, the buffers, the limits."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        limits: Amqp,
        mechanisms: tuple[str, ...],
        *,
        check_passwords: bool,
    ) -> None:
        self.loop, self.handler, self.limits = loop, handler, limits
        self._mechanisms, self._check = mechanisms, check_passwords
        self.pump = Pump(limits.message_bytes_max)
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.read_pointer = pumping.pointer(self.read_buffer)
        self.write_buffer = memoryview(bytearray(WRITE_BYTES))
        self.write_pointer = pumping.pointer(self.write_buffer)
        self.touched: list[Connection] = []
        self.connections: set[Connection] = set()

    def connection(self) -> Connection:
        """The protocol factory for `loop.create_server`."""
        return Connection(self)

    def handshake(self) -> Handshake:
        anonymous = "ANONYMOUS" in self._mechanisms
        return Handshake(self._mechanisms, bare=anonymous, check=self._check)

    def add(self, connection: Connection) -> bool:
        """Whether there is room for one more connection."""
        self.connections.add(connection)
        return len(self.connections) <= self.limits.connections_max

    def remove(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def flush(self) -> None:
        """Write to every connection that was touched; the last act of every pass."""
        while self.touched:
            touched, self.touched = self.touched, []
            for connection in touched:
                connection.flush()


def _wrap(kind: Any, pointer: Any) -> Any:
    """Proton's Python object for one of its C objects."""
    return kind.wrap(pointer)
