"""Rows of `backlog` and `consumers` for homes that lack something or have very much."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_log import columns_text, encoded
from spark_place import Place, assert_rows, first_part

from distributary.pipeline.errors import InvalidRequest, NotInLog
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.transforms.materialize.settled import EXCEPTIONS_IN_MEMORY
from distributary.pipeline.transforms.schema.home_tables import Tables, find_tables
from distributary.pipeline.transforms.views import backlog as view
from distributary.pipeline.transforms.views.backlog import backlog
from distributary.pipeline.transforms.views.claiming import Claims
from distributary.pipeline.transforms.views.consumers import consumers
from distributary.pipeline.transforms.views.pending import pending_of_all
from distributary.pipeline.transforms.views.settled_sums import can_sum

ZONE = "spark.sql.session.timeZone"
LATE = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def settled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two subscriptions, one of them deleted; both have settled. No test changes it."""
    place = Place(spark, tmp_path_factory.mktemp("settled"))
    first_part(place)
    place.log.next_group()
    place.log.subscribe("container/c1/gone", "flights", event="deleted")
    place.log.commit()
    place.materialize()
    return place


@pytest.fixture
def tables(settled: Place) -> Tables:
    return find_tables(settled.spark, str(settled.home.root))


def far(near: Tables) -> Tables:
    """Such as only Spark reads, as of a cluster."""
    return replace(near, folder=f"file://{near.folder}")


def owed(found: DataFrame) -> dict[str, int]:
    return {row.subscription: row.owed for row in found.orderBy("begins_at").collect()}


@pytest.mark.parametrize("lives", [True, False])
def test_where_nothing_was_settled(place: Place, *, lives: bool) -> None:
    """All is owed, and no consumer had anything; nor where there is no message or subscription."""
    place.log.next_group()
    if lives:
        place.log.subscribe("global/all", "flights")
        place.log.publish("flights", encoded(), encoded())
    else:
        unused = SchemaVersion("unused", 1, Format.JSON, '{"type": "object"}')
        place.log.schema("unused", text_of(unused, columns_text(unused.definition)))
    place.log.commit()
    place.materialize()
    tables = find_tables(place.spark, str(place.home.root))
    assert owed(backlog(tables)) == ({"global/all": 2} if lives else {})
    assert consumers(tables).collect() == []


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[None]:
    """The zone of the session: Java knows its name, Python doesn't."""
    before = str(spark.conf.get(ZONE))
    spark.conf.set(ZONE, "UTC+3")
    yield
    spark.conf.set(ZONE, before)


@pytest.mark.usefixtures("zone")
def test_a_zone_that_only_java_knows(tables: Tables) -> None:
    """Times stay numbers where Python has them."""
    assert_rows(backlog(tables), backlog(far(tables)).collect())
    found = consumers(tables).collect()
    assert found
    assert_rows(consumers(far(tables)), found)


def test_a_subscription_that_never_was(tables: Tables) -> None:
    """One that was deleted has a past; of several logs those answer that know it."""
    assert owed(backlog(tables, subscription="container/c1/gone")) == {"container/c1/gone": 0}
    some = backlog({"main": tables, "other": tables}, subscription="container/c1/gone")
    assert {row.log for row in some.collect()} == {"main", "other"}
    there = "there are or were: container/c1/gone, global/dispatchers"
    for one in (tables, far(tables)):
        with pytest.raises(NotInLog, match=f"never was .* 'global/nope'; {there}"):
            backlog(one, subscription="global/nope")
    with pytest.raises(InvalidRequest, match=r"^Log main: There never .* Log other: There "):
        backlog({"main": tables, "other": tables}, subscription="global/nope")


def test_bitmaps_of_much_that_is_settled_stay_where_they_are(tables: Tables) -> None:
    """Beyond EXCEPTIONS_IN_MEMORY all is read as on a cluster, and says the same; so it is with
    what very many selectors select."""
    known = tables.known()
    claims = Claims.of(known)
    many = replace(claims, settled=EXCEPTIONS_IN_MEMORY + 1)
    assert can_sum(known, claims)
    assert not can_sum(known, many)
    selectors = frozenset(f"n = {n}" for n in range(300))
    assert can_sum(known, replace(claims, selectors=selectors))
    assert not can_sum(known, replace(claims, selectors=selectors, messages=7_000_000))
    history = view.History.of(known, many, pending_of_all(known, many))
    assert isinstance(history.stays, DataFrame)
    assert_rows(history.counted(view.Buckets(3_600_000_000)), backlog(tables).collect())


@pytest.mark.parametrize("near", [True, False])
def test_too_many_buckets(tables: Tables, *, near: bool) -> None:
    """The sentence is the same, whether the driver or a task finds it out."""
    some = tables if near else far(tables)
    narrow = timedelta(milliseconds=1)
    with pytest.raises(InvalidRequest, match="has more than 10000 buckets of"):
        backlog(some, width=narrow, since=LATE - timedelta(seconds=11), until=LATE)
    with pytest.raises(PySparkException) as error:
        backlog(some, width=narrow).collect()
    said = str(error.value)
    assert error.value.getCondition() == "USER_RAISED_EXCEPTION"
    assert "There are more than 10000 buckets of this width: make them wider, or say since" in said
    assert len(said.splitlines()) == 1
