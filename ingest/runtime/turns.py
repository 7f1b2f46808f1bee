"""Turns of the loop: how many of a peer's bytes one turn takes. Large runs of a fast publisher
are taken, and little of a peer whose frames are slow work (attaches and detaches by the
thousand), so that other peers have their turn. The gateway's own work is bounded in a turn, too:
`FairQueue` has the order of what waits, `Allowance` how much of it may be done."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

#: Bytes that one read of a socket takes at most; also the longest run that can arrive at once.
READ_BYTES = 1 << 19
#: Bytes of a peer's first read, and those below which no read is cut.
READ_BYTES_FIRST = 1 << 16
READ_BYTES_MIN = 1 << 13
#: Seconds that the frames of one read may take until the next one brings fewer.
TURN_SECONDS = 0.015


def next_room(room: int, seconds: float) -> int:
    """How many bytes a peer's next read may bring after one of `room` bytes took so long."""
    if seconds > TURN_SECONDS:
        return max(room // 4, READ_BYTES_MIN)
    if seconds < TURN_SECONDS / 4:
        return min(2 * room, READ_BYTES)
    return room


#: Sockets of which a turn serves as many as fit into it, and seconds that are too many for a turn.
SOCKETS_MAX = 64
SOCKETS_MIN = 4
SOCKETS_SECONDS = 0.02
#: Seconds of a turn that one kind of work for many peers takes, of which each has little.
PART_SECONDS = 0.005


def next_sockets(most: int, seconds: float) -> int:
    """How many sockets the next turn serves at most after one with `most` took so long."""
    if seconds > SOCKETS_SECONDS:
        return max(most // 4, SOCKETS_MIN)
    if seconds < SOCKETS_SECONDS / 4:
        return min(2 * most, SOCKETS_MAX)
    return most


#: What of serving a subscription is as much work as serving one more, 25 us: so many bytes handed
#: to the engine, so many evaluations of selectors.
BYTES_OF_UNIT = 16_384
EVALUATIONS_OF_UNIT = 8


def units(sent: int, evaluations: int) -> int:
    """How much of a turn it took to serve one subscription."""
    return 1 + sent // BYTES_OF_UNIT + evaluations // EVALUATIONS_OF_UNIT


class LoopTurn:
    """What the loop serves in this turn. `alone`: one socket and no other, so that what comes of
    it need not wait for more to join. Never so where nobody says what a turn serves."""

    __slots__ = ("alone",)

    def __init__(self) -> None:
        self.alone = False


class PeerTurn:
    """How much of a peer's frames is done in this turn of the loop, in deliveries or other work
    of the same cost. The code that does the work adds it to `done`. `over`: the rest waits for
    the next turn."""

    #: What is as much work as a delivery, half a microsecond: a run of messages or of outcomes, a
    #: link or session that comes or goes, any other event that Python sees, an attach that it
    #: reads, any other frame or a message that it reads alone.
    RUN = 32
    LINK = 1_600
    EVENT = 8
    ATTACH = 200
    READ = 64

    __slots__ = ("done", "most")

    def __init__(self, most: int) -> None:
        self.most, self.done = most, 0

    @property
    def over(self) -> bool:
        """Whether this turn's part is done."""
        return self.done >= self.most


class FairQueue(Generic[T]):
    """A queue of lanes, in which each item waits once. Lanes take turns, with the same number of
    items each; within a lane items go in their order."""

    __slots__ = ("_each", "_lanes", "_taken", "_waiting", "order")

    def __init__(self, each: int) -> None:
        """`each`: how many of a lane are taken before the next lane has its turn."""
        self._each = each
        self._lanes: dict[str, deque[T]] = {}  #: by name; none is empty
        #: The names of all lanes, the one whose turn it is first; empty when nothing waits.
        self.order: deque[str] = deque()
        self._waiting: set[T] = set()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: T, lane: str) -> None:
        """Add an item behind all others of its lane; one that waits already keeps its place."""
        if one in self._waiting:
            return
        self._waiting.add(one)
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self.order.append(lane)
        self._lanes[lane].append(one)

    def add_all(self, many: Collection[T], lane: str) -> None:
        """Add these items, which are different ones."""
        waiting = self._waiting
        fresh = [one for one in many if one not in waiting]
        if not fresh:
            return
        waiting.update(fresh)
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self.order.append(lane)
        self._lanes[lane].extend(fresh)

    def take(self) -> T:
        """Remove and return the next item."""
        name = self.order[0]
        lane = self._lanes[name]
        one = lane.popleft()
        self._waiting.discard(one)
        self._taken += 1
        if not lane:
            del self._lanes[self.order.popleft()]
            self._taken = 0
        elif self._taken >= self._each:
            self.order.rotate(-1)
            self._taken = 0
        return one


class Allowance:
    """What may be done of some work until the loop turns, in units of the caller's.

    When it is spent, `then` is called after the loop has turned: there is a new part, and what
    waits may go on. A turn that spends little has nothing called, and leaves the rest of its part
    to those that follow: none has more than a part.
    """

    __slots__ = ("_each", "_loop", "_then", "_turning", "left")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, each: int, then: Callable[[], None]
    ) -> None:
        self._loop, self._each, self._then = loop, each, then
        #: Units that may still be spent in this turn; what was begun may overdraw them.
        self.left = each
        self._turning = False

    def spend(self, units: int) -> None:
        """So much work was done."""
        self.left -= units
        if self.left <= 0:
            self.ask()

    def ask(self) -> None:
        """There is a new part, and `then` is called, when the loop has turned."""
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        self.left, self._turning = self._each, False
        self._then()


class Parts(Generic[T]):
    """Work that waits for many peers at once, little for each: done in its order, for a part of a
    turn; the rest when the loop has turned. What is begun is done, so there is always progress."""

    __slots__ = ("_at_work", "_loop", "_part_seconds", "_work", "add", "waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[T], None],
        part_seconds: float = PART_SECONDS,
    ) -> None:
        self._loop, self._work, self._part_seconds = loop, work, part_seconds
        #: What waits, in its order: to be read alone.
        self.waiting: deque[T] = deque()
        #: It waits behind all others; `run` begins with the work.
        self.add: Callable[[T], None] = self.waiting.append
        self._at_work = False  #: now, or as soon as the loop has turned

    def run(self) -> None:
        """Work, unless this turn's part is done."""
        if self.waiting and not self._at_work:
            self._turned()

    def finish(self) -> None:
        """Do all of it now."""
        while self.waiting:
            self._work(self.waiting.popleft())

    def later(self) -> None:
        """Work when the loop has turned."""
        if self.waiting and not self._at_work:
            self._at_work = True
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        # What waits alone asks no clock: in most turns it does.
        waiting, self._at_work = self.waiting, True
        until = monotonic() + self._part_seconds if len(waiting) > 1 else None
        try:
            while waiting:
                self._work(waiting.popleft())
                if not waiting:
                    break
                if until is None:
                    until = monotonic() + self._part_seconds
                elif monotonic() >= until:
                    break
        finally:
            self._at_work = False
        if waiting:
            self.later()


class TaskTurns:
    """Turns of the loop shared by tasks: a task awaits `turn` before each part of its work, and
    in one turn of the loop one part of all of them is done, in the order in which they asked."""

    __slots__ = ("_loop", "_turning", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turning = False

    async def turn(self) -> None:
        """Wait for the turn in which the next part may be done."""
        mine: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(mine)
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._next)
        await mine

    def _next(self) -> None:
        while self._waiting:
            one = self._waiting.popleft()
            if not one.done():  # its task was cancelled
                one.set_result(None)
                break
        self._turning = bool(self._waiting)
        if self._turning:
            self._loop.call_soon(self._next)
