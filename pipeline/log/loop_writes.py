"""Which groups the loop writes by itself, and which a thread writes for it. Pure: time is given.

A small group is on the disk sooner when the loop writes it: handing it to a thread and back costs
more than a quick disk takes. But a loop that waits for the disk does nothing else, so it does that
only while its writes are quick; on a slow disk, or where other programs have the processors, a
thread waits instead.
"""

from typing import Final

#: The weight of one write in the average.
_WEIGHT: Final = 1 / 8
#: How many times as long as a slow write the rest after it is.
_RESTS: Final = 100


class LoopWrites:
    """The loop's own writes of groups: allowed up to `bytes_max` bytes each, while they take
    `seconds_max` on average at most. Otherwise the loop writes none for `rest_seconds`, or a
    hundred times what the last one took if that is longer, so that a disk that stays slow has a
    hundredth of its time; then it tries again. A single write may take longer: one in eight that
    takes twice as long is fine."""

    def __init__(self, bytes_max: int, seconds_max: float, rest_seconds: float) -> None:
        self._bytes_max, self._seconds_max = bytes_max, seconds_max
        self._rest_seconds = rest_seconds
        self._average, self._rests_until = 0.0, 0.0

    def allows(self, size: int, now: float) -> bool:
        """Whether a group of so many bytes is written by the loop. `now` in seconds, any clock."""
        return size <= self._bytes_max and now >= self._rests_until

    def took(self, seconds: float, now: float) -> None:
        """One write of the loop has ended."""
        self._average += (seconds - self._average) * _WEIGHT
        if self._average > self._seconds_max:
            rest = max(self._rest_seconds, _RESTS * seconds)
            self._average, self._rests_until = 0.0, now + rest
