"""A standby: it waits for a home, ready to serve it.

What a start has to do anyhow and needs no home for is done while it waits: most of the time from
the end of an owner to its standby's first accept would be the loading of Arrow.
"""

import asyncio
import time
from importlib import import_module
from typing import Final

import structlog

from distributary.ingest.gateway.ownership.any_home import AnyHome, OwnedHome, Waiting
from distributary.ingest.runtime.host import Host

_events = structlog.get_logger("gateway")

#: What a gateway loads when it opens a home with rows, and serves its first peers. The last three
#: Arrow imports, once it makes anything.
LOADED: Final = (
    "distributary.pipeline.tables.topic_log.table_work",
    "distributary.pipeline.tables.topic_log.commit_files",
    "distributary.pipeline.tables.recovery.snapshot",
    "importlib.readers",
    "dateutil.relativedelta",
    "numpy.ma",
)


#: Seconds until what was read ahead is read anew: so much of the log a start reads after a crash.
AHEAD_SECONDS: Final = 300.0
#: Seconds that a home which is ours waits for what is just being read.
_READ_SECONDS_MAX: Final = 0.5


async def stand_by(home: AnyHome, host: Host) -> OwnedHome | None:
    """Wait for the home; None when it is to end before. Raises StoreError."""
    standby = home.standby()
    ahead = _Ahead(standby)
    waiting = False
    try:
        while not host.halt.asked:
            owned = standby.attempt(time.monotonic())
            if owned is not None:
                _events.info("standby.took_over", from_pid=standby.owner_pid)
                await ahead.finish()
                return owned
            if not waiting:
                waiting = True
                load()
                _events.info("standby.waiting", home=home.address, owner_pid=standby.owner_pid)
            ahead.look()
            await host.halt.ended(standby.seconds)
    finally:
        standby.close()
    return None


class _Ahead:
    """When the home's table is read ahead: at first, now and then, and when its owner leaves."""

    def __init__(self, standby: Waiting) -> None:
        self._standby = standby
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Future[None] | None = None
        self._due, self._left = 0.0, False

    def look(self) -> None:
        """Begin to read, if it is time and it isn't read just now."""
        leaves = self._standby.leaving
        if self._reading is not None:
            if not self._reading.done():
                return
            self._reading.result()  # a bug is no reason to go on
        if self._loop.time() >= self._due or (leaves and not self._left):
            self._due, self._left = self._loop.time() + AHEAD_SECONDS, leaves
            self._reading = self._loop.run_in_executor(None, self._standby.read_ahead)

    async def finish(self) -> None:
        """Wait for what is being read, a little."""
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=_READ_SECONDS_MAX)


def load() -> None:
    """Import what a start of a home with rows imports. Blocks, for half a second."""
    for name in LOADED:
        import_module(name)
