"""What waits for the process that checks: each peer's in its order, the peers in turn.

Rule 1: what waits behind something of its link, or of its peer's transactions, comes after it.
Rule 2: a peer with much to check takes no more turns than one with little.
"""

from collections import Counter, deque
from typing import Generic, TypeVar

P = TypeVar("P")  #: a peer
T = TypeVar("T")  #: what waits


class CheckQueue(Generic[P, T]):
    """`keys` of what waits are what later things wait behind: all of one peer's."""

    def __init__(self) -> None:
        self._of: dict[P, deque[tuple[T, tuple[object, ...]]]] = {}
        self._turns: deque[P] = deque()
        #: Those that were taken and aren't done, in that order.
        self._taken: deque[tuple[T, tuple[object, ...]]] = deque()
        self._waiting: Counter[object] = Counter()

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

    def add(self, peer: P, one: T, keys: tuple[object, ...]) -> None:
        """It waits behind all of its peer's."""
        if peer not in self._of:
            self._of[peer] = deque()
            self._turns.append(peer)
        self._of[peer].append((one, keys))
        self._waiting.update(keys)

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
        self._taken.append(found)
        return found[0]

    def done(self) -> T:
        """The one that was taken first is done."""
        one, keys = self._taken.popleft()
        for key in keys:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
        return one
