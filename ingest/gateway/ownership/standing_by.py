"""A standby: it waits for a home, ready to serve it.

While it waits it does the part of a start that needs no home: loading Arrow would take most of the
time from the end of an owner to its standby's first accept.
"""

import asyncio
import threading
import time
from importlib import import_module
from typing import Final

import structlog

from distributary.ingest.gateway.ownership.any_home import AnyHome, OwnedHome, Waiting
from distributary.ingest.gateway.ownership.fleet_part import FleetPart
from distributary.ingest.runtime.host import Host

_events = structlog.get_logger("gateway")

#: Modules that a gateway loads when it opens a home with rows and serves its first peers. Arrow
#: imports the last three when it first makes an array.
LOADED: Final = (
    "distributary.pipeline.tables.topic_log.table_work",
    "distributary.pipeline.tables.topic_log.commit_files",
    "distributary.pipeline.tables.recovery.snapshot",
    "importlib.readers",
    "dateutil.relativedelta",
    "numpy.ma",
)


#: Seconds until a standby reads ahead again: a start after a crash reads the log of this time.
AHEAD_SECONDS: Final = 300.0
#: Seconds that a start waits for reading ahead that is still under way.
_READ_SECONDS_MAX: Final = 0.5
#: Seconds between two checks whether reading ahead is done.
_LOOK_SECONDS: Final = 0.005


async def stand_by(home: AnyHome, host: Host, fleet: FleetPart) -> OwnedHome | None:
    """Wait for the home, and take it; None when the process is to end before. An owner that has
    named this standby as heir is told when it is ready. Raises StoreError."""
    standby = home.standby(fleet.number)
    fleet.waits()
    ahead = Ahead(standby)
    waiting = False
    try:
        while not host.halt.asked:
            owned = standby.attempt(time.monotonic)
            if owned is not None:
                _events.info("standby.took_over", from_pid=standby.owner_pid)
                await ahead.finish()
                return owned
            if not waiting:
                waiting = True
                load()
                _events.info("standby.waiting", home=home.address, owner_pid=standby.owner_pid)
            ahead.look()
            fleet.ready(ready=standby.named and ahead.done)
            await host.halt.ended(standby.seconds)
    finally:
        standby.close()
    return None


class Ahead:
    """Reads the home's table ahead: at first, periodically, and when its owner leaves. It reads on
    a daemon thread, so that a long table or a store that doesn't answer can't delay the end."""

    def __init__(self, standby: Waiting) -> None:
        self._standby = standby
        self._reading: threading.Thread | None = None
        self._bug: Exception | None = None
        self._due, self._left = 0.0, False

    def look(self) -> None:
        """Begin to read if it is time, unless reading is under way."""
        leaves = self._standby.leaving
        self._left = self._left and leaves  # the next owner that leaves is another one
        if self._reading is not None and self._reading.is_alive():
            return
        if self._bug is not None:
            raise self._bug  # no reason to go on
        if time.monotonic() >= self._due or (leaves and not self._left):
            self._due, self._left = time.monotonic() + AHEAD_SECONDS, leaves
            self._reading = threading.Thread(target=self._read, name="ahead", daemon=True)
            self._reading.start()

    def _read(self) -> None:
        try:
            self._standby.read_ahead()
        except Exception as error:  # noqa: BLE001 (`look` raises it)
            self._bug = error

    @property
    def done(self) -> bool:
        """Whether the table was read since an owner has begun to leave."""
        return self._left and (self._reading is None or not self._reading.is_alive())

    async def finish(self) -> None:
        """Wait for reading that is under way, _READ_SECONDS_MAX at most."""
        last = time.monotonic() + _READ_SECONDS_MAX
        while (reading := self._reading) is not None and reading.is_alive():
            if time.monotonic() > last:
                return
            await asyncio.sleep(_LOOK_SECONDS)


def load() -> None:
    """Import the modules that a start of a home with rows needs. Blocks, for half a second."""
    for name in LOADED:
        import_module(name)
