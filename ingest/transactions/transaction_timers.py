"""Time limits of transactions."""

import asyncio
from collections.abc import Callable
from functools import partial

from distributary.ingest.net.link import Peer


class TransactionTimers:
    """A transaction may take this many seconds from its first work on; without work there is no
    limit: an idle JMS session has an open transaction."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: int, too_long: Callable[[Peer, int], None]
    ) -> None:
        """`too_long` is called with the connection and the number of a transaction whose time is
        over."""
        self.seconds = seconds
        self._loop, self._too_long = loop, too_long
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def watch(self, connection: Peer, number: int) -> None:
        """Begin the time of a transaction with its first work."""
        if number not in self._timers:
            over = partial(self._over, connection, number)
            self._timers[number] = self._loop.call_later(self.seconds, connection.attempt, over)

    def stop(self, number: int) -> None:
        """Stop the time of a transaction that has ended."""
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _over(self, connection: Peer, number: int) -> None:
        del self._timers[number]
        self._too_long(connection, number)
