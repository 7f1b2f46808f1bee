"""The attempts to connect again after a connection is lost."""

import asyncio
import random

from distributary.client.connection.client_errors import (
    ClientError,
    ConnectionFailed,
    LoginRefused,
)
from distributary.client.connection.client_settings import ReconnectSettings
from distributary.client.connection.dialing import Dialing
from distributary.client.connection.server_url import Server
from distributary.client.connection.wire import Wire

#: Seconds after which the loss of a connection restarts the waits between attempts at the first.
_GOOD_SECONDS = 1.0


class Reconnecting:
    """Attempts with waits between them that grow, over all losses, until a connection lives."""

    def __init__(self, dialing: Dialing, settings: ReconnectSettings) -> None:
        self._dialing, self._settings = dialing, settings
        self._wait = settings.first_ms

    async def again(self, server: Server, lived: float, reason: ClientError) -> Wire:
        """Return a connection to this server, whose connection was lost for this reason after so
        many seconds, or to the next server. Raises ClientError after `give_up_seconds`, and
        LoginRefused at once where no server lets the user in."""
        loop, settings = asyncio.get_running_loop(), self._settings
        if lived > _GOOD_SECONDS:
            self._wait = settings.first_ms
        until = loop.time() + settings.give_up_seconds
        while (left := until - loop.time()) > 0:
            pause = self._wait / 1_000 * (1 - settings.jitter * random.random())  # noqa: S311 (spreads clients)
            self._wait = min(2 * self._wait, settings.longest_ms)
            await asyncio.sleep(min(pause, left))
            if pause >= left:
                break
            try:
                return await self._dialing.dial(server, left - pause)
            except LoginRefused:
                raise
            except ClientError as error:
                reason = error
        if not settings.give_up_seconds:
            raise reason
        raise ConnectionFailed(f"{reason}; given up after {settings.give_up_seconds:g} s")
