"""How many deliveries one connection holds unsettled, on all its links."""

from collections.abc import Callable


class Unsettled:
    """The unsettled deliveries of one connection, counted only when that may matter, as counting
    goes over all links. `full`: the connection gets no more until it has settled a quarter of
    what it may have."""

    __slots__ = ("_count", "_most", "_room", "full")

    def __init__(self, most: int, count: Callable[[], int]) -> None:
        self._most, self._count = most, count
        self._room = most  #: so many may go until it has to be counted
        self.full = False

    def sent(self, deliveries: int) -> bool:
        """Count deliveries that were sent; whether the connection is full now, and wasn't
        before."""
        self._room -= deliveries
        if self._room > 0 or self.full:
            return False
        held = self._count()
        self._room = self._most - held
        # A connection that stays near its limit isn't counted each time.
        self.full = held > self._most - self._most // 4
        return self.full

    def settled(self) -> bool:
        """Deliveries may have been settled; whether the connection was full, and isn't any more."""
        if not self.full:
            return False
        held = self._count()
        self.full = held > self._most - self._most // 4
        self._room = self._most - held
        return not self.full
