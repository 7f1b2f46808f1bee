"""Moves of logs that an operator asks for, and a fleet's living members, seen from outside.

All functions block.
"""

import time
from collections.abc import Sequence
from typing import Final

from distributary.pipeline.errors import InvalidRequest, MoveRefused
from distributary.pipeline.fleet.members import Member, Sightings
from distributary.pipeline.fleet.moves import OLD_SECONDS, OPERATOR, Move, State, ask
from distributary.pipeline.tables.lake.lake import Lake

#: Seconds between two looks at a move.
_LOOK_SECONDS: Final = 0.05


def living(lake: Lake) -> list[Member]:
    """Return the living members. A member whose last beat is recent by this machine's clock counts
    as living; the others are watched for new beats. Raises StoreError."""
    sightings = Sightings()

    def looked() -> list[Member]:
        asked, said = time.monotonic(), lake.members()
        members, _ = sightings.look(said, asked, time.monotonic())
        return members

    said = looked()
    fresh = time.time_ns() // 1_000
    doubtful = [one for one in said if abs(fresh - one.said_at) / 1e6 > one.silent_seconds]
    if not doubtful:
        return sorted(said, key=lambda one: one.number)
    wait = max(one.silent_seconds for one in doubtful)
    until = time.monotonic() + wait
    while time.monotonic() <= until:
        time.sleep(_LOOK_SECONDS)
        looked()
    return looked()


def move(lake: Lake, log: str, to: str) -> Move:
    """Move a log to the gateway that stands by for it at this address or on this machine; return
    the order when it is done. Raises MoveRefused when it isn't, InvalidRequest for an unknown log,
    StoreError."""
    placement = lake.placement()
    if log not in placement.logs:
        known = ", ".join(placement.logs)
        raise InvalidRequest(f"{lake.address} has no log {log}: there are {known}")
    heir = _heir(living(lake), log, to)
    order = _asked(lake, log, heir)
    until = time.monotonic() + OLD_SECONDS
    while time.monotonic() < until:
        seen = lake.move()
        if seen is None or seen.number != order.number:
            raise MoveRefused(f"another move took the place of this one of {log}; look again")
        if seen.state is State.DONE:
            return seen
        if seen.state is State.FAILED:
            raise MoveRefused(f"{log} wasn't moved: {seen.reason}. Its owner serves on")
        time.sleep(_LOOK_SECONDS)
    raise MoveRefused(
        f"no gateway has taken up the move of {log} in {OLD_SECONDS:g} s. `distributary log list` "
        "shows its owner"
    )


def _heir(members: Sequence[Member], log: str, to: str) -> Member:
    owner = next((one for one in members if one.log == log), None)
    if owner is None:
        raise MoveRefused(f"{log} has no owner that could give it: a standby takes it by itself")
    standbys = [one for one in members if log in one.waits]
    found = [one for one in standbys if one.is_called(to)]
    if found:
        return found[0]
    if owner.is_called(to):
        raise MoveRefused(f"{log} is at {to} already: {owner.url} on {owner.machine} has it")
    there = ", ".join(f"{one.url} on {one.machine}" for one in standbys) or "no gateway at all"
    raise MoveRefused(
        f"no gateway called {to} stands by for {log}. There is {there}; start one there by "
        f"`distributary serve --log {log} --standby`"
    )


def _asked(lake: Lake, log: str, heir: Member) -> Move:
    """Write the order to the lake and return it; wait for an earlier order that is under way."""
    seen, since = lake.move(), time.monotonic()
    while True:
        old = time.monotonic() - since >= OLD_SECONDS
        order = ask(seen, log, heir, OPERATOR, old=old)
        if order is not None and lake.replace_move(seen, order):
            return order
        time.sleep(_LOOK_SECONDS)
        now = lake.move()
        if now != seen:
            seen, since = now, time.monotonic()
