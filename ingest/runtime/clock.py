"""The time of the service: microseconds since the epoch, on a clock that never jumps.

Delays, locks, expiries and all recorded times use it. It starts at the machine's time and runs at
the pace of passing time; when the machine's clock is set, it runs faster or slower until both agree
again: at most twice as fast, at least half as fast. So a consumer with a lock of a minute has it
for half a minute at least, however the machine's clock is set. The times that one process records
never go back, and a machine's clock that was wrong for a moment does no harm.

Periods that aren't recorded (time-outs of connections, leases, the owner's heartbeat) use the
loop's clock or the system's monotonic one, which can't be set.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

#: Time that passes, also while the machine sleeps.
_PASSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


#: Nanoseconds since a fixed moment.
passing_time: Final = partial(time.clock_gettime_ns, _PASSING)


class SlewedClock:
    """A clock that follows `machine`, which may be set, at the pace of `passing`, which may not.

    Both return nanoseconds. Only the loop's thread may call it.
    """

    __slots__ = ("_at", "_machine", "_passed", "_passing")

    def __init__(
        self,
        machine: Callable[[], int] = time.time_ns,
        passing: Callable[[], int] = passing_time,
    ) -> None:
        self._machine, self._passing = machine, passing
        self._passed, self._at = passing(), machine()

    def now(self) -> int:
        """Return the time in microseconds; never less than at the call before."""
        passed, at = self._passing(), self._machine()
        since, went = passed - self._passed, at - self._at
        if not since - since // 2 <= went <= 2 * since:
            at = self._at + min(max(went, since - since // 2), 2 * since)
        self._passed, self._at = passed, at
        return at // 1_000


#: The one time of the process.
now: Final = SlewedClock().now
