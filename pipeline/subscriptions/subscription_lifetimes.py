"""Expiry of subscriptions: a number of seconds after the last link, its session or its connection
has ended.

Rule 1: a subscription's clock runs while it has no consumer's link, and, if its lifetime is that of
        sessions or connections, all those of its former links have ended.
Rule 2: a new consumer stops the clock; the next end restarts it.
Rule 3: the clock of a subscription without a consumer also starts when the subscription is made,
        when its lifetime is changed, and when the process starts.
Time is an argument, in seconds of a clock that never goes back.
"""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import msgspec

from distributary.pipeline.model.policy import Expiry, Lifetime
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.policy_table import EXPIRY_SECONDS_MOST, text_of

#: Least seconds until a subscription that is due and can't end yet is due again.
POSTPONED_SECONDS = 1.0
#: The heap is rebuilt when it has this many entries of stopped clocks, and more than run.
STOPPED_LEAST = 64

C = TypeVar("C")


def text_of_expiry(expiry: Expiry) -> str:
    """Return the own policy text of a subscription that a client makes with this lifetime."""
    if expiry.lifetime is Lifetime.NEVER:
        return ""
    seconds = min(expiry.seconds, EXPIRY_SECONDS_MOST)
    return text_of({"expiry": expiry.lifetime, "expiry_seconds": seconds})


#: The number of no session: the connection itself.
_CONNECTION = 0


class _Clock(msgspec.Struct, Generic[C]):
    """One subscription's clock: `deadline` is None while it doesn't run, `waits_for` has the
    sessions or connections that must end first."""

    expiry: Expiry
    deadline: float | None = None
    waits_for: set[tuple[C, int]] = msgspec.field(default_factory=set)


class Lifetimes(Generic[C]):
    """The clocks of all subscriptions that expire; the others have none. `C` is a connection, which
    must be hashable; a session is a number within it, not 0."""

    def __init__(self) -> None:
        self._clocks: dict[SubscriptionKey, _Clock[C]] = {}
        self._heap: list[tuple[float, int, SubscriptionKey]] = []
        self._pushed = 0
        #: By connection and session: the subscriptions that wait for their end.
        self._waiting: dict[C, dict[int, set[SubscriptionKey]]] = {}

    def __len__(self) -> int:
        return len(self._clocks)

    @property
    def remembered(self) -> int:
        """Number of entries in the heap, with those of clocks that were stopped since."""
        return len(self._heap)

    def apply(self, key: SubscriptionKey, expiry: Expiry, now: float, *, idle: bool) -> None:
        """Set a subscription's expiry; an unchanged expiry leaves its clock alone. `idle`: it has
        no consumer."""
        clock = self._clocks.get(key)
        if clock is not None and clock.expiry == expiry:
            return
        self.forget(key)
        if expiry.lifetime is not Lifetime.NEVER:
            self._clocks[key] = clock = _Clock(expiry)
            if idle:
                self._run(key, clock, now + expiry.seconds)

    def forget(self, key: SubscriptionKey) -> None:
        """Remove a subscription's clock: it was deleted, or never expires."""
        clock = self._clocks.pop(key, None)
        for holder in clock.waits_for if clock else ():
            self._no_more(key, *holder)

    def joined(self, key: SubscriptionKey) -> None:
        """Stop the clock: the subscription has a new consumer."""
        clock = self._clocks.get(key)
        if clock is not None:
            clock.deadline = None

    def left(
        self, key: SubscriptionKey, connection: C, session: int, now: float, *, others: bool
    ) -> None:
        """Take note that a consumer's link in this session has ended, perhaps with the session.
        `others`: the subscription has more consumers."""
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
        """Take note that a session has ended, after its links."""
        waiting = self._waiting.get(connection, {})
        for key in tuple(waiting.get(session, ())):
            self._ended(key, (connection, session), now)

    def connection_ended(self, connection: C, now: float) -> None:
        """Take note that a connection has ended, after its links; may be called again."""
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
        """Remove a subscription from those that wait for this end."""
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
        """Return at most `most` subscriptions whose time is over, the earliest first, and stop
        their clocks. The caller must end or `postpone` each."""
        found: list[SubscriptionKey] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            entry = heappop(self._heap)
            if self._runs(entry):
                self._clocks[entry[2]].deadline = None
                found.append(entry[2])
        return found

    def is_over(self, key: SubscriptionKey, now: float) -> bool:
        """Whether the time of this subscription is over, and `due` hasn't returned it yet."""
        clock = self._clocks.get(key)
        return clock is not None and clock.deadline is not None and clock.deadline <= now

    def postpone(self, key: SubscriptionKey, now: float) -> None:
        """Make a due subscription due again after its time-out, POSTPONED_SECONDS at least: it has
        consumers whose ends aren't told here, or its last event isn't durable."""
        clock = self._clocks[key]
        self._run(key, clock, now + max(clock.expiry.seconds, POSTPONED_SECONDS))
