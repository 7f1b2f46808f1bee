"""The time of the service: microseconds since the epoch, on a clock that never jumps.

Delays, locks, expiries and all that is recorded are on it. It begins with the machine's clock and
goes with the time that passes; where the machine's clock is set, it goes faster or slower until
both agree again: at most twice as fast, at least half as fast. So a consumer with a lock of a
minute has half a minute at the least, however the machine's clock is set. The times that one
process records never fall, and a clock that was wrong for a moment has done no harm.

What lasts for a while and isn't recorded (time-outs of connections, leases, the owner's heartbeat)
is on the loop's clock or the system's monotonic one, which can't be set.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

#: Time that passes, also while the machine sleeps.
_PASSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


#: Nanoseconds that have passed since some moment.
passing_time: Final = partial(time.clock_gettime_ns, _PASSING)


class SlewedClock:
    """A clock that follows `machine`, which may be set, at the pace of `passing`, which may not.

    Both give nanoseconds. One thread asks: the loop's.
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
        """The time in microseconds; never less than what was said before."""
        passed, at = self._passing(), self._machine()
        since, went = passed - self._passed, at - self._at
        if not since - since // 2 <= went <= 2 * since:
            at = self._at + min(max(went, since - since // 2), 2 * since)
        self._passed, self._at = passed, at
        return at // 1_000


#: The process has one time, as it has one `time.time`.
now: Final = SlewedClock().now
