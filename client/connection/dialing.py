"""Connecting to the first server that answers, and the error sentence of each failure."""

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass

from distributary.client.connection.client_errors import ClientClosed, ClientError, ConnectionFailed
from distributary.client.connection.client_settings import ConnectionSettings
from distributary.client.connection.server_url import Server
from distributary.client.connection.wire import Wire


@dataclass(frozen=True, slots=True)
class Dialing:
    """Servers to connect to, in order, and the client's container id."""

    servers: tuple[Server, ...]
    container: str
    settings: ConnectionSettings

    async def dial(self) -> Wire:
        """Return an open connection. Raises the first server's ClientError where none answers."""
        first: ClientError | None = None
        try:
            for server in self.servers:
                try:
                    return await self._dial(server)
                except ClientError as error:
                    first = first or error
            assert first is not None  # noqa: S101
            raise first
        finally:
            del first  # an error and the frame that raises it would keep each other alive

    async def _dial(self, server: Server) -> Wire:
        seconds = self.settings.open_seconds
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
            return ConnectionFailed(f"no server answers at {server.url}: the listener there hasn't "
                                    f"opened an AMQP connection within {seconds:g} s")  # fmt: skip
        case socket.gaierror():
            return ConnectionFailed(f"no server answers at {server.url}: {error.strerror}")
        case ValueError():  # of the resolver, or of TLS
            return ConnectionFailed(f"{server.url} names no host: {error}")
        case OSError():
            why = os.strerror(error.errno) if error.errno else str(error)
            return ConnectionFailed(f"no server answers at {server.url}: {why}")
    return None
