"""Messages that retention has removed from the log are shown alike from Spark's tables."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from spark_log import encoded, encoded_bytes
from spark_place import Place

from distributary.ingest.console.log_rows.sight import ALL, Sight
from distributary.ingest.console.records.home_records import HomeRecords
from distributary.ingest.console.records.message_life import MessageLife, StayState
from distributary.ingest.console.settings.console_settings import load
from distributary.pipeline.tables.delta.store import LocalStore

SUB = "global/s"


def story(place: Place) -> None:
    """Seven groups of the first day: a redelivery, an expiry, a dead letter, a selector; the last
    message is of the second day."""
    log = place.log
    log.next_group()
    log.subscribe(SUB, "t")
    log.subscribe("global/red", "t", selector="colour = 'red'")
    log.next_group()
    properties = {"colour": "blue", "n": 7, "half": 0.5, "yes": True, "raw": b"\1"}
    log.publish("t", encoded("a", id="m-1", user_id=b"alice", properties=properties))
    log.publish("t", encoded_bytes(b'{"k": [1, 2]}'), encoded_bytes(bytes(range(9))))
    log.next_group()
    log.settle(SUB, "t", [0], 0, outcome="modified", final=False, consumer="w-1/s")
    log.settle(SUB, "t", [1], 0, outcome="expired", final=True, consumer="")
    log.next_group()
    log.settle(SUB, "t", [0, 2], 3, delivery_count=1, consumer="w-2/s")
    log.settle("global/red", "t", [], 3)
    log.commit()
    log.group = 20
    log.publish("t", encoded("of the next day"))
    log.commit()


@pytest.mark.timeout(600)
def test_a_removed_message_has_the_life_that_it_had(place: Place) -> None:
    story(place)
    place.materialize()
    records = HomeRecords(LocalStore(place.home.topic_log), place.home, load().records)
    before = [records.life(sequence, ALL) for sequence in range(3)]
    DeltaTable(place.home.topic_log).delete("record <> 'subscription' AND day < '2026-11-22'")
    for sequence, was in enumerate(before):
        now = records.life(sequence, ALL)
        assert was is not None
        assert now is not None
        assert (was.removed, now.removed) == (False, True)
        assert known(now) == known(was)
        assert replace(now.message, data=was.message.data) == was.message
        assert now.content.application == was.content.application
        assert now.content.body.text == was.content.body.text
        assert now.content.body.tree == was.content.body.tree
        assert now.publisher == was.publisher
        claimed = records.claimed(sequence)
        assert claimed is not None
        assert set(claimed.subscriptions) == {SUB, "global/red"}
    assert records.life(0, Sight(frozenset(), None)) is None
    last = records.life(3, ALL)
    assert last is not None
    assert not last.removed


def known(life: MessageLife) -> list[object]:
    """Its lanes, but for those that depend on a selector: it can't be asked without the bytes."""
    return [
        lane for lane in life.lanes if lane.state not in (StayState.NOT_SELECTED, StayState.UNKNOWN)
    ]
