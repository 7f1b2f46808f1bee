"""A transaction manager ends a coin's way from the log `orders` to another one, and a gateway is
killed at one step of that: before or after a record is on the disk.
"""

from pathlib import Path
from typing import NamedTuple

import pytest
from faults import Fault
from gateway_management import Answer, Manager
from gateway_peer import Peer
from gateway_transactions import Transacted
from points import POINTS
from test_shared_moments import NOT_WRITTEN, SYNCED, TRANSACTION, Lake, rows, working

ID = "3:0a:"


class Moment(NamedTuple):
    """A kill of the gateway of a log at the first group that it writes from a phase on."""

    log: str
    point: str


#: The log `main` decides; `orders` has prepared by then. Whether `main` has then, too.
WHILE_PREPARED = {NOT_WRITTEN: False, SYNCED: True}
WHILE_ENDED = (
    Moment("main", NOT_WRITTEN),
    Moment("main", SYNCED),  # and no other was told
    Moment("orders", NOT_WRITTEN),  # it was told
    Moment("orders", SYNCED),
)


def mark(lake: Lake, session: Transacted) -> None:
    """The session's commit will prepare it."""
    asking(lake).done("PREPARE", TRANSACTION, ID, transaction=session.id)


def asking(lake: Lake) -> Manager:
    return Manager(Peer(lake.gateways["main"].port))


def waits(lake: Lake) -> bool:
    """Whether a transaction manager that recovers finds it."""
    found = {str(one["name"]): one for one in rows(asking(lake))}
    return ID in found and found[ID]["own"] is True


def ended(lake: Lake, verb: str) -> Answer:
    """The answer to a transaction manager that repeats its request after a kill."""
    return asking(lake).ask(verb, TRANSACTION, ID)


@pytest.mark.parametrize("point", WHILE_PREPARED)
def test_the_log_that_decides_is_killed_while_it_prepares(tmp_path: Path, point: str) -> None:
    """Either its record is there, and it waits, or nothing is done anywhere."""
    lake = Lake(tmp_path, "main", DISTRIBUTARY_FLEET_OWNER_WAIT_MS="1000")
    with working(lake) as session:
        mark(lake, session)
        lake.layers["main"].arm(Fault(POINTS[point], "kill", 1))
        session.send_discharge(fail=False)
        lake.killed("main")
        lake.start("main")
        there = WHILE_PREPARED[point]
        assert waits(lake) is there
        if there:
            assert ended(lake, "COMMIT").status == 204
        lake.ends()
        assert lake.coins() == ((0, 1) if there else (1, 0))


@pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("moment", WHILE_ENDED, ids=lambda one: f"{one.log} {one.point}")
def test_a_gateway_is_killed_while_it_ends(tmp_path: Path, moment: Moment, verb: str) -> None:
    """The transaction manager's word is done in both logs, if it repeats it until it is heard."""
    lake = Lake(tmp_path, "main", DISTRIBUTARY_FLEET_OWNER_WAIT_MS="1000")
    with working(lake) as session:
        mark(lake, session)
        assert session.commit() == ""
        assert waits(lake)
        lake.layers[moment.log].arm(Fault(POINTS[moment.point], "kill", 1))
        manager = asking(lake)
        manager.send(verb, TRANSACTION, ID)
        manager.peer.turn()
        lake.killed(moment.log)
        lake.start(moment.log)
        # The owner of a third log is away: the id may be there, so the answer isn't 404.
        assert ended(lake, verb).status in (204, 500)
        lake.ends()
        assert lake.coins() == ((0, 1) if verb == "COMMIT" else (1, 0))


@pytest.mark.parametrize("verb", ["COMMIT", "ROLLBACK"])
def test_an_end_is_answered_by_any_gateway_while_a_log_stays_away(
    tmp_path: Path, verb: str
) -> None:
    """The log that decides answers before the gateway that relays the word waits no longer."""
    lake = Lake(tmp_path, "prices", DISTRIBUTARY_FLEET_OWNER_WAIT_MS="6000")
    with working(lake) as session:
        mark(lake, session)
        assert session.commit() == ""
        lake.layers["prices"].arm(Fault(POINTS[NOT_WRITTEN], "kill", 1))
        manager = asking(lake)  # of `main`; `orders` decides
        manager.done(verb, TRANSACTION, ID)
        lake.killed("prices")
        lake.start("prices")
        lake.ends()
        assert lake.coins() == ((0, 1) if verb == "COMMIT" else (1, 0))
