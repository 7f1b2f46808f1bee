"""What waits for the process that checks: each peer's in its order, the peers in turn.

Rule 1: what waits behind something of its link, or of its peer's transactions, comes after it.
Rule 2: a peer with much to check takes no more turns than one with little.
Rule 3: a peer may have as many bytes waiting as are still free for all. So one that floods takes
        half at most, n of them leave 1/(n + 1), and who has little waiting finds room.
"""

from collections import Counter, deque
from typing import Generic, TypeVar

P = TypeVar("P")  #: a peer
T = TypeVar("T")  #: what waits


class CheckQueue(Generic[P, T]):
    """`keys` of what waits are what later things wait behind: all of one peer's."""

    def __init__(self) -> None:
        self._of: dict[P, deque[tuple[T, tuple[object, ...], int]]] = {}
        self._turns: deque[P] = deque()
        #: Those that were taken and aren't done, in that order.
        self._taken: deque[tuple[P, T, tuple[object, ...], int]] = deque()
        self._waiting: Counter[object] = Counter()
        #: Bytes of what isn't done, of all and of each peer.
        self.bytes = 0
        self._bytes: Counter[P] = Counter()

    def __bool__(self) -> bool:
        """Whether anything isn't done."""
        return bool(self._taken or self._turns)

    @property
    def taken(self) -> int:
        """How many were taken and aren't done."""
        return len(self._taken)

    def waits(self, key: object) -> bool:
        """Whether anything with this key isn't done."""
        return key in self._waiting

    def has_room(self, peer: P, size: int, most: int) -> bool:
        """Whether so many bytes more may wait for this peer, where `most` may for all. Where
        nothing waits there is room for anything."""
        return not self.bytes or self._bytes[peer] + size <= most - self.bytes

    def add(self, peer: P, one: T, keys: tuple[object, ...], size: int) -> None:
        """It waits behind all of its peer's, and has so many bytes."""
        if peer not in self._of:
            self._of[peer] = deque()
            self._turns.append(peer)
        self._of[peer].append((one, keys, size))
        self._waiting.update(keys)
        self._bytes[peer] += size
        self.bytes += size

    def take(self) -> T | None:
        """The next one, of the peer whose turn it is; None if nothing waits."""
        if not self._turns:
            return None
        peer = self._turns.popleft()
        mine = self._of[peer]
        found = mine.popleft()
        if mine:
            self._turns.append(peer)
        else:
            del self._of[peer]
        self._taken.append((peer, *found))
        return found[0]

    def done(self) -> T:
        """The one that was taken first is done."""
        peer, one, keys, size = self._taken.popleft()
        self.bytes -= size
        self._bytes[peer] -= size
        if not self._bytes[peer]:
            del self._bytes[peer]
        for key in keys:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
        return one
