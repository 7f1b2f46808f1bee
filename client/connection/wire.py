"""One connection to a broker: Proton's C engine under an asyncio protocol, in runs by the pump.

Rules: everything runs on the event loop's thread; nothing is written while a pass works, `flush`
writes once for each turn; addresses of Proton's objects are good while `alive`; Proton's objects
are freed in `connection_lost` and nowhere else.
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
from distributary.client.connection.conditions import hung_up, tell, told, will_close
from distributary.client.connection.login import Login
from distributary.client.connection.server_url import Server
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.outgoing import Outgoing, WriteBuffer
from distributary.ingest.native.pump import Pump, Stop, address
from distributary.ingest.native.runs import Outcomes, Received

#: Bytes of one read of the socket.
READ_BYTES = 1 << 18


class ClientLink(Protocol):
    """What has a link on a connection; on the next connection again, if this one is lost. `error`
    is why it has no more."""

    error: ClientError | None

    def make(self, wire: "Wire") -> Any:
        """Make the link on this connection's session and open it; Proton's pointer."""

    def opened(self) -> None:
        """The other side has attached it."""

    def received(self, received: Received) -> None:
        """Messages came."""

    def settled(self, outcomes: Outcomes) -> None:
        """Messages that went have their outcome."""

    def perform(self) -> None:
        """Hand to the engine what waits: it is written after this."""

    def fail(self, error: ClientError) -> None:
        """It is over: the other side has ended it, or there will be no connection any more."""

    def lost(self) -> None:
        """The connection is gone; its deliveries can be read for the last time."""


class Wire(asyncio.BufferedProtocol):
    """One socket's life. `opened` is done when the broker has opened the connection, `lost` with
    the reason when it is over."""

    def __init__(self, server: Server, container: str, settings: ConnectionSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self._server, self._settings = server, settings
        self._login: Login | None = Login(server, settings.scram_iterations_max)
        self._socket: asyncio.Transport | None = None
        # A view: TLS gives each record of a read a slice of it, which of a bytearray is a copy.
        self._in, self._out = memoryview(bytearray(READ_BYTES)), WriteBuffer()
        self._pump = Pump(settings.message_bytes_max)
        self._pump.columns.late = self._pump.columns.reasons = True
        self._links: dict[int, ClientLink] = {}
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
        return self._server.url

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
        self.later()  # asyncio, amid its own write, would end a socket twice that is closed in here

    def _free(self) -> None:
        self._engine.free()
        del self.connection, self.session, self._transport, self._collector, self._engine

    def connection_lost(self, error: Exception | None) -> None:
        self.alive, self._socket = False, None  # which has this one, with TLS
        if self._timer is not None:
            self._timer.cancel()
        plain = self._login is not None and self._server.tls is None
        reason = self._reason or ConnectionFailed(hung_up(self._server.url, error, plain))
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
        self._reason = self._reason or reason.with_traceback(None)  # its frames have this one
        if self._socket is not None:
            self._socket.abort()

    def discard(self, reason: ClientError) -> None:
        """Nobody waits for `opened` any more."""
        self.opened.cancel()
        if self._socket is None and not self.lost.done():
            self._free()
        self.abort(reason)

    def close(self) -> None:
        """Say goodbye; `lost` is done when the broker has answered."""
        if self.alive and self._login is None:
            self.flush()
            self._closing = True
            proton.pn_connection_close(self.connection)
            self.write()
        elif self._socket is not None:
            self._socket.abort()

    # Links.

    def attach(self, link: ClientLink) -> None:
        """Make its link here; nothing where the connection is lost: the next one makes it."""
        if self.alive:
            self._links[address(link.make(self))] = link
            self.touch(link)

    def forget(self, pointer: Any, *, closed: bool) -> None:
        """End a link from this side: `closed` ends what it stands for, too."""
        self._dirty.pop(self._links.pop(address(pointer)), None)
        (proton.pn_link_close if closed else proton.pn_link_detach)(pointer)
        self.later()

    def end(self, pointer: Any, *, closed: bool = True) -> None:
        """End what a link stands for, or (`closed` is false) the link alone; it hears in `fail`
        when that is done, or why not."""
        (proton.pn_link_close if closed else proton.pn_link_detach)(pointer)
        self.later()

    # Sessions beside the connection's own.

    def begin(self, session: engine_objects.ClientSession) -> Any:
        """A session of its own; Proton's pointer, good until it has `ended`."""
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
        """It has something for the engine: it is asked for it once in this turn."""
        self._dirty[link] = None
        self.later()

    def watch(self, watching: engine_objects.Watching) -> None:
        """Have it look after each read, while the connection lives."""
        self._watching[watching] = None

    def unwatch(self, watching: engine_objects.Watching) -> None:
        """It looks no more."""
        self._watching.pop(watching, None)

    def later(self) -> None:
        """Write in this turn of the loop what the engine has by then."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Take what links have, and write."""
        self._due = False
        if not self.alive or self._paused or self._login is not None or self._closing:
            return
        dirty, self._dirty = self._dirty, {}
        try:
            for link in dirty:
                link.perform()
            self.write()
            self._passed()
        except Exception as error:  # a bug: nobody may wait for ever because of it
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
            self._refuse(f"the connection to {self._server.url} broke", broken)
        self.flush()

    def _passed(self) -> None:
        for watching in tuple(self._watching):
            watching.passed()

    def write(self) -> bool:
        """Write what the engine has; whether all of it. Within one such pass it may write transfers
        before the outcomes that were given before them."""
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
            socket.close()  # before, the other side may still have outcomes to work on
        return True

    def _tick(self) -> None:
        """Heartbeats, and whether the other side's come."""
        if not self.alive:
            return
        due = proton.pn_transport_tick(self._transport, int(monotonic() * 1_000))
        condition = proton.pn_transport_condition(self._transport)
        if proton.pn_condition_is_set(condition):
            silent = f"{self._settings.idle_timeout_ms / 1_000:g} s"
            self.abort(ConnectionFailed(f"{self._server.url} hasn't said a word for {silent}"))
            return
        self.write()
        seconds = max(due / 1_000 - monotonic(), 0.01) if due else 1.0
        self._timer = self._loop.call_later(seconds, self._tick)

    def _eat(self) -> bool:
        """Eat events up to one that needs a decision; whether there are more."""
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
        """Its link ends."""
        pumping.discard(self._pump.stopped_link, self._pump.stopped_delivery)
        proton.pn_collector_pop(self._collector)
        link = self._links.get(self._pump.stopped_link)
        if link is not None:
            most = self._settings.message_bytes_max
            condition = "amqp:link:message-size-exceeded"
            text = f"a message is larger than {most} bytes (connection.message_bytes_max)"
            pointer = cproton.ffi.cast("pn_link_t *", self._pump.stopped_link)
            tell(proton.pn_link_condition(pointer), condition, text)
            self.forget(pointer, closed=False)
            link.fail(Refused("the link was ended by this side", condition, text))

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
                link = self._links.get(address(proton.pn_event_link(event)))
                if link is not None:
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
            link.fail(Refused(f"{self._server.url} ended the link to {link}", *why))
        proton.pn_link_free(pointer)
