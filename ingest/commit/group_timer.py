"""The time at which the pending group is written: when the loop has turned, or after a while.

A timer of the loop for each group would cost more than it gains. So the timer of a group that was
written early stays, and is set anew when it rings. All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable


class GroupTimer:
    """Calls `begin` when the pending group is due. A caller that begins a group, for this or any
    other cause, must call `clear`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], None]) -> None:
        self._loop, self._begin = loop, begin
        self._soon: asyncio.Handle | None = None
        self._due = 0.0  # by the loop's clock; 0: at no time
        self._timer: asyncio.TimerHandle | None = None  # rings when it is due, or before

    def set(self, seconds: float) -> None:
        """Make the group due in `seconds`, if it isn't sooner; 0: when the loop has turned."""
        if not seconds:
            if self._soon is None:
                self._soon = self._loop.call_soon(self._begin)
            return
        at = self._loop.time() + seconds
        if self._due and self._due <= at:
            return
        self._due = at
        if self._timer is not None and self._timer.when() > at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(at, self._ring)

    def clear(self) -> None:
        """Make the group due at no time."""
        self._due = 0.0
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def _ring(self) -> None:
        self._timer = None
        if self._due > self._loop.time():
            self._timer = self._loop.call_at(self._due, self._ring)
        elif self._due:
            self._begin()
