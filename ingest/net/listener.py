"""The listening sockets: a new connection gets TLS, if there is TLS, and is given to the engine.

asyncio's own servers keep the TLS context that they began with, don't say for which peer a
handshake failed, and don't count a connection before its handshake is over. This one takes the
present context, and does both.
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

#: Connections that may wait to be accepted, and how many are accepted in one turn of the loop: each
#: takes a descriptor before it can be turned away, and 0.3 ms in the next turns.
BACKLOG = 1_024
ACCEPTED_AT_ONCE = 25
#: Seconds between two attempts at a port that isn't free yet.
RETRY_SECONDS = 0.1
#: Seconds that nobody is accepted when the system has no descriptors or memory for it, or says
#: something else.
PAUSE_SECONDS = 1.0
#: What `accept` passes on from the network, of a connection that is lost: the next one may be well
#: (accept(2), "Error handling").
_LOST = frozenset(
    {
        *(errno.ENETDOWN, errno.EPROTO, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.ENONET),
        *(errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EPERM),
    }
)


class Listener:
    """Open from `open` to `close`; connections that it made don't end with it.

    `tls` is the context of new connections at each moment. `room` says how many more connections
    there may be; those in the middle of their TLS handshake are counted here. `broke` is told of an
    error that nobody expected, and of the peer that it ended.
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

    async def open(self, *, patient: bool) -> None:
        """Listen. A `patient` one waits for the port: its former owner, when it wakes, gives it up.
        Raises InvalidRequest when it can't listen there."""
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
                # No descriptors, no memory, or what nobody has foreseen: it may be over soon.
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
        except OSError as error:  # TLS's own errors and its time-out are such
            _tell(peer, f"TLS: {error}")
        except Exception as error:  # noqa: BLE001 (nobody expected it, it is this peer's alone)
            accepted.close()
            self._broke(error, peer)


def _peer(accepted: socket) -> str:
    try:
        return str(accepted.getpeername())
    except OSError:
        return "gone"


def _tell(peer: str, reason: str) -> None:
    _events.warning("connection.failed", peer=peer, container="", reason=reason)
