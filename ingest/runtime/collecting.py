"""Garbage collection: cycles of objects are collected on the loop's thread, at set times.

By itself the collector runs on any thread that allocates, and the freed objects may call into
Proton, which only the loop's thread may do.

A collection of all objects takes time by their number: 0.1 s for 160,000 objects, those of three
thousand attached subscriptions. So only new objects are collected, ten times a second if there are
many, and the surviving ones are exempted ("frozen"). They become part of an unreachable cycle when
a connection or a link ends. When enough of these have ended, all objects are collected once.

When a loop that has worked comes to rest, free memory goes back to the system.
"""

import asyncio
import gc
import time

import msgspec

from distributary.ingest.runtime import memory

#: Seconds between two collections of new objects. One second's new objects, of thousands of peers
#: that attach, held the loop for 50 ms.
COLLECT_SECONDS = 0.1
#: The same after fewer new objects than this: an idle gateway is woken less often.
QUIET_SECONDS = 0.4
QUIET_OBJECTS = 500
#: Connections and links, 10 KiB each, that must have ended before all objects are collected. They
#: must also be as many as are still alive: so a collection of all is short, or rare.
ENDED_MIN = 2_000
#: Seconds between collections of all objects in any case: for cycles that end in other ways.
COLLECT_ALL_SECONDS = 86_400
#: A loop rests if it has used less than this share of a processor for this many seconds; thirty
#: single messages a second take more. Giving back the memory of fifty consumers takes milliseconds.
REST_SHARE, REST_SECONDS = 0.02, 0.5


class Ends(msgspec.Struct):
    """The numbers of connections and links that have begun, and that have ended."""

    begun: int = 0
    ended: int = 0


class Collecting:
    """Collects from `begin` on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ends: Ends) -> None:
        self._loop, self._ends = loop, ends
        self._ended = 0  #: `ends.ended` at the last collection of all objects
        self._all_at = loop.time() + COLLECT_ALL_SECONDS
        self._used, self._looked_at = time.thread_time(), loop.time()
        self._worked_at: float | None = None  #: last; None: free memory was given back since

    def begin(self) -> None:
        """Exempt all objects that are alive now: they live as long as the process."""
        gc.disable()
        gc.collect()
        gc.freeze()
        self._loop.call_later(COLLECT_SECONDS, self._collect)

    @staticmethod
    def end() -> None:
        """Collect all objects, and go back to the ordinary collector, until the next `begin`."""
        gc.unfreeze()
        gc.collect()
        gc.enable()

    def due(self) -> bool:
        """Whether it is time to collect all objects."""
        ended = self._ends.ended - self._ended
        alive = self._ends.begun - self._ends.ended
        return ended >= max(ENDED_MIN, alive) or self._loop.time() >= self._all_at

    def _collect(self) -> None:
        came = gc.get_count()[0]
        if self.due():
            self._all_at = self._loop.time() + COLLECT_ALL_SECONDS
            self._ended = self._ends.ended
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(1)
        gc.freeze()
        self._look_for_rest()
        seconds = QUIET_SECONDS if came < QUIET_OBJECTS else COLLECT_SECONDS
        self._loop.call_later(seconds, self._collect)

    def _look_for_rest(self) -> None:
        now, used = self._loop.time(), time.thread_time()
        if used - self._used > REST_SHARE * (now - self._looked_at):
            self._worked_at = now
        elif self._worked_at is not None and now - self._worked_at >= REST_SECONDS:
            self._worked_at = None
            memory.give_back()
            used = time.thread_time()
        self._used, self._looked_at = used, now
