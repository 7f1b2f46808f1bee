"""One connection to a broker: Proton's C engine under an asyncio protocol, in runs by the pump.

Rules: everything runs on the event loop's thread; `flush` writes once in each turn; addresses of
Proton's objects are valid while `alive`; Proton's objects are freed in `connection_lost`, or in
`discard` if the connection was never made.
"""

import asyncio
import sys
from collections.abc import Iterable
from time import monotonic
from typing import Any, Protocol, cast

import cproton
from cproton import lib as proton

from distributary.client.connection import engine_objects
from distributary.client.connection.client_errors import ClientError, ConnectionFailed, Refused
from distributary.client.connection.client_settings import ConnectionSettings
from distributary.client.connection.conditions import hung_up, tell, told, too_large, will_close
from distributary.client.connection.link_names import LinkNames
from distributary.client.connection.login import Login
from distributary.client.connection.server_url import Server
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.outgoing import Outgoing, WriteBuffer
from distributary.ingest.native.pump import Pump, Stop, address
from distributary.ingest.native.runs import Outcomes, Received

#: Bytes of one read of the socket.
READ_BYTES = 1 << 18


class ClientLink(Protocol):
    """The owner of a link on a connection, and on the next one if this one is lost. `error` says
    why it ended."""

    error: ClientError | None

    def make(self, wire: "Wire") -> Any:
        """Make the link on this connection's session, open it, and return Proton's pointer."""

    def opened(self) -> None:
        """Take note that the other side has attached the link."""

    def received(self, received: Received) -> None:
        """Take received messages."""

    def settled(self, outcomes: Outcomes) -> None:
        """Take the outcomes of sent messages."""

    def perform(self) -> None:
        """Hand waiting messages, outcomes and credit to the engine, which writes them next."""

    def fail(self, error: ClientError) -> None:
        """End: the other side has ended the link, or the client connects no more."""

    def lost(self) -> None:
        """Take note that the connection is lost; its deliveries can be read for the last time."""


class Wire(asyncio.BufferedProtocol):
    """One connection's socket and engine. `opened` is done when the broker has opened the
    connection, `lost` has the reason when it has ended."""

    def __init__(self, server: Server, container: str, settings: ConnectionSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self.server, self._settings = server, settings
        self._login: Login | None = Login(server, settings.scram_iterations_max)
        self._socket: asyncio.Transport | None = None
        # A view: TLS slices it for each record, and a slice of a bytearray would be a copy.
        self._in, self._out = memoryview(bytearray(READ_BYTES)), WriteBuffer()
        self._pump = Pump(settings.message_bytes_max)
        self._pump.columns.late = self._pump.columns.reasons = True
        self._links: dict[int, ClientLink] = {}
        self.names = LinkNames[ClientLink]()
        self._sessions = engine_objects.EngineSessions()
        self._dirty: dict[ClientLink, None] = {}
        self._watching: dict[engine_objects.Watching, None] = {}
        self._due = self._paused = self._closing = self._open = self.alive = False
        self._timer: asyncio.TimerHandle | None = None
        self._reason: ClientError | None = None
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[ClientError] = self._loop.create_future()
        self._engine = engine_objects.EngineObjects(container, server.host, settings)
        self.connection, self.session = self._engine.connection, self._engine.session
        self._transport, self._collector = self._engine.transport, self._engine.collector
        #: Messages may go by reference.
        self.outgoing = Outgoing(self._pump, address(self._transport), address(self._collector))

    def __str__(self) -> str:
        return self.server.url

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        assert self._login is not None  # noqa: S101
        self._socket.write(self._login.begin())
        self.alive = True

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._in

    def buffer_updated(self, size: int) -> None:
        if self._login is None:
            self._feed(self._in, size)
            return
        try:
            progress = self._login.feed(bytes(self._in[:size]))
        except ClientError as error:
            self.abort(error)
            return
        if self._socket is not None and progress.reply:
            self._socket.write(progress.reply)
        if progress.done:
            self._login = None
            self._engine.open()
            self._tick()
            self._feed(bytearray(progress.rest), len(progress.rest))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.later()  # closed within asyncio's own write, a socket would be ended twice

    def _free(self) -> None:
        self._engine.free()
        del self.connection, self.session, self._transport, self._collector, self._engine

    def connection_lost(self, error: Exception | None) -> None:
        self.alive, self._socket = False, None  # a TLS transport refers to this protocol
        if self._timer is not None:
            self._timer.cancel()
        plain = self._login is not None and self.server.tls is None
        reason = self._reason or ConnectionFailed(hung_up(self.server.url, error, plain))
        links, self._links = self._links, {}
        for link in links.values():
            link.lost()
        self._sessions.lost()
        self._free()
        if not self.opened.done():
            self.opened.set_exception(reason)
        self.lost.set_result(reason)

    def abort(self, reason: ClientError) -> None:
        """Drop the socket; the first reason counts."""
        self._reason = self._reason or reason.with_traceback(None)  # its frames refer to self
        if self._socket is not None:
            self._socket.abort()

    def discard(self, reason: ClientError) -> None:
        """Drop a connection that isn't opened yet."""
        self.opened.cancel()
        if self._socket is None and not self.lost.done():
            self._free()
        self.abort(reason)

    def close(self) -> None:
        """Send AMQP's close; `lost` is done when the broker has answered."""
        if self.alive and self._login is None:
            self.flush()
            self._closing = True
            proton.pn_connection_close(self.connection)
            self.write()
        elif self._socket is not None:
            self._socket.abort()

    # Links.

    def attach(self, link: ClientLink, name: str = "") -> None:
        """Make a link here, when its `name` is free; if it is lost, the next connection does."""
        if self.alive and not self.names.waits(link, name):
            self._links[made := address(link.make(self))] = link
            self.names.take(made, name)
            self.touch(link)

    def forget(self, pointer: Any, *, closed: bool) -> None:
        """End a link without waiting; `closed` ends its subscription or node, too."""
        self._dirty.pop(self._links.pop(address(pointer)), None)
        (proton.pn_link_close if closed else proton.pn_link_detach)(pointer)
        self.later()

    def end(self, pointer: Any, *, closed: bool = True) -> None:
        """End a link, and with `closed` its subscription or node; `fail` tells its owner when
        that is done, or why it isn't."""
        (proton.pn_link_close if closed else proton.pn_link_detach)(pointer)
        self.later()

    # Sessions beside the connection's own.

    def begin(self, session: engine_objects.ClientSession) -> Any:
        """Begin a further session; return Proton's pointer, valid until it has `ended`."""
        return self._sessions.begin(self.connection, session)

    def end_session(self, pointer: Any, links: Iterable[Any], condition: str, text: str) -> None:
        """End a session with these links, for this reason if there is one."""
        for link in links:
            self._dirty.pop(self._links.pop(address(link)), None)
        if condition:
            tell(proton.pn_session_condition(pointer), condition, text)
        self._sessions.end(pointer)
        self.later()

    def _session_closed(self, pointer: Any) -> None:
        if not proton.pn_session_state(pointer) & cproton.PN_LOCAL_CLOSED:
            self._refuse(f"{self} ended the session", proton.pn_session_remote_condition(pointer))
        else:
            self._sessions.ended(pointer)

    def touch(self, link: ClientLink) -> None:
        """Have the link's `perform` called once in this turn."""
        self._dirty[link] = None
        self.later()

    def watch(self, watching: engine_objects.Watching) -> None:
        """Call its `passed` after each read and write, while the connection lives."""
        self._watching[watching] = None

    def unwatch(self, watching: engine_objects.Watching) -> None:
        """Call its `passed` no more."""
        self._watching.pop(watching, None)

    def later(self) -> None:
        """Schedule `flush` in this turn of the loop."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Call `perform` of the links that asked for it, and write."""
        self._due = False
        if not self.alive or self._paused or self._login is not None or self._closing:
            return
        dirty, self._dirty = self._dirty, {}
        try:
            for link in dirty:
                link.perform()
            self.write()
            self._passed()
        except Exception as error:  # a bug: no waiting caller may hang because of it
            self.abort(ConnectionFailed(f"the client has a bug: {error!r}"))
            raise

    # The engine.

    def _feed(self, data: bytearray | memoryview, size: int) -> None:
        if not self.alive:
            return
        if size:
            pumping.feed(address(self._transport), pumping.pointer(data), size)
        self._pump.begin(size)
        while self._eat():
            pass
        self._passed()
        if self._open and not self.opened.done() and not self._reason:
            self.opened.set_result(None)
        broken = proton.pn_transport_condition(self._transport)
        if proton.pn_condition_is_set(broken) and not self._closing:
            self._refuse(f"the connection to {self.server.url} broke", broken)
        self.flush()

    def _passed(self) -> None:
        for watching in tuple(self._watching):
            watching.passed()

    def write(self) -> bool:
        """Write the engine's output and return whether all of it was written. Within one call,
        transfers may be written before outcomes that were given earlier."""
        socket = self._socket
        assert socket is not None  # noqa: S101
        while chunk := self._out.take(self.outgoing):
            socket.write(chunk)
            self._out.written(chunk, socket)
            if self._paused:
                return False
        if self.outgoing.holds:
            self.outgoing.written(engine_objects.EngineLinks(tuple(self._links)))
        if chunk is None and proton.pn_connection_state(self.connection) & cproton.PN_REMOTE_CLOSED:
            socket.close()  # until then the other side may work on outcomes
        return True

    def _tick(self) -> None:
        """Send heartbeats, and abort if the other side's are missing."""
        if not self.alive:
            return
        due = proton.pn_transport_tick(self._transport, int(monotonic() * 1_000))
        if proton.pn_condition_is_set(proton.pn_transport_condition(self._transport)):
            silent = f"{self._settings.idle_timeout_ms / 1_000:g} s"
            self.abort(ConnectionFailed(f"{self.server.url} has sent nothing for {silent}"))
            return
        self.write()
        seconds = max(due / 1_000 - monotonic(), 0.01) if due else 1.0
        self._timer = self._loop.call_later(seconds, self._tick)

    def _eat(self) -> bool:
        """Process events up to one that needs a decision; return whether there are more."""
        pump, collector = self._pump, address(self._collector)
        stop = pump.events(collector)
        if pump.received_count:
            self._received(pump.received())
        for outcomes in pump.outcomes() if pump.outcomes_count else ():
            if (link := self._links.get(outcomes.link)) is not None:
                link.settled(outcomes)
        match stop:
            case Stop.IDLE:
                return False
            case Stop.EVENT:
                event = proton.pn_collector_peek(self._collector)
                self._event(proton.pn_event_type(event), event)
                proton.pn_collector_pop(self._collector)
            case Stop.ALONE:
                received = pump.receive_alone()
                proton.pn_collector_pop(self._collector)
                if received is None:
                    self._malformed()
                else:
                    self._received(received)
            case Stop.MALFORMED:
                self._malformed()
            case Stop.TOO_LARGE | Stop.COMMAND:
                self._too_large()
        return True

    def _received(self, received: Received) -> None:
        link = self._links.get(received.link)
        if link is None:
            pumping.settle(received.deliveries, pumping.RELEASED)
        else:
            link.received(received)

    def _malformed(self) -> None:
        delivery = self._pump.stopped_delivery.to_bytes(8, sys.byteorder)
        pumping.reject(delivery, "amqp:decode-error", "the transfer holds no AMQP message")

    def _too_large(self) -> None:
        """End the link that received a message over the limit."""
        pumping.discard(self._pump.stopped_link, self._pump.stopped_delivery)
        proton.pn_collector_pop(self._collector)
        if (link := self._links.get(self._pump.stopped_link)) is not None:
            why = too_large(self._settings.message_bytes_max)
            pointer = cproton.ffi.cast("pn_link_t *", self._pump.stopped_link)
            tell(proton.pn_link_condition(pointer), *why)
            self.forget(pointer, closed=False)
            link.fail(Refused("the link was ended by this side", *why))

    def _event(self, kind: int, event: Any) -> None:
        match kind:
            case proton.PN_CONNECTION_REMOTE_OPEN:
                self._open = not will_close(self.connection)
            case proton.PN_CONNECTION_REMOTE_CLOSE:
                self._closed(proton.pn_connection_remote_condition(self.connection))
            case proton.PN_SESSION_REMOTE_OPEN:
                self._sessions.begun(proton.pn_event_session(event))
            case proton.PN_SESSION_REMOTE_CLOSE:
                self._session_closed(proton.pn_event_session(event))
            case proton.PN_LINK_REMOTE_OPEN:
                self._attached(proton.pn_event_link(event))
            case proton.PN_LINK_REMOTE_CLOSE | proton.PN_LINK_REMOTE_DETACH:
                self._detached(proton.pn_event_link(event))
            case proton.PN_LINK_FLOW:
                if (link := self._links.get(address(proton.pn_event_link(event)))) is not None:
                    self._dirty[link] = None

    def _closed(self, condition: Any) -> None:
        if self._closing:
            self.write()
            return
        self._reason = self._reason or Refused(f"{self} ended the connection", *told(condition))
        self._closing = True
        proton.pn_connection_close(self.connection)
        self.write()

    def _refuse(self, what: str, condition: Any) -> None:
        self.abort(Refused(what, *told(condition)))

    def _attached(self, pointer: Any) -> None:
        link = self._links.get(address(pointer))
        if link is None:
            return
        is_sender = proton.pn_link_is_sender(pointer)
        terminus = proton.pn_link_remote_target if is_sender else proton.pn_link_remote_source
        if proton.pn_terminus_get_type(terminus(pointer)) != cproton.PN_UNSPECIFIED:
            link.opened()
            self._dirty[link] = None

    def _detached(self, pointer: Any) -> None:
        link = self._links.pop(address(pointer), None)
        if link is not None:
            self._dirty.pop(link, None)
            why = told(proton.pn_link_remote_condition(pointer))
            proton.pn_link_close(pointer)
            link.fail(Refused(f"{self.server.url} ended the link to {link}", *why))
        proton.pn_link_free(pointer)
        for waiting in self.names.ended(address(pointer)):
            self.attach(*waiting)
