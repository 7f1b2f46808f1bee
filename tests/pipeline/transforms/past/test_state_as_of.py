"""State of a subscription as of a time or a version of the log, against a model of random lives."""

import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession
from random_life import Life, Model
from spark_log import BEGIN, encoded
from spark_place import Place

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.past.state_as_of import (
    OUTCOMES,
    REMOVED,
    pending_as_of,
    state,
)
from distributary.pipeline.transforms.views.pending import pending

#: Of what a subscription is now, `cursors` says the same.
SAME = ("subscription", "topic", "selector", "shared", "floor", "settled_count", "log_version")
SAME += ("accepted", "rejected", "released", "modified")
#: A table's columns have comments and may be null; a view's don't.
#: Maps can't be sorted by.
MAPS = ("properties", "delivery_annotations", "message_annotations")
LOOSE = {"ignore_nullable": True, "ignore_metadata": True}


def time_of(group: int) -> datetime:
    return BEGIN + timedelta(seconds=6 * group)


def one(place: Place, name: str, as_of: datetime | int | None = None) -> Row:
    [row] = state(place.spark, str(place.home.root), name, as_of).collect()
    return row


def owed(place: Place, name: str, as_of: datetime | int | None = None) -> set[int]:
    rows = pending_as_of(place.spark, str(place.home.root), name, as_of).select("sequence")
    found = [row.sequence for row in rows.collect()]
    assert len(found) == len(set(found))
    return set(found)


def model_as_of(life: Life, group: int) -> Model:
    """The model after this group."""
    model = Model(life.model.numbers)
    for number in range(1, group + 1):
        if rows := [row for row in life.log.known if row["group"] == number]:
            model.group(rows)
    return model


def test_any_moment_of_a_random_life_equals_the_model(place: Place) -> None:
    """The messages owed then, by time and by version, or that there was no subscription. As of now
    the state equals that of `cursors` and `pending`."""
    dice, life, versions = random.Random(5), Life(place.log, 5), {}
    while len(versions) < 12:
        life.live(groups=dice.randrange(3, 9))
        versions[DeltaTable(place.log.path).version()] = place.log.group
    place.materialize()
    asked: list[tuple[datetime | int, int]] = [
        (time_of(group), group) for group in dice.sample(range(5, place.log.group), 3)
    ]
    asked += dice.sample(sorted(versions.items()), 2)
    absent = 0
    for as_of, group in asked:
        model = model_as_of(life, group)
        name = f"global/s{dice.randrange(5)}"
        if name not in model.claims:
            absent += 1
            with pytest.raises(InvalidRequest, match=r"^There (?:was|is) no"):
                one(place, name, as_of)
            continue
        assert owed(place, name, as_of) == set(model.claims[name].owed)
    assert absent < len(asked)
    cursors = place.table("cursors")
    name = dice.choice(sorted(row.subscription for row in cursors.collect()))
    home, cursor = str(place.home.root), cursors.where(cursors.subscription == name)
    now = state(place.spark, home, name)
    assert_df_equality(now.select(*SAME), cursor.select(*SAME), **LOOSE)
    assert now.collect()[0].group >= cursor.collect()[0].group
    assert_df_equality(
        pending_as_of(place.spark, home, name).drop(*MAPS),
        pending(place.spark, home, name).drop(*MAPS),
        ignore_row_order=True,
        **LOOSE,
    )
    assert owed(place, name) == set(life.model.claims[name].owed)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A life told by hand: a group each for what its comment says."""
    place = Place(spark, tmp_path_factory.mktemp("told"))
    log = place.log
    log.next_group()  # 1: made
    log.subscribe("global/a", "flights")
    log.next_group()  # 2: three messages
    log.publish("flights", *(encoded(str(n)) for n in range(3)), expires_at=time_of(4))
    log.next_group()  # 3: the second one is done, the first one came back
    log.settle("global/a", "flights", [1], 0)
    log.settle("global/a", "flights", [0], 0, outcome="released")
    log.commit()
    log.next_group()  # 4: paused, with a policy
    log.subscribe("global/a", "flights", event="paused")
    log.rows[-1] |= {"paused": True, "policy": '{"lock_ms": 5}'}
    log.commit()
    log.next_group()  # 5: deleted
    log.subscribe("global/a", "flights", event="deleted")
    log.commit()
    log.group = 12  # the next day; made again
    log.subscribe("global/a", "flights", selector="n = 1")
    log.next_group()  # 13
    log.publish("flights", encoded(properties={"n": 1}), encoded(properties={"n": 2}))
    log.commit()
    log.next_group()  # 14: rewound to its last message
    log.subscribe("global/a", "flights", event="rewound", floor=4, selector="n = 1")
    log.next_group()  # 15: nothing that a table shows
    log.commit()
    place.materialize()
    return place


def test_a_state_says_what_it_was_then(told: Place) -> None:
    """Definition, floor, counts, the event before; the moment between two groups is the earlier
    one's, and what was settled in one life doesn't count in the next."""
    row = one(told, "a", time_of(3) + timedelta(seconds=5))
    assert (row.subscription, row.floor, row.settled_count, row.pending) == ("global/a", 0, 1, 2)
    assert {name: row[name] for name in OUTCOMES if row[name]} == {"accepted": 1, "released": 1}
    assert (row.group, row.event, row.paused, row.policy) == (3, "created", False, None)
    row = one(told, "a", time_of(4))
    assert (row.event, row.paused, row.policy) == ("paused", True, '{"lock_ms": 5}')
    assert (row.began, row.began_at) == ("created", time_of(1).astimezone().replace(tzinfo=None))
    assert row.pending == 2
    row = one(told, "a", time_of(13))
    assert (row.selector, row.floor, row.pending, row.accepted) == ("n = 1", 3, 1, 0)
    row = one(told, "a")
    assert (row.event, row.began, row.floor, row.pending) == ("rewound", "rewound", 4, 0)
    expired = pending_as_of(told.spark, str(told.home.root), "a", time_of(3)).collect()
    assert [one.expired for one in expired] == [False, False]
    expired = pending_as_of(told.spark, str(told.home.root), "a", time_of(4)).collect()
    assert [one.expired for one in expired] == [True, True]


def test_a_moment_that_cannot_be_told_is_one_sentence(told: Place) -> None:
    """No such subscription then, with when there was one; a version that isn't there yet, or isn't
    known; a time without a zone is UTC."""
    lived = f"from {time_of(1).isoformat()}, to {time_of(5).isoformat()}, from "
    for as_of in (time_of(0), time_of(7), time_of(7).replace(tzinfo=None)):
        with pytest.raises(InvalidRequest, match="no subscription global/a as of") as caught:
            one(told, "a", as_of)
        assert lived in str(caught.value)
    with pytest.raises(InvalidRequest, match="no durable subscription 'b'; there are: global/a"):
        one(told, "b", time_of(3))
    newest = max(row.log_version for row in told.table("log_versions").collect())
    assert one(told, "a", newest).group == 15
    with pytest.raises(InvalidRequest, match=f"Version {newest + 1} of topic_log isn't in the tab"):
        one(told, "a", newest + 1)
    with pytest.raises(InvalidRequest, match="the tables begin with version"):
        one(told, "a", -1)


def test_rows_that_were_removed_are_an_error_and_no_smaller_number(
    told: Place, tmp_path: Path
) -> None:
    """Messages owed on a removed day can't be told; those owed now can, with counts of outcomes
    that are null where some have gone."""
    shutil.copytree(told.places.tables, tmp_path / "tables")
    for name in ("messages", "acks"):
        table = DeltaTable(tmp_path / "tables" / name)
        table.alter.set_table_properties({REMOVED: "2026-11-22"}, raise_if_not_exists=False)
        table.delete("day < '2026-11-22'")
    with pytest.raises(InvalidRequest, match="from sequence 0 on, and what lies before 3"):
        state(told.spark, str(tmp_path), "a", time_of(3))
    [row] = state(told.spark, str(tmp_path), "a").collect()
    assert (row.pending, row.accepted) == (0, 0)
