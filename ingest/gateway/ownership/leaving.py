"""An owner's planned end, as long as it serves: a hand-over to whoever waits for the home.

Rule 1: who waits is told that the home will be free soon, and looks often from then on.
Rule 2: meanwhile clients are served, and what is durable goes into the table: when nobody is
        served any more little is left to do.
Rule 3: the home is given back as ever, when the last commit is durable and nothing is written
        any more. What was said before is a hint, and whoever takes it wrongly loses nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.ingest.runtime.host import Halt
from distributary.pipeline.errors import BeatFailed, HomeLost

_events = structlog.get_logger("gateway")

#: Seconds that all of it may take: a disk that is slow is no reason to serve for ever.
SECONDS_MAX: Final = 5.0
#: Seconds between two looks how far it is.
_LOOK_SECONDS: Final = 0.005


class Catching(Protocol):
    """A log whose table catches up with its journal."""

    def catch_up(self) -> Callable[[], bool]:
        """Commit what was begun until now, before the end; whether that is done."""


async def leave(owner: HomeOwner, heir: int, log: Catching, halt: Halt) -> str | None:
    """Prepare the end of an owner that somebody wants to end, if somebody waits for its home; an
    heir is to have it first. The reason if it has to stop at once meanwhile, as `Halt.ended`."""
    loop = asyncio.get_running_loop()
    try:
        seconds = await loop.run_in_executor(None, owner.leave, heir)
    except (OSError, BeatFailed, HomeLost):  # a hint; the heartbeat finds out what it means
        return halt.reason
    if not seconds:
        return halt.reason
    _events.info("owner.leaves", seconds=seconds)
    begun, caught_up = loop.time(), log.catch_up()
    while not halt.on and (passed := loop.time() - begun) < SECONDS_MAX:
        if passed >= seconds and caught_up():
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return halt.reason
