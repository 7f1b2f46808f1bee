"""A standby: it waits for a home, ready to serve it.

What a start has to do anyhow and needs no home for is done while it waits: most of the time from
the end of an owner to its standby's first accept would be the loading of Arrow.
"""

import time
from importlib import import_module
from typing import Final

import structlog

from distributary.ingest.gateway.ownership.any_home import AnyHome, OwnedHome
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


async def stand_by(home: AnyHome, host: Host) -> OwnedHome | None:
    """Wait for the home; None when it is to end before. Raises StoreError."""
    standby = home.standby()
    waiting = False
    try:
        while not host.halt.asked:
            owned = standby.attempt(time.monotonic())
            if owned is not None:
                _events.info("standby.took_over", from_pid=standby.owner_pid)
                return owned
            if not waiting:
                waiting = True
                load()
                _events.info("standby.waiting", home=home.address, owner_pid=standby.owner_pid)
            await host.halt.ended(standby.seconds)
    finally:
        standby.close()
    return None


def load() -> None:
    """Import what a start of a home with rows imports. Blocks, for half a second."""
    for name in LOADED:
        import_module(name)
