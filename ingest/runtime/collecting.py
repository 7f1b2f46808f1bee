"""Garbage collection: cycles of objects are collected on the loop's thread, at set times.

By itself the collector runs in any thread that allocates, and what it finds may end in calls into
Proton, which only the loop's thread may make.

To look at everything takes as long as everything is large: 0.1 s for 160,000 objects, which is what
three thousand attached subscriptions have. So only new objects are looked at, ten times a second
where there are many, and those that are alive then are left alone ("frozen"). They become part of
an unreachable cycle when a connection or a link ends. When enough of these have ended, all objects
are looked at once.

And when a loop that has worked comes to rest, the memory that is free goes back to the system.
"""

import asyncio
import gc
import time

import msgspec

from distributary.ingest.runtime import memory

#: Seconds between two collections among what is new. A second of new objects, of peers that attach
#: by the thousand, held the loop for 50 ms.
COLLECT_SECONDS = 0.1
#: The same, where fewer objects than this came since the last one: an idle gateway is woken less.
QUIET_SECONDS = 0.4
QUIET_OBJECTS = 500
#: Connections and links that must have ended until all is looked at; 10 KiB each. And they must be
#: as many as there are still: then it takes little, or is rare.
ENDED_MIN = 2_000
#: And what ended in other ways: once a day.
COLLECT_ALL_SECONDS = 86_400
#: A loop rests that has used less than this share of a processor for so many seconds; thirty single
#: messages a second take more. To give back what fifty consumers held takes some milliseconds.
REST_SHARE, REST_SECONDS = 0.02, 0.5


class Ends(msgspec.Struct):
    """How many connections and links have begun, and how many have ended."""

    begun: int = 0
    ended: int = 0


class Collecting:
    """Collects from `begin` on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ends: Ends) -> None:
        self._loop, self._ends = loop, ends
        self._ended = 0  #: of them, when all was looked at
        self._all_at = loop.time() + COLLECT_ALL_SECONDS
        self._used, self._looked_at = time.thread_time(), loop.time()
        self._worked_at: float | None = None  #: last; None when what was free then is given back

    def begin(self) -> None:
        """Exempt all objects that are alive now: they live as long as the process."""
        gc.disable()
        gc.collect()
        gc.freeze()
        self._loop.call_later(COLLECT_SECONDS, self._collect)

    @staticmethod
    def end() -> None:
        """What was alive isn't any more: collect as any process does, until the next `begin`."""
        gc.unfreeze()
        gc.collect()
        gc.enable()

    def due(self) -> bool:
        """Whether it is time to look at everything."""
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
