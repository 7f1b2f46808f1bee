"""What full backlogs drop is told in the log: at once, then summed up, or it would flood it."""

from collections.abc import Callable

import structlog

#: Seconds between two lines about one subscription.
QUIET_SECONDS = 60.0

_events = structlog.get_logger("gateway")


class Overflows:
    """How many messages each subscription has lost since that was told last. `clock` is in seconds
    and doesn't jump."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._untold: dict[str, int] = {}
        self._told_at: dict[str, float] = {}

    def add(self, subscription: str, messages: int) -> None:
        """A full backlog has dropped or dead-lettered so many."""
        self._untold[subscription] = self._untold.get(subscription, 0) + messages

    def tell(self) -> None:
        """Say what is to be said now; called from time to time."""
        now = self._clock()
        for subscription in [one for one in self._untold if self._due(one, now)]:
            count = self._untold.pop(subscription)
            self._told_at[subscription] = now
            _events.warning("backlog.overflowed", subscription=subscription, dropped=count)
        for subscription in [one for one in self._told_at if self._due(one, now)]:
            del self._told_at[subscription]

    def _due(self, subscription: str, now: float) -> bool:
        told = self._told_at.get(subscription)
        return told is None or now - told >= QUIET_SECONDS
