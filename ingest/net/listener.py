"""The listening sockets: a new connection gets TLS, if it is configured, and goes to the engine.

asyncio's own servers keep their first TLS context, don't tell for which peer a handshake failed,
and don't count a connection before its handshake is over. This listener uses the current context,
logs the peer of a failed handshake, and counts connections from their accept on.
"""

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from socket import socket

import structlog

from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import InvalidRequest

_events = structlog.get_logger("gateway")

#: Connections that may wait to be accepted, and those that are accepted in one turn of the loop:
#: each takes a descriptor before it can be refused, and 0.3 ms in the next turns.
BACKLOG = 1_024
ACCEPTED_AT_ONCE = 25
#: Seconds between two attempts at a port that isn't free yet.
RETRY_SECONDS = 0.1
#: Seconds without accepting after an error, for instance when descriptors or memory are used up.
PAUSE_SECONDS = 1.0
#: Errors of `accept` that concern one lost connection: the next one may be accepted (accept(2),
#: "Error handling").
_LOST = frozenset(
    {
        *(errno.ENETDOWN, errno.EPROTO, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.ENONET),
        *(errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EPERM),
    }
)


class Listener:
    """The listener, open from `open` to `close`; its connections don't end with it.

    `tls` returns the current TLS context. `room` returns how many more connections are allowed;
    connections amid their TLS handshake are counted here. `broke` gets an unexpected error, and the
    peer that it ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: Callable[[], ssl.SSLContext | None],
        room: Callable[[], int],
        broke: Callable[[Exception, str], None],
    ) -> None:
        self._loop, self._settings, self._protocol = loop, settings, protocol
        self._tls, self._room, self._broke = tls, room, broke
        self._sockets: list[socket] = []
        self._coming: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """The address on which it listens, as `gateway.listen` says it: with the port that the
        system has chosen where that is 0."""
        gateway = self._settings.gateway
        if gateway.address[1] or not self._sockets:
            return gateway.listen
        place, _, _ = gateway.listen.rpartition(":")
        return f"{place}:{self._sockets[0].getsockname()[1]}"

    async def open(self, *, patient: bool) -> None:
        """Listen. If `patient`, wait for the port: the home's former owner gives it up when it
        wakes. Raises InvalidRequest when it can't listen there."""
        host, port = self._settings.gateway.address
        said = False
        while True:
            try:
                await self._listen(host, port)
            except OSError as error:
                self.close()
                reason = os.strerror(error.errno) if error.errno else str(error)
                if not patient or error.errno != errno.EADDRINUSE:
                    text = f"can't listen on {host}:{port}: {reason}; --listen names another"
                    raise InvalidRequest(text) from None
                if not said:
                    said = True
                    _events.warning(
                        "standby.port_in_use", address=f"{host}:{port}", then="it waits"
                    )
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)

    def close(self) -> None:
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets = []
        for task in self._coming:
            task.cancel()

    async def _listen(self, host: str, port: int) -> None:
        # asyncio finds the addresses and binds to them; it never serves.
        bound = await self._loop.create_server(self._protocol, host, port, start_serving=False)
        self._sockets = [one.dup() for one in bound.sockets]
        bound.close()
        for one in self._sockets:
            one.setblocking(False)
            one.listen(BACKLOG)
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _LOST:
                    _tell("gone", f"accept: {error.strerror}")
                    continue
                # No descriptors, no memory, or an unforeseen error: it may be over soon.
                _events.warning("connections.waiting", reason=error.strerror)
                self._loop.remove_reader(listening)
                self._loop.call_later(PAUSE_SECONDS, self._resume, listening)
                return
            if len(self._coming) < self._room():
                task = self._loop.create_task(self._let_in(accepted))
                self._coming.add(task)
                task.add_done_callback(self._coming.discard)
            else:
                _tell(_peer(accepted), "there are amqp.connections_max connections already")
                accepted.close()

    def _resume(self, listening: socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def _let_in(self, accepted: socket) -> None:
        tls = self._tls()
        seconds = self._settings.amqp.handshake_ms_max / 1_000 if tls else None
        peer = _peer(accepted)
        try:
            accepted.setblocking(False)
            await self._loop.connect_accepted_socket(
                self._protocol, accepted, ssl=tls, ssl_handshake_timeout=seconds
            )
        except OSError as error:  # also TLS errors and the handshake's time-out
            _tell(peer, f"TLS: {error}")
        except Exception as error:  # noqa: BLE001 (a bug, of this peer alone)
            accepted.close()
            self._broke(error, peer)


def _peer(accepted: socket) -> str:
    try:
        return str(accepted.getpeername())
    except OSError:
        return "gone"


def _tell(peer: str, reason: str) -> None:
    _events.warning("connection.failed", peer=peer, container="", reason=reason)
