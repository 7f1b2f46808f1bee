"""A log moves to another gateway, as planned, while a transaction over several logs is under way:
prepared there, decided there, or done in some of its logs.
"""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from gateway_machines import Machines
from gateway_process import Gateway
from test_shared_moments import (
    FORCED,
    NOT_WRITTEN,
    NOTHING,
    SYNCED,
    UNKNOWN,
    Lake,
    heard,
    paused,
    working,
)

#: A gateway may stand still so long without being taken for lost.
PATIENT = {"DISTRIBUTARY_OWNER_LEASE_MS": "30000"}


class Move(NamedTuple):
    """The log that moves while the gateway of another one stands still, which stopped at a step as
    in `Moment`. What the client hears, and whether the coin has moved in the end."""

    log: str
    stops: str
    point: str
    nth: int
    hears: str
    moved: bool


#: The client is at `main`, which decides, and the coin goes to its queue.
OWN = (
    Move("orders", "main", NOT_WRITTEN, 1, "", True),  # it has prepared, nothing is decided
    Move("orders", "main", SYNCED, 1, "", True),  # it has prepared, and isn't told yet
    Move("orders", "main", NOT_WRITTEN, 2, "", True),  # it has committed, which isn't written
    Move("main", "orders", SYNCED, 1, NOTHING, False),  # it hasn't heard that it has prepared
    Move("main", "orders", NOT_WRITTEN, 2, NOTHING, True),  # it has decided, and told
)
#: The client is at `main`, the coin goes to `prices`, and `orders` decides.
BETWEEN = (
    Move("orders", "prices", SYNCED, 1, UNKNOWN, False),
    Move("orders", "prices", NOT_WRITTEN, 2, FORCED, True),
    Move("prices", "orders", NOT_WRITTEN, 1, "", True),
    Move("prices", "orders", SYNCED, 1, "", True),
    Move("prices", "orders", NOT_WRITTEN, 2, "", True),
)


def play(lake: Lake, move: Move) -> None:
    with working(lake) as session, ExitStack() as ends:
        heir = lake.standby(move.log)
        ends.push(heir)
        discharge = paused(lake, session, move.stops, move.point, move.nth)
        done = Machines(lake.home, Gateway).move(move.log, "heir")
        assert done["state"] == "done"
        heir.await_event("address.said")
        lake.gateways[move.log].await_event("log.given")
        lake.layers[move.stops].arm(None)
        lake.gateways[move.stops].process.send_signal(signal.SIGCONT)
        assert heard(session, discharge) == move.hears
        lake.gateways[move.log] = heir
        lake.ends()
        assert lake.coins() == ((0, 1) if move.moved else (1, 0))


def named(move: Move) -> str:
    return f"{move.log} while {move.stops} stops {move.point} {move.nth}"


@pytest.mark.parametrize("move", OWN, ids=named)
def test_a_log_moves_where_the_clients_gateway_decides(tmp_path: Path, move: Move) -> None:
    play(Lake(tmp_path, "main", **PATIENT), move)


@pytest.mark.parametrize("move", BETWEEN, ids=named)
def test_a_log_moves_where_another_log_decides(tmp_path: Path, move: Move) -> None:
    play(Lake(tmp_path, "prices", **PATIENT), move)


@pytest.mark.parametrize(
    ("to", "decides", "other", "hears"),
    [("main", "main", "orders", NOTHING), ("prices", "orders", "prices", FORCED)],
)
def test_the_log_that_decided_moves_while_another_is_away(
    tmp_path: Path, to: str, decides: str, other: str, hears: str
) -> None:
    """Only the log's next owner can tell the decision."""
    lake = Lake(tmp_path, to, **PATIENT)
    with working(lake) as session, ExitStack() as ends:
        discharge = paused(lake, session, decides, SYNCED, 1)
        lake.gateways[other].kill()
        former = lake.gateways[decides]
        former.process.send_signal(signal.SIGCONT)
        former.await_metric(1, "decided_transactions")
        heir = lake.standby(decides)  # not before: an owner that stands still would lose its log
        ends.push(heir)
        assert Machines(lake.home, Gateway).move(decides, "heir")["state"] == "done"
        heir.await_event("address.said")
        lake.gateways[decides] = heir
        assert heard(session, discharge) == hears
        lake.start(other)
        lake.ends()
        assert lake.coins() == (0, 1)
