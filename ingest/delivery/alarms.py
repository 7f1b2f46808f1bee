"""Alarms of subscriptions: the ends of delays and locks, with one timer for all.

A dispatcher knows when it next has something to do (`next_due`); this module finds the earliest of
these times. All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.runtime import clock

#: Most seconds until the clock is read again: it may have been set.
WAIT_SECONDS_MAX = 30.0
#: Subscriptions whose alarm rings in one turn of the loop, 15 us each and more.
RUNG_AT_ONCE = 100


class Alarms:
    """Calls `rung` with the subscriptions whose time has come, and the time (microseconds)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rung: Callable[[list[Subscription], int], None]
    ) -> None:
        self._loop, self._rung = loop, rung
        self._numbers = count()
        #: Times (microseconds), as a heap. An entry that isn't its subscription's `alarm` any more
        #: is ignored.
        self._times: list[tuple[int, int, Subscription]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = 0

    def look(self, subscription: Subscription) -> None:
        """Note that a subscription's dispatcher has changed: it may be due earlier than before."""
        due = subscription.dispatcher.next_due
        if due is None or (subscription.alarm and subscription.alarm <= due) or subscription.ended:
            return
        subscription.alarm = due
        heappush(self._times, (due, next(self._numbers), subscription))
        if self._timer is None or due < self._set_for:
            self._set()

    def forget(self, subscription: Subscription) -> None:
        """Forget the alarm of a subscription that has ended."""
        if subscription.alarm:
            subscription.alarm = 0
            self._times = [entry for entry in self._times if entry[2] is not subscription]
            heapify(self._times)

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._times:
            self._set_for = self._times[0][0]
            seconds = (self._set_for - clock.now()) / 1_000_000
            self._timer = self._loop.call_later(
                min(max(seconds, 0.0), WAIT_SECONDS_MAX), self._ring
            )

    def _ring(self) -> None:
        self._timer = None
        now = clock.now()
        rung: list[Subscription] = []
        while self._times and self._times[0][0] <= now and len(rung) < RUNG_AT_ONCE:
            due, _, subscription = heappop(self._times)
            if subscription.alarm == due:
                subscription.alarm = 0
                rung.append(subscription)
        self._set()
        if rung:
            self._rung(rung, now)
