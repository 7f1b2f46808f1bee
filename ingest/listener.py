"""The listening sockets, and the TLS context that new connections are served with."""

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from socket import socket

import structlog

from ingest.settings import Settings
from pipeline.errors import InvalidRequest

_events = structlog.get_logger("gateway")

#: Connections that may wait to be accepted, and how many are accepted in one turn of the loop: each
#: takes a descriptor before it can be turned away.
BACKLOG = 1_024
ACCEPTED_AT_ONCE = 100
#: Seconds between two attempts at a port that isn't free yet.
RETRY_SECONDS = 0.1
#: Seconds that a listener which is replaced lives on, without accepting anybody.
HANDOVER_SECONDS = 0.1


class Listener:
    """Open from `open` to `close`; connections that it made don't end with it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._loop, self._settings, self._protocol = loop, settings, protocol
        self._servers: list[asyncio.Server] = []
        self._renewing = asyncio.Lock()
        self._closed = False

    async def open(self, tls: ssl.SSLContext | None, *, patient: bool) -> None:
        """Listen. A `patient` one waits for the port: its former owner, when it wakes, gives it up.
        Raises InvalidRequest when it can't listen there."""
        host, port = self._settings.gateway.address
        said = False
        while True:
            try:
                server = await self._loop.create_server(
                    self._protocol,
                    host,
                    port,
                    ssl=tls,
                    ssl_handshake_timeout=self._patience(tls),
                    backlog=ACCEPTED_AT_ONCE,
                )
                break
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                if not patient or error.errno != errno.EADDRINUSE:
                    raise InvalidRequest(f"can't listen on {host}:{port}: {reason}") from None
                if not said:
                    said = True
                    _events.warning(
                        "standby.port_in_use", address=f"{host}:{port}", then="it waits"
                    )
            await asyncio.sleep(RETRY_SECONDS)
        self._servers = [server]
        self._lengthen()

    async def renew(self, tls: ssl.SSLContext | None) -> None:
        """Serve new connections with another context. The sockets stay, so that nobody who comes
        meanwhile is turned away."""
        async with self._renewing:
            old = self._servers
            sockets = [one.dup() for server in old for one in server.sockets]
            self._servers = [await self._serve(one, tls) for one in sockets]
            self._lengthen()
            for server in old:
                for one in server.sockets:
                    self._loop.remove_reader(one.fileno())
            # Whom an old one has just accepted must be its own before it may close.
            await asyncio.sleep(HANDOVER_SECONDS)
            for server in old:
                server.close()
            if self._closed:
                self.close()

    async def _serve(self, own: socket, tls: ssl.SSLContext | None) -> asyncio.Server:
        return await self._loop.create_server(
            self._protocol,
            sock=own,
            ssl=tls,
            ssl_handshake_timeout=self._patience(tls),
            backlog=ACCEPTED_AT_ONCE,
        )

    def close(self) -> None:
        self._closed = True
        for server in self._servers:
            server.close()

    def _lengthen(self) -> None:
        """asyncio has one number for both: the kernel's queue is longer than a turn."""
        for server in self._servers:
            for one in server.sockets:
                with one.dup() as own:
                    own.listen(BACKLOG)

    def _patience(self, tls: ssl.SSLContext | None) -> float | None:
        return self._settings.amqp.handshake_ms_max / 1_000 if tls else None
