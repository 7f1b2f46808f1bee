"""Turns of the loop: the number of a peer's bytes that one turn reads. It reads large runs of a
fast publisher, but few bytes of a peer whose frames are slow work (attaches and detaches by the
thousand), so that other peers have their turn. The gateway's own work in a turn is bounded, too:
`FairQueue` has the order of waiting work, `Allowance` the amount that may be done."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

#: Most bytes of one read of a socket; also the longest run that can arrive at once.
READ_BYTES = 1 << 19
#: Most bytes of a peer's first read, and the least to which reads are limited.
READ_BYTES_FIRST = 1 << 16
READ_BYTES_MIN = 1 << 13
#: Seconds for the frames of one read above which the next read is smaller.
TURN_SECONDS = 0.015


def next_room(room: int, seconds: float) -> int:
    """Return the most bytes of a peer's next read, after one of `room` bytes took `seconds`."""
    if seconds > TURN_SECONDS:
        return max(room // 4, READ_BYTES_MIN)
    if seconds < TURN_SECONDS / 4:
        return min(2 * room, READ_BYTES)
    return room


#: Most and least sockets that a turn serves, and the seconds above which it served too many.
SOCKETS_MAX = 64
SOCKETS_MIN = 4
SOCKETS_SECONDS = 0.02
#: Seconds of a turn for one kind of work for many peers, with little for each.
PART_SECONDS = 0.005


def next_sockets(most: int, seconds: float) -> int:
    """Return the most sockets of the next turn, after one with `most` took `seconds`."""
    if seconds > SOCKETS_SECONDS:
        return max(most // 4, SOCKETS_MIN)
    if seconds < SOCKETS_SECONDS / 4:
        return min(2 * most, SOCKETS_MAX)
    return most


#: Bytes handed to the engine, and evaluations of selectors, that cost as much as serving one more
#: subscription: 25 us.
BYTES_OF_UNIT = 16_384
EVALUATIONS_OF_UNIT = 8


def units(sent: int, evaluations: int) -> int:
    """Return the units of a turn that it took to serve one subscription."""
    return 1 + sent // BYTES_OF_UNIT + evaluations // EVALUATIONS_OF_UNIT


class LoopTurn:
    """Facts about the present turn of the loop. `alone`: it serves one socket only, so that this
    socket's input need not wait for more to join. False where no selector sets it."""

    __slots__ = ("alone",)

    def __init__(self) -> None:
        self.alone = False


class PeerTurn:
    """The work for a peer's frames in this turn of the loop, in units of one delivery's cost. The
    code that does the work adds it to `done`. `over`: the rest waits for the next turn."""

    #: Cost in deliveries, half a microsecond each, of: a run of messages or of outcomes, a link or
    #: session that begins or ends, any other event that Python handles, an attach that it reads,
    #: any other frame or single message that it reads.
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
        """Whether this turn's part is used up."""
        return self.done >= self.most


class FairQueue(Generic[T]):
    """A queue of lanes, in which each item waits once. Lanes take turns, with the same number of
    items each; within a lane items go in their order."""

    __slots__ = ("_each", "_lanes", "_taken", "_waiting", "order")

    def __init__(self, each: int) -> None:
        """`each`: items of a lane that are taken before the next lane has its turn."""
        self._each = each
        self._lanes: dict[str, deque[T]] = {}  #: by name; none is empty
        #: The names of all lanes, the one whose turn it is first; empty when nothing waits.
        self.order: deque[str] = deque()
        self._waiting: set[T] = set()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: T, lane: str) -> None:
        """Add an item at the end of its lane; an item that waits already keeps its place."""
        if one in self._waiting:
            return
        self._waiting.add(one)
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self.order.append(lane)
        self._lanes[lane].append(one)

    def add_all(self, many: Collection[T], lane: str) -> None:
        """Add these items, which must be different."""
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
    """The amount of some work that may be done in a turn of the loop, in units of the caller's.

    When it is spent, `then` is called after the loop has turned: there is a new amount, and waiting
    work may go on. After a turn that spends less `then` isn't called, and the rest is left to
    later turns: no turn has more than the full amount.
    """

    __slots__ = ("_each", "_loop", "_then", "_turning", "left")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, each: int, then: Callable[[], None]
    ) -> None:
        self._loop, self._each, self._then = loop, each, then
        #: Units that may still be spent in this turn; work that was begun may overdraw them.
        self.left = each
        self._turning = False

    def spend(self, units: int) -> None:
        """Count work that was done."""
        self.left -= units
        if self.left <= 0:
            self.ask()

    def ask(self) -> None:
        """Renew the amount and call `then`, when the loop has turned."""
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        self.left, self._turning = self._each, False
        self._then()


class Parts(Generic[T]):
    """Waiting work for many peers, little for each: done in its order, for a part of a turn; the
    rest when the loop has turned. At least one item is done each time, so there is progress."""

    __slots__ = ("_at_work", "_loop", "_part_seconds", "_work", "add", "waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[T], None],
        part_seconds: float = PART_SECONDS,
    ) -> None:
        self._loop, self._work, self._part_seconds = loop, work, part_seconds
        #: The waiting items, in their order; read it only.
        self.waiting: deque[T] = deque()
        #: Add an item at the end; `run` begins the work.
        self.add: Callable[[T], None] = self.waiting.append
        self._at_work = False  #: now, or as soon as the loop has turned

    def run(self) -> None:
        """Work, unless this turn's part is used up."""
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
        # For a single item the clock isn't read: in most turns there is only one.
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
    """Turns of the loop shared by tasks: a task awaits `turn` before each part of its work. In each
    turn of the loop one task does one part, in the order in which they asked."""

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
