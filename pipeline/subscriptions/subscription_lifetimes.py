"""When subscriptions end by themselves: so many seconds after their last link, its session or its
connection has ended.

Rule 1: a subscription's clock runs while no consumer's link is on it and nothing of what its
        lifetime names is left of those that were: no session that one has detached in, or no
        connection.
Rule 2: a consumer that comes stops the clock; the next end begins it anew.
Rule 3: what has no consumer when it begins, or when its lifetime is changed, or at the start of the
        process, has its clock begin then.
Time is an argument, in seconds of a clock that never goes back.
"""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import msgspec

from distributary.pipeline.model.policy import Expiry, Lifetime
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.policy_table import EXPIRY_SECONDS_MOST, text_of

#: Seconds until what is due and can't end yet is due again, at least.
POSTPONED_SECONDS = 1.0
#: Out of so many clocks in the heap that were stopped, and more than run, it is made anew.
STOPPED_LEAST = 64

C = TypeVar("C")


def text_of_expiry(expiry: Expiry) -> str:
    """What a subscription says of itself that a client has made with this lifetime."""
    if expiry.lifetime is Lifetime.NEVER:
        return ""
    seconds = min(expiry.seconds, EXPIRY_SECONDS_MOST)
    return text_of({"expiry": expiry.lifetime, "expiry_seconds": seconds})


#: The number of no session: the connection itself.
_CONNECTION = 0


class _Clock(msgspec.Struct, Generic[C]):
    """One subscription's: `deadline` is None while it doesn't run, `waits_for` has the sessions
    (or connections) that must end before."""

    expiry: Expiry
    deadline: float | None = None
    waits_for: set[tuple[C, int]] = msgspec.field(default_factory=set)


class Lifetimes(Generic[C]):
    """The clocks of all subscriptions that end by themselves; what never does costs nothing. `C`
    is a connection, which must be hashable; a session is a number within it, not 0."""

    def __init__(self) -> None:
        self._clocks: dict[SubscriptionKey, _Clock[C]] = {}
        self._heap: list[tuple[float, int, SubscriptionKey]] = []
        self._pushed = 0
        #: By connection and session: the subscriptions that wait for its end.
        self._waiting: dict[C, dict[int, set[SubscriptionKey]]] = {}

    def __len__(self) -> int:
        return len(self._clocks)

    @property
    def remembered(self) -> int:
        """How many clocks are in memory, those that were stopped since they were last looked
        through included."""
        return len(self._heap)

    def apply(self, key: SubscriptionKey, expiry: Expiry, now: float, *, idle: bool) -> None:
        """What holds for this subscription from now on; the same as before changes nothing. `idle`:
        it has no consumer."""
        clock = self._clocks.get(key)
        if clock is not None and clock.expiry == expiry:
            return
        self.forget(key)
        if expiry.lifetime is not Lifetime.NEVER:
            self._clocks[key] = clock = _Clock(expiry)
            if idle:
                self._run(key, clock, now + expiry.seconds)

    def forget(self, key: SubscriptionKey) -> None:
        """The subscription is no more, or lives for ever."""
        clock = self._clocks.pop(key, None)
        for holder in clock.waits_for if clock else ():
            self._no_more(key, *holder)

    def joined(self, key: SubscriptionKey) -> None:
        """A consumer has come."""
        clock = self._clocks.get(key)
        if clock is not None:
            clock.deadline = None

    def left(
        self, key: SubscriptionKey, connection: C, session: int, now: float, *, others: bool
    ) -> None:
        """A consumer's link in this session, which may have ended with it, is gone. `others`:
        the subscription has more consumers."""
        clock = self._clocks.get(key)
        if clock is None:
            return
        if clock.expiry.lifetime is not Lifetime.LINK_DETACH:
            ends = clock.expiry.lifetime is Lifetime.SESSION_END
            holder = (connection, session if ends else _CONNECTION)
            clock.waits_for.add(holder)
            waiting = self._waiting.setdefault(connection, {})
            waiting.setdefault(holder[1], set()).add(key)
        clock.deadline = None
        if not (others or clock.waits_for):
            self._run(key, clock, now + clock.expiry.seconds)

    def session_ended(self, connection: C, session: int, now: float) -> None:
        """The session has ended, after its links."""
        waiting = self._waiting.get(connection, {})
        for key in tuple(waiting.get(session, ())):
            self._ended(key, (connection, session), now)

    def connection_ended(self, connection: C, now: float) -> None:
        """The connection has ended, after its links; it may be told again."""
        for session, keys in tuple(self._waiting.get(connection, {}).items()):
            for key in tuple(keys):
                self._ended(key, (connection, session), now)

    def _ended(self, key: SubscriptionKey, holder: tuple[C, int], now: float) -> None:
        clock = self._clocks[key]
        clock.waits_for.discard(holder)
        self._no_more(key, *holder)
        if not clock.waits_for:
            self._run(key, clock, now + clock.expiry.seconds)

    def _no_more(self, key: SubscriptionKey, connection: C, session: int) -> None:
        """The subscription doesn't wait for this end any more."""
        waiting = self._waiting[connection]
        waiting[session].discard(key)
        if not waiting[session]:
            del waiting[session]
        if not waiting:
            del self._waiting[connection]

    def _run(self, key: SubscriptionKey, clock: _Clock[C], deadline: float) -> None:
        clock.deadline = deadline
        if len(self._heap) > 2 * len(self._clocks) + STOPPED_LEAST:
            self._heap = [one for one in self._heap if self._runs(one)]
            heapify(self._heap)
        self._pushed += 1
        heappush(self._heap, (deadline, self._pushed, key))

    def _runs(self, entry: tuple[float, int, SubscriptionKey]) -> bool:
        deadline, _, key = entry
        clock = self._clocks.get(key)
        return clock is not None and clock.deadline == deadline

    def due(self, now: float, most: int) -> list[SubscriptionKey]:
        """The subscriptions whose time is over, so many at most, those first that are so for
        longest. Their clocks stand: the caller ends each, or `postpone`s it."""
        found: list[SubscriptionKey] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            entry = heappop(self._heap)
            if self._runs(entry):
                self._clocks[entry[2]].deadline = None
                found.append(entry[2])
        return found

    def is_over(self, key: SubscriptionKey, now: float) -> bool:
        """Whether the time of this subscription is over, and nobody has ended it yet."""
        clock = self._clocks.get(key)
        return clock is not None and clock.deadline is not None and clock.deadline <= now

    def postpone(self, key: SubscriptionKey, now: float) -> None:
        """What is due can't end now: it has consumers whose ends aren't told here, or its last
        event isn't durable. It is due again after its time-out, or a moment."""
        clock = self._clocks[key]
        self._run(key, clock, now + max(clock.expiry.seconds, POSTPONED_SECONDS))
