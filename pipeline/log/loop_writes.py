"""Decision whether the event loop writes a group itself or a thread does. Pure: time is given.

A small group is durable sooner when the loop writes it: handing it to a thread and back takes
longer than a fast disk does. But the loop does nothing else meanwhile, so it writes only while its
writes are fast; on a slow disk, or where other programs use the processors, a thread writes.
"""

from typing import Final

#: The weight of one write in the average.
_WEIGHT: Final = 1 / 8
#: Length of the rest after a slow write, in times of that write.
_RESTS: Final = 100


class LoopWrites:
    """The loop's own writes of groups: allowed up to `bytes_max` bytes each, while they take
    `seconds_max` on average at most. Otherwise the loop writes none for `rest_seconds`, or for a
    hundred times the last write's time if that is longer, so that writes to a slow disk take a
    hundredth of the loop's time; then it tries again. Single slow writes are allowed."""

    def __init__(self, bytes_max: int, seconds_max: float, rest_seconds: float) -> None:
        self._bytes_max, self._seconds_max = bytes_max, seconds_max
        self._rest_seconds = rest_seconds
        self._average, self._rests_until = 0.0, 0.0

    def allows(self, size: int, now: float) -> bool:
        """Whether the loop may write a group of `size` bytes. `now` in seconds, any clock."""
        return size <= self._bytes_max and now >= self._rests_until

    def took(self, seconds: float, now: float) -> None:
        """Count a finished write of the loop."""
        self._average += (seconds - self._average) * _WEIGHT
        if self._average > self._seconds_max:
            rest = max(self._rest_seconds, _RESTS * seconds)
            self._average, self._rests_until = 0.0, now + rest
