"""Publishing times of the newest messages, which the table doesn't have yet."""

from collections import deque


class Moments:
    """The first sequence and the publishing time (microseconds) of each group of messages,
    ascending by sequence. Times may fall where a clock was set back."""

    def __init__(self) -> None:
        self._groups: deque[tuple[int, int]] = deque()

    def add(self, first: int, at: int, committed: int) -> None:
        """Add a group of messages from `first` on, published at this time. Groups below `committed`
        are forgotten: the table has them."""
        self._groups.append((first, at))
        while self._groups and self._groups[0][0] < committed:
            self._groups.popleft()

    def first_at(self, time: int, committed: int) -> int | None:
        """Return the first sequence from `committed` on that was published at or after this
        time."""
        return next(
            (first for first, at in self._groups if first >= committed and at >= time), None
        )
