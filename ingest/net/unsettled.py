"""The number of unsettled deliveries on all links of one connection."""

from collections.abc import Callable


class Unsettled:
    """The unsettled deliveries of one connection. Counting goes over all links, so it is done only
    when the limit may be near. `full`: the connection gets no more deliveries until it has settled
    a quarter of its limit."""

    __slots__ = ("_count", "_most", "_room", "full")

    def __init__(self, most: int, count: Callable[[], int]) -> None:
        self._most, self._count = most, count
        self._room = most  #: deliveries that may be sent before the next count
        self.full = False

    def sent(self, deliveries: int) -> bool:
        """Count deliveries that were sent; return whether the connection has become full."""
        self._room -= deliveries
        if self._room > 0 or self.full:
            return False
        held = self._count()
        self._room = self._most - held
        # A connection that stays near its limit isn't counted each time.
        self.full = held > self._most - self._most // 4
        return self.full

    def settled(self) -> bool:
        """Return whether a full connection isn't full any more: deliveries may be settled."""
        if not self.full:
            return False
        held = self._count()
        self.full = held > self._most - self._most // 4
        self._room = self._most - held
        return not self.full
