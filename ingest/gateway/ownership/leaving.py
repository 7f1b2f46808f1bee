"""The first part of an owner's planned end, while it still serves: a hand-over to a standby.

Rule 1: standbys are told that the home will be free soon, and look often from then on.
Rule 2: meanwhile clients are served, and durable groups are committed to the table, so that little
        is left to do when the gateway serves no more.
Rule 3: the home is given back as at any end, when the last commit is durable and nothing is written
        any more. The announcement is only a hint: a standby that mistakes it loses nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.ingest.runtime.host import Halt
from distributary.pipeline.errors import BeatFailed, HomeLost

_events = structlog.get_logger("gateway")

#: Seconds that this part may take: a slow disk must not delay the end without limit.
SECONDS_MAX: Final = 5.0
#: Seconds between two checks whether the table has caught up.
_LOOK_SECONDS: Final = 0.005


class Catching(Protocol):
    """A log whose table catches up with its journal."""

    def catch_up(self) -> Callable[[], bool]:
        """Commit all groups that were begun until now; the result tells whether that is done."""


async def leave(owner: HomeOwner, heir: int, log: Catching, halt: Halt) -> str | None:
    """Prepare the planned end of an owner, if a standby waits for its home; `heir` is to take it
    first. Return the reason if the gateway has to stop at once meanwhile, as `Halt.ended`."""
    loop = asyncio.get_running_loop()
    try:
        seconds = await loop.run_in_executor(None, owner.leave, heir)
    except (OSError, BeatFailed, HomeLost):  # only a hint; the heartbeat finds out the cause
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
