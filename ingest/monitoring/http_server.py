"""A small HTTP/1.1 server on the gateway's loop, for metrics and health. h11 speaks the protocol.

Every client that may connect may read; answers have only numbers, names and states. A request is a
GET or HEAD without a body; any other ends its connection. Connections, bytes and time are bounded
(`[http]`), and no error here ends the gateway: while its port isn't free it waits for the port.
"""

import asyncio
import os
from typing import TYPE_CHECKING

import structlog

from distributary.ingest.monitoring.http_messages import Site
from distributary.ingest.runtime.host import Host

if TYPE_CHECKING:
    from distributary.ingest.monitoring.http_connection import HttpConnection

_events = structlog.get_logger("http")

#: Seconds between two attempts at a port that isn't free.
RETRY_SECONDS = 1.0


class HttpServer:
    """Listens from `open` to `close`. `show` sets the site that answers from now on."""

    def __init__(self, host: Host, site: Site) -> None:
        self._loop, self._settings, self.site = host.loop, host.settings.http, site
        self.connections: set[HttpConnection] = set()
        #: One answer is made at a time: so many clients don't load the loop more at once.
        self.turn = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waits = False
        self._closed = False

    def show(self, site: Site) -> None:
        self.site = site

    async def open(self) -> None:
        """Listen, or wait for the port in the background; do nothing without an address, or if it
        is open already."""
        if self._settings.listen and self._server is None and self._timer is None:
            await self._try()

    def _connection(self) -> "HttpConnection":
        from distributary.ingest.monitoring.http_connection import HttpConnection  # noqa: PLC0415 (h11 is loaded with the first client)

        return HttpConnection(self, self._loop, self._settings.request_ms_max / 1_000)

    def _again(self) -> None:
        if not self._closed:
            self._opening = self._loop.create_task(self._try())

    async def _try(self) -> None:
        host, port = self._settings.address
        try:
            self._server = await self._loop.create_server(self._connection, host, port)
        except OSError as error:
            if not self._waits:
                self._waits = True
                _events.warning(
                    "http.waits",
                    address=self._settings.listen,
                    reason=os.strerror(error.errno) if error.errno else str(error),
                    then="the gateway serves without it and tries again; http.listen names another",
                )
            self._timer = self._loop.call_later(RETRY_SECONDS, self._again)
            return
        _events.info("http.listening", address=self._settings.listen)

    @property
    def full(self) -> bool:
        """Whether there are `connections_max` connections."""
        return len(self.connections) >= self._settings.connections_max

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._server is not None:
            self._server.close()
        for one in tuple(self.connections):
            one.abort()
