"""Proton's objects of one connection: made and freed together."""

from typing import Any, Protocol

import cproton
from cproton import lib as proton

from distributary.client.connection.client_settings import ConnectionSettings
from distributary.ingest.native.pump import address
from distributary.ingest.native.pump_library import lib


class ClientSession(Protocol):
    """The owner of a session of its own on a connection."""

    def ended(self) -> None:
        """Take note that the other side has answered the end, or that the connection is lost."""


class Watching(Protocol):
    """An object that looks at its deliveries itself after each read and each write."""

    def passed(self) -> None:
        """Look at the deliveries: one read's events were handed out, or the links have sent."""


class EngineSessions:
    """The further sessions of a connection, beside its first one."""

    __slots__ = ("_sessions", "_unbegun")

    def __init__(self) -> None:
        self._sessions: dict[int, ClientSession] = {}
        self._unbegun: set[int] = set()  #: sessions to end when their begin is answered

    def begin(self, connection: Any, session: ClientSession) -> Any:
        """Begin a session and return Proton's pointer, valid until the session has `ended`."""
        pointer = proton.pn_session(connection)
        self._sessions[address(pointer)] = session
        proton.pn_session_open(pointer)
        return pointer

    def end(self, pointer: Any) -> None:
        """End a session, once the other side has answered its begin. Ended earlier, the engine
        would forget its channel and take that answer as an error of the whole connection."""
        if proton.pn_session_state(pointer) & proton.PN_REMOTE_UNINIT:
            self._unbegun.add(address(pointer))
        else:
            proton.pn_session_close(pointer)

    def begun(self, pointer: Any) -> None:
        """Take note that the other side has answered a session's begin."""
        if address(pointer) in self._unbegun:
            self._unbegun.remove(address(pointer))
            proton.pn_session_close(pointer)

    def ended(self, pointer: Any) -> None:
        """Take note that the other side has answered a session's end."""
        if (session := self._sessions.pop(address(pointer), None)) is not None:
            session.ended()
            proton.pn_session_free(pointer)

    def lost(self) -> None:
        """End all sessions: the connection is lost."""
        for session in self._sessions.values():
            session.ended()


class EngineQueue:
    """The engine's queue of one link, by the link's address."""

    __slots__ = ("_link",)

    def __init__(self, link: int) -> None:
        self._link = link

    @property
    def queued(self) -> int:
        """Deliveries that wait in the engine, for the peer's window or to be written."""
        return int(lib.pump_queued(self._link))

    @property
    def session(self) -> int:
        """The address of its session."""
        return address(proton.pn_link_session(cproton.ffi.cast("pn_link_t *", self._link)))


class EngineLinks:
    """The links of a connection that are alive, by their addresses."""

    __slots__ = ("links",)

    def __init__(self, links: tuple[int, ...]) -> None:
        self.links = [EngineQueue(link) for link in links]


class EngineObjects:
    """A connection with one session, its transport, and the collector of its events. None of them
    may be used after `free`."""

    __slots__ = ("collector", "connection", "session", "transport")

    def __init__(self, container: str, host: str, settings: ConnectionSettings) -> None:
        self.connection: Any = proton.pn_connection()
        cproton.pn_connection_set_container(self.connection, container)
        cproton.pn_connection_set_hostname(self.connection, host)
        self.collector: Any = proton.pn_collector()
        proton.pn_connection_collect(self.connection, self.collector)
        self.session: Any = proton.pn_session(self.connection)
        self.transport: Any = proton.pn_transport()
        proton.pn_transport_set_idle_timeout(self.transport, settings.idle_timeout_ms)
        proton.pn_transport_set_max_frame(self.transport, settings.frame_bytes_max)

    def open(self) -> None:
        """Send AMQP's open, and begin the session."""
        proton.pn_transport_bind(self.transport, self.connection)
        proton.pn_connection_open(self.connection)
        proton.pn_session_open(self.session)

    def free(self) -> None:
        """Give all of them back."""
        proton.pn_transport_unbind(self.transport)
        proton.pn_connection_collect(self.connection, cproton.ffi.NULL)
        proton.pn_connection_release(self.connection)
        proton.pn_decref(self.transport)
        proton.pn_decref(self.connection)
        proton.pn_collector_free(self.collector)
        del self.connection, self.session, self.transport, self.collector
