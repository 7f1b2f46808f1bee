"""Lives of messages against Spark's views, over random lives of the real dispatcher."""

from collections import defaultdict

import pytest
from audit_life import EPOCH, Life
from spark_place import Place

from distributary.ingest.console.log_rows.log_reader import LogReader
from distributary.ingest.console.log_rows.sight import ALL
from distributary.ingest.console.records.message_life import MessageLife, StayState, life_of
from distributary.ingest.console.settings.console_settings import load
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.transforms.schema.deliveries import deliveries
from distributary.pipeline.transforms.schema.home_tables import find_tables
from distributary.pipeline.transforms.views.pending import pending_of_all

#: A delivery as both sides tell it.
Told = tuple[str, str, int, str, bool, int]

DEFAULT_LIMITS = load().records


def told(found: MessageLife) -> list[Told]:
    """The deliveries of all lanes."""
    return sorted(
        (
            lane.subscription,
            one.consumer,
            one.delivered_at or 0,
            str(one.outcome),
            one.final,
            one.delivery_count,
        )
        for lane in found.lanes
        for stay in lane.stays
        for one in stay.deliveries
    )


@pytest.mark.timeout(900)
def test_deliveries_and_what_is_owed_are_sparks(place: Place) -> None:
    """Turns, selectors, patterns, releases, failures, dead letters, lost consumers, rewinds, kills
    and no-local: each message's deliveries are those of the view, and what waits is `pending`."""
    Life(place.log, seed=11).live(groups=120)
    place.materialize()
    tables = find_tables(place.spark, place.places.tables)
    by_sequence: dict[int, list[Told]] = defaultdict(list)
    for row in deliveries(tables).collect():
        at = round((row.delivered_at.astimezone(EPOCH.tzinfo) - EPOCH).total_seconds() * 1e6)
        by_sequence[row.sequence].append(
            (row.subscription, row.consumer, at, row.outcome, row.final, row.delivery_count)
        )
    pending = {(row.subscription, row.sequence) for row in pending_of_all(tables).collect()}
    reader = LogReader(LocalStore(place.home.topic_log))
    snapshot = reader.snapshot()
    waiting: set[tuple[str, int]] = set()
    states: set[StayState] = set()
    for sequence in range(snapshot.as_of.sequence):
        found = life_of(snapshot, sequence, sight=ALL, limits=DEFAULT_LIMITS)
        assert found is not None
        assert told(found) == sorted(by_sequence[sequence]), sequence
        states |= {stay.state for lane in found.lanes for stay in lane.stays}
        waiting |= {
            (lane.subscription, sequence) for lane in found.lanes if lane.state is StayState.WAITING
        }
    assert waiting == pending
    assert len(by_sequence) > 100
    assert states == {
        StayState.WAITING,
        StayState.SETTLED,
        StayState.ENDED,
        StayState.NEVER_OWED,
        StayState.NOT_SELECTED,
    }
