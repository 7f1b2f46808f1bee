"""The time of the service: microseconds since the epoch, on a clock that never jumps.

Delays, locks, expiries and all that is recorded are on it. It begins with the machine's clock and
goes with the time that passes; where the machine's clock is set, it goes faster or slower until
both agree again: at most twice as fast, at least half as fast. So whoever may hold a message for a
minute has half a minute at the least, however the machine's clock is set; what one life of the
gateway records never goes back; and a clock that was wrong for a moment has done no harm.

What lasts for a while and isn't recorded (time-outs of connections, leases, the owner's sign of
life) is on the loop's clock or the system's monotonic one, which no one sets.
"""

import time
from collections.abc import Callable
from typing import Final

#: Time that passes, also while the machine sleeps.
_PASSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def machine_clock() -> int:
    """What the machine's clock says, microseconds since the epoch."""
    return time.time_ns() // 1_000


def passing_time() -> int:
    """Microseconds that have passed since some moment."""
    return time.clock_gettime_ns(_PASSING) // 1_000


class SlewedClock:
    """A clock that follows `machine`, which may be set, at the pace of `passing`, which may not.

    Both give microseconds. One thread asks: the loop's.
    """

    def __init__(
        self,
        machine: Callable[[], int] = machine_clock,
        passing: Callable[[], int] = passing_time,
    ) -> None:
        self._machine, self._passing = machine, passing
        self._passed, self._at = passing(), machine()

    def now(self) -> int:
        """The time; never less than what was said before."""
        passed = self._passing()
        since = passed - self._passed
        missing = self._machine() - self._at - since
        self._passed = passed
        self._at += since + min(max(missing, -(since // 2)), since)
        return self._at


#: The process has one time, as it has one `time.time`.
now: Final = SlewedClock().now
