"""Changes of a lake's placement of topics, while no gateway serves any of its logs.

The placing process owns all logs meanwhile, as a gateway owns one: no gateway can start with the
former placement. No topic moves: a change that would move one is refused.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from distributary.ingest.commit.table_location import (
    is_address,
    object_home,
    table_store,
    table_url,
)
from distributary.ingest.fleet.asked_moves import living
from distributary.ingest.gateway.homes import home_at
from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.ingest.placing.log_topics import LogTopics, topics_of
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import BeatFailed, HomeLocked, HomeLost, PlacementRefused
from distributary.pipeline.lake.placement import Placement, moved
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.lake import Lake
from distributary.pipeline.tables.verify.home_parts import HomeParts, disk_parts

#: Topics that a refusal names.
NAMED_MAX: Final = 5


def place(lake: Lake, settings: Settings, change: Callable[[Placement], Placement]) -> Placement:
    """Change the placement; return the new one when no gateway relays by the former one. Blocks
    until all logs are owned and read, and a lease more. Raises PlacementRefused when a log is
    served, was left by a kill, or has a topic that would be placed elsewhere; InvalidRequest for an
    impossible change; StoreError."""
    seen = lake.placement()
    new = change(seen)
    _check_relays(lake)
    with _owned(lake, seen, settings) as owners:
        for log in seen.logs:
            found = topics_of(_parts(lake.log_home(log), settings))
            _check(log, found, seen, new)
            _beat(owners)
        lake.replace(seen, new)
        # A gateway without a log may relay without counting as a living member: it was paused, has
        # just begun, or can't write its record. Within a lease it stops relaying.
        time.sleep(settings.owner.lease_ms / 1_000)
    return new


def _check_relays(lake: Lake) -> None:
    """Refuse while a gateway relays without a log: it has no lock that could be taken."""
    for one in living(lake):
        if not one.log and not one.waits:
            raise PlacementRefused(
                f"topics are placed while no gateway of the lake runs, and the one at {one.url} on "
                f"{one.machine} (pid {one.pid}) relays without a log. Stop them all first"
            )


@contextmanager
def _owned(lake: Lake, seen: Placement, settings: Settings) -> Iterator[Mapping[str, HomeOwner]]:
    """Own every log while the block runs."""
    owners: dict[str, HomeOwner] = {}
    with ExitStack() as ends:
        for log in seen.logs:
            try:
                owners[log] = home_at(lake.log_home(log), settings).acquire().owner
            except HomeLocked as error:
                who, _, _ = str(error).partition(";")
                raise PlacementRefused(
                    f"topics are placed while no gateway of the lake runs, and the log {log} has "
                    f"one: {who}. Stop them all first"
                ) from error
            ends.callback(owners[log].release)
        yield owners


def _beat(owners: Mapping[str, HomeOwner]) -> None:
    """Beat as owner of all logs, so that no standby takes one while another log is read."""
    for log, owner in owners.items():
        try:
            owner.beat()
            owner.check()
        except (HomeLost, BeatFailed) as error:
            raise PlacementRefused(
                f"the log {log} was taken by a gateway meanwhile: {error}. Stop standbys first"
            ) from error


def _check(log: str, found: LogTopics, seen: Placement, new: Placement) -> None:
    if found.uncommitted:
        raise PlacementRefused(
            f"the log {log} was left by a kill: {found.uncommitted} groups of its journal aren't "
            "in its table. Start its gateway, stop it by SIGTERM, and try again"
        )
    if found.prepared:
        raise PlacementRefused(
            f"the log {log} has {found.prepared} prepared transactions, which may publish anywhere "
            "in it: start its gateway, end them (distributary transaction list), and try again"
        )
    gone = moved(seen, new, found.topics)
    if gone:
        more = f" and {len(gone) - NAMED_MAX} more" if len(gone) > NAMED_MAX else ""
        raise PlacementRefused(
            f"the log {log} has {', '.join(gone[:NAMED_MAX])}{more}, which would be placed "
            "elsewhere: topics of a log don't move. Place them before they are used first, or "
            "take a pattern without them"
        )


def _parts(home: str, settings: Settings) -> HomeParts:
    if not is_address(home):
        folder = Home(Path(home))
        return disk_parts(folder, table_store(folder, settings))
    from distributary.pipeline.tables.verify.object_home_parts import object_parts  # noqa: PLC0415 (with its client)

    at = object_home(home, settings)
    return object_parts(at, table_url(at, settings))
