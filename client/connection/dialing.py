"""Connecting to the first server that answers, and the error sentence of each failure."""

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from distributary.client.connection.client_errors import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    LoginRefused,
)
from distributary.client.connection.client_settings import ConnectionSettings
from distributary.client.connection.server_url import Server
from distributary.client.connection.wire import Wire


@dataclass(frozen=True, slots=True)
class Dialing:
    """Servers to connect to, in order, and the client's container id."""

    servers: tuple[Server, ...]
    container: str
    settings: ConnectionSettings

    async def dial(self, last: Server | None = None, seconds: float = inf) -> Wire:
        """Return an open connection: to `last`, the server of the connection before, or to the next
        one that answers, each tried for its part of `seconds`. Raises a ClientError where none
        answers: the first server's; after a `last` one LoginRefused only if all refuse the
        login."""
        until = asyncio.get_running_loop().time() + seconds
        said: ClientError | None = None
        try:
            for left, server in self._in_turn(last):
                part = (until - asyncio.get_running_loop().time()) / left
                try:
                    return await self._dial(server, min(self.settings.open_seconds, part))
                except ClientError as error:
                    if said is None or (last is not None and isinstance(said, LoginRefused)):
                        said = error
            assert said is not None  # noqa: S101
            raise said
        finally:
            del said  # an error and the frame that raises it would keep each other alive

    def _in_turn(self, last: Server | None) -> Iterator[tuple[int, Server]]:
        """Yield each server, and how many are left with it, from `last` on."""
        at = self.servers.index(last) if last is not None else 0
        turn = self.servers[at:] + self.servers[:at]
        return zip(range(len(turn), 0, -1), turn, strict=True)

    async def _dial(self, server: Server, seconds: float) -> Wire:
        wire = Wire(server, self.container, self.settings)
        name = server.host if server.tls else None
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().create_connection(
                    lambda: wire, server.host, server.port, ssl=server.tls, server_hostname=name
                )
                await wire.opened
        except BaseException as error:  # noqa: BLE001 (raised again)
            failed = _failed(server, error, seconds)
            try:
                wire.discard(failed or ClientClosed("the attempt to connect was cancelled"))
                if failed is None or failed is error:
                    raise
                raise failed from None
            finally:
                del wire, failed  # as above, and a connection its error
        return wire


def _failed(server: Server, error: BaseException, seconds: float) -> ClientError | None:
    """Return the ClientError for a failure to connect; None for an error of another kind."""
    match error:
        case ClientError():
            return error
        case ssl.SSLCertVerificationError():
            why = error.verify_message
            return ConnectionFailed(f"{server.url} shows a certificate that isn't trusted: {why}")
        case ssl.SSLError() | ConnectionResetError() if server.tls:
            return ConnectionFailed(f"{server.url} doesn't speak TLS, or not with this certificate "
                                    f"({error}): without TLS it is amqp://")  # fmt: skip
        case TimeoutError():
            said = f"{round(seconds, 3):g} s"
            return ConnectionFailed(f"no server answers at {server.url}: the listener there hasn't "
                                    f"opened an AMQP connection within {said}")  # fmt: skip
        case socket.gaierror():
            return ConnectionFailed(f"no server answers at {server.url}: {error.strerror}")
        case ValueError():  # of the resolver, or of TLS
            return ConnectionFailed(f"{server.url} names no host: {error}")
        case OSError():
            why = os.strerror(error.errno) if error.errno else str(error)
            return ConnectionFailed(f"no server answers at {server.url}: {why}")
    return None
