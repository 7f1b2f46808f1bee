"""Queue of runs and commands for the checking process: each peer's in order, peers in turn.

Rule 1: an item that waits for an earlier one of its link, or of its peer's transactions, comes
        after it.
Rule 2: a peer with many items gets no more turns than a peer with few.
Rule 3: a peer may have as many bytes waiting as are still free for all. So a peer that floods takes
        half at most, n such peers leave 1/(n + 1), and a peer with few bytes finds room.
"""

from collections import Counter, deque
from typing import Generic, TypeVar

P = TypeVar("P")  #: a peer
T = TypeVar("T")  #: an item that waits


class CheckQueue(Generic[P, T]):
    """The queue. Later items of a peer wait for all its items with one of their `keys`."""

    def __init__(self) -> None:
        self._of: dict[P, deque[tuple[T, tuple[object, ...], int]]] = {}
        self._turns: deque[P] = deque()
        #: Items that were taken and aren't done, in that order.
        self._taken: deque[tuple[P, T, tuple[object, ...], int]] = deque()
        self._waiting: Counter[object] = Counter()
        #: Bytes of items that aren't done, of all and of each peer.
        self.bytes = 0
        self._bytes: Counter[P] = Counter()

    def __bool__(self) -> bool:
        """Whether any item isn't done."""
        return bool(self._taken or self._turns)

    @property
    def taken(self) -> int:
        """Items that were taken and aren't done."""
        return len(self._taken)

    def waits(self, key: object) -> bool:
        """Whether any item with this key isn't done."""
        return key in self._waiting

    def has_room(self, peer: P, size: int, most: int) -> bool:
        """Whether `size` more bytes may wait for this peer, where `most` may wait in all. An empty
        queue has room for any size."""
        return not self.bytes or self._bytes[peer] + size <= most - self.bytes

    def add(self, peer: P, one: T, keys: tuple[object, ...], size: int) -> None:
        """Add an item of this many bytes after all items of its peer."""
        if peer not in self._of:
            self._of[peer] = deque()
            self._turns.append(peer)
        self._of[peer].append((one, keys, size))
        self._waiting.update(keys)
        self._bytes[peer] += size
        self.bytes += size

    def take(self) -> T | None:
        """Take the next item, of the peer whose turn it is; None if no item waits."""
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
        """Remove and return the item that was taken first: it is done."""
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
