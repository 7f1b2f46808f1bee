"""Logging in: the gateway decides, by its own users.

A browser without a session gets one at once where the gateway takes peers without a login.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from distributary.ingest.console.asking.gateway_line import GatewayLine
from distributary.ingest.console.asking.sweeps import Sweeps
from distributary.ingest.console.settings.console_settings import ConsoleSettings
from distributary.ingest.console.web.sessions import Account, Session, Sessions
from distributary.jobs.client.management_client import Gateway


class Entrance:
    """Makes and finds sessions. Its methods run on the event loop."""

    def __init__(self, gateways: Sequence[Gateway], settings: ConsoleSettings) -> None:
        """`gateways`: where the gateway may be, one address at least."""
        self._gateways, self._asking = tuple(gateways), settings.asking
        self._rows_max = settings.pages.rows_max
        self.sessions = Sessions(settings.sessions, time.monotonic)
        self._logins = asyncio.Semaphore(settings.sessions.logins_together)

    async def log_in(self, user: str, password: str) -> Session:
        """A session of this user; both empty: an anonymous one. The gateway is asked each time: a
        password may have changed. Raises LoginRefused and Unanswered."""
        gateways = tuple(replace(one, user=user, password=password) for one in self._gateways)
        same = [one for one in self.sessions.accounts() if one.gateways == gateways]
        if same and not user:
            return self.sessions.begin(same[0])
        line = GatewayLine(gateways, self._asking.answer_seconds, self._asking.line_seconds)
        async with self._logins:
            await asyncio.to_thread(line.try_login)  # a password may have changed meanwhile
        if same:
            await asyncio.to_thread(line.close)
            return self.sessions.begin(same[0])
        sweeps = Sweeps(line, self._asking, self._rows_max)
        return self.sessions.begin(Account(gateways, line, sweeps))

    async def tidy(self) -> None:
        """End old sessions and close idle connections, for as long as the console runs."""
        while True:
            await asyncio.sleep(self._asking.line_seconds / 3)
            before = self.sessions.accounts()
            self.sessions.end_old()
            for account in before:
                if account in self.sessions.accounts():
                    await asyncio.to_thread(account.close_idle)
                else:
                    await asyncio.to_thread(account.close)
