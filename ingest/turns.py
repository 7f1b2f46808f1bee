"""How many of a peer's bytes one turn of the loop takes: a river in large runs, little of a peer
whose frames are slow work (links that come and go by the thousand), so that others have their turn.
And how much of the gateway's own work is done until the loop turns: `Due` is what waits, in
what order, `Allowance` how much of it may be done.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

T = TypeVar("T")

#: Bytes that one read of a socket takes at most; also the longest run that can arrive at once.
READ_BYTES = 1 << 19
#: Bytes of a peer's first read, and those below which no read is cut.
READ_BYTES_FIRST = 1 << 16
READ_BYTES_MIN = 1 << 13
#: Seconds that the frames of one read may take until the next one brings fewer.
TURN_SECONDS = 0.03


def next_room(room: int, seconds: float) -> int:
    """How many bytes a peer's next read may bring after one of `room` bytes took so long."""
    if seconds > TURN_SECONDS:
        return max(room // 4, READ_BYTES_MIN)
    if seconds < TURN_SECONDS / 8:
        return min(2 * room, READ_BYTES)
    return room


#: What of serving a subscription is as much work as serving one more, 25 us: so many bytes handed
#: to the engine, so many evaluations of selectors.
BYTES_OF_UNIT = 16_384
EVALUATIONS_OF_UNIT = 8


def units(sent: int, evaluations: int) -> int:
    """How much of a turn it took to serve one subscription."""
    return 1 + sent // BYTES_OF_UNIT + evaluations // EVALUATIONS_OF_UNIT


class PeerTurn:
    """How much of a peer's frames is done until the loop turns, in deliveries or in what is as much
    work as so many. `over`: what is left of them waits for the next turn."""

    #: What is as much work as a delivery, half a microsecond: a run of messages or of outcomes, a
    #: link or session that comes or goes, any other event that Python sees.
    RUN = 32
    LINK = 800
    EVENT = 8

    __slots__ = ("_done", "most")

    def __init__(self, most: int) -> None:
        self.most, self._done = most, 0

    def begin(self) -> None:
        """The loop has turned."""
        self._done = 0

    def did(self, deliveries: int) -> None:
        """So much was done."""
        self._done += deliveries

    @property
    def over(self) -> bool:
        """Whether this turn's part is done."""
        return self._done >= self.most


class Due(Generic[T]):
    """What waits for its turn, each thing once. Lanes have their turns alike, so many things each;
    within one it goes in the order in which they came to wait."""

    __slots__ = ("_each", "_lanes", "_order", "_taken", "_waiting")

    def __init__(self, each: int) -> None:
        """`each`: how many of a lane are taken before the next lane has its turn."""
        self._each = each
        self._lanes: dict[str, deque[T]] = {}  #: by name; none is empty
        self._order: deque[str] = deque()
        self._waiting: set[T] = set()
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._order)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: T, lane: str) -> None:
        """It waits, behind all others of its lane; if it waits already it keeps its place."""
        self.add_all((one,), lane)

    def add_all(self, many: Collection[T], lane: str) -> None:
        """Each of these, which are different ones, waits."""
        waiting = self._waiting
        fresh = [one for one in many if one not in waiting]
        if not fresh:
            return
        waiting.update(fresh)
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self._order.append(lane)
        self._lanes[lane].extend(fresh)

    def take(self) -> T:
        """The one whose turn it is; it waits no more."""
        name = self._order[0]
        lane = self._lanes[name]
        one = lane.popleft()
        self._waiting.discard(one)
        self._taken += 1
        if not lane:
            del self._lanes[self._order.popleft()]
            self._taken = 0
        elif self._taken >= self._each:
            self._order.rotate(-1)
            self._taken = 0
        return one


class Allowance:
    """What may be done of some work until the loop turns, in units of the caller's.

    `spent` says that a turn's part is done. `then` is called after the loop has turned, once for
    each turn in which anything was spent: there is a new part, and what waits may go on.
    """

    __slots__ = ("_each", "_left", "_loop", "_then", "_turning")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, each: int, then: Callable[[], None]
    ) -> None:
        self._loop, self._each, self._then = loop, each, then
        self._left = each
        self._turning = False

    @property
    def left(self) -> int:
        """Units that may still be spent in this turn; what was begun may overdraw them."""
        return max(self._left, 0)

    def spend(self, units: int) -> None:
        """So much was done."""
        self._left -= units
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        self._left, self._turning = self._each, False
        self._then()
