"""A log's disk has no room at one step of a transaction over several logs: when its part is to be
prepared, when it is to be decided, when it is to be done. What waits is done when there is room, or
not at all, and one sentence says what is wrong.
"""

from pathlib import Path

import pytest
from faults import Fault
from points import POINTS
from test_shared_moments import (
    BETWEEN,
    NOT_WRITTEN,
    OWN,
    Lake,
    Moment,
    heard,
    working,
)

HERE = [("main", one) for one in OWN if one.point == NOT_WRITTEN]
THERE = [("prices", one) for one in BETWEEN if one.point == NOT_WRITTEN]


def fill(lake: Lake, log: str, nth: int) -> None:
    """From the log's nth group on its disk takes nothing."""
    lake.layers[log].arm(Fault(POINTS[NOT_WRITTEN], "errno", nth, 0, "ENOSPC"))


def named(one: "tuple[str, Moment] | str") -> str:
    return one if isinstance(one, str) else f"to {one[0]}, {one[1].log} at {one[1].nth}"


@pytest.mark.parametrize("how", ["is made", "is killed"])
@pytest.mark.parametrize("where", HERE + THERE, ids=named)
def test_a_disk_is_full(tmp_path: Path, where: tuple[str, Moment], how: str) -> None:
    """Until room is made, or until its gateway was killed, and room was made then."""
    to, moment = where
    lake = Lake(tmp_path, to)
    with working(lake) as session:
        gateway = lake.gateways[moment.log]
        fill(lake, moment.log, moment.nth)
        discharge = session.send_discharge(fail=False)
        gateway.await_event("journal.full")
        hears, moved = "", True
        if how == "is killed":
            gateway.kill()
            lake.layers[moment.log].arm(None)
            lake.start(moment.log)
            hears, moved = moment.hears, moment.moved
        lake.layers[moment.log].arm(None)
        assert heard(session, discharge) == hears
        lake.ends()
        assert lake.coins() == ((0, 1) if moved else (1, 0))
        assert len(gateway.events("journal.full")) == 1
