"""How long transactions may take."""

import asyncio
from collections.abc import Callable
from functools import partial

from distributary.ingest.net.link import Peer


class TransactionTimers:
    """From its first work on a transaction has so many seconds; a JMS session that is idle has a
    transaction without any work, for as long as it likes."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: int, too_long: Callable[[Peer, int], None]
    ) -> None:
        """`too_long` is called with the connection and the number of one whose time is over."""
        self.seconds = seconds
        self._loop, self._too_long = loop, too_long
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def watch(self, connection: Peer, number: int) -> None:
        """Something is done in the transaction."""
        if number not in self._timers:
            over = partial(self._over, connection, number)
            self._timers[number] = self._loop.call_later(self.seconds, connection.attempt, over)

    def stop(self, number: int) -> None:
        """It has ended."""
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _over(self, connection: Peer, number: int) -> None:
        del self._timers[number]
        self._too_long(connection, number)
