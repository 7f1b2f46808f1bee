"""A client of Spark Connect reads the tables like any session; a function that needs the JVM says
so."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from gateway_process import Gateway, until
from pyspark.sql import DataFrame, SparkSession
from spark_connect import client
from spark_log import columns_text, encoded
from spark_place import Place, first_part, second_part
from test_subscriber import SETTINGS, Subscription, bodies

from distributary import (
    backlog,
    pending,
    pending_as_of,
    register,
    session,
    state,
    tables,
    topic_as_of,
)
from distributary.jobs.client.own_tables import require_own
from distributary.jobs.materialize import materialize
from distributary.jobs.session.job_settings import load
from distributary.jobs.subscription import drain
from distributary.jobs.subscription import register as register_source
from distributary.jobs.tables.delta_files import newest_version
from distributary.jobs.tables.writer_lock import writing
from distributary.jobs.upkeep import spark_upkeep
from distributary.jobs.views import audit_run
from distributary.pipeline.amqp.dead_letter import DeadLetterInfo, copy
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log.log_identity import LogIdentity, digest
from distributary.pipeline.model.outcome import Reason as GivenUp
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.typed.topic_tables import OWN
from distributary.pipeline.transforms.views.view_registry import VIEWS

ME = "global/dispatchers"
GIVEN_UP_US = 1_795_000_000_123_000
#: What a row says of now: it is another in each answer.
OF_NOW = {"age_seconds", "oldest_seconds"}
#: Hundreds of buckets: seconds for each session. One of them is asked below.
BACKLOGS = {"backlog", "backlog_minutes"}


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Three subscriptions, one with a selector and one of a pattern, fourteen messages, a dead
    letter and a schema: materialized by the session that has the JVM."""
    place = Place(spark, tmp_path_factory.mktemp("connect"))
    first_part(place)
    second_part(place)
    place.log.next_group()
    place.log.subscribe("global/few", "flights", selector="i > 3", floor=0)
    place.log.subscribe("global/all", "pattern://*")
    place.log.publish("flights", encoded("late", properties={"i": 9}))
    given_up = DeadLetterInfo("global/all", "flights", GivenUp.EXHAUSTED, 3, GIVEN_UP_US)
    place.log.publish("queue://DLQ.global/all", bytes(copy(encoded(), 4, given_up).data))
    unused = SchemaVersion("unused", 1, Format.JSON, '{"type": "object"}')
    place.log.schema("unused", text_of(unused, columns_text(unused.definition)))
    place.log.commit()
    place.materialize()
    return place


@pytest.fixture
def home(story: Place) -> str:
    return str(story.home.root)


def rows(found: DataFrame) -> Counter[tuple[str, ...]]:
    columns = [name for name in found.columns if name not in OF_NOW]
    return Counter(tuple(map(text_of_value, row)) for row in found.select(*columns).collect())


def text_of_value(value: object) -> str:
    """A map has no order."""
    return str(dict(sorted(value.items())) if isinstance(value, dict) else value)


def test_tables_and_views_have_the_same_rows(
    spark: SparkSession, connect_url: str, home: str
) -> None:
    """Each by its name in SQL."""
    names = [name for name in (*SCHEMAS, *VIEWS) if name not in BACKLOGS]
    register(spark, home)
    wanted = {name: rows(spark.table(name)) for name in names}
    with client(connect_url) as remote:
        register(remote, home)
        found = {name: rows(remote.table(name)) for name in names}
    assert found == wanted
    assert sum(found["pending"].values()) == 6 + 7 + 1
    assert all(found.values())


def test_what_is_owed_now_and_was_then(remote: SparkSession, home: str) -> None:
    """By a bitmap, by a selector, and as of a version of the log; and a topic's typed rows."""
    unused = topic_as_of(remote, home, "unused", as_of=datetime(2027, 1, 1, tzinfo=UTC))
    assert unused.columns == [*OWN.names, "value"]
    assert unused.count() == 0
    assert {row.sequence for row in pending(remote, home, ME).collect()} == {7, 8, 9, 10, 12, 13}
    assert pending(remote, home, "few").count() == 7
    [now] = state(remote, home, ME).collect()
    last = backlog(tables(remote, home), subscription=ME).orderBy("begins_at").tail(1)
    assert [row.owed for row in last] == [6]
    [then] = state(remote, home, ME, as_of=2).collect()
    assert (now.pending, then.pending, now.shared) == (6, 6, True)
    owed = pending_as_of(remote, home, ME, as_of=2).select("sequence").collect()
    assert {row.sequence for row in owed} == {2, 3, 5, 7, 8, 9}


def test_the_audit_has_views_of_its_own(remote: SparkSession, home: str, story: Place) -> None:
    """Checks that unpack bitmaps and match selectors; the client's own views stay."""
    remote.range(3).createOrReplaceTempView("messages")
    checks = ("lost", "cursors_differ")
    found = list(
        audit_run.build(remote, audit_run.Settings(str(story.home.cursors.parent), "", checks))
    )
    assert [(one.check.name, one.violations) for one in found] == [(name, 0) for name in checks]
    assert all(one.judged for one in found)
    assert remote.table("messages").count() == 3


def test_a_session_that_is_there_is_taken(remote: SparkSession) -> None:
    assert session() is remote


def test_no_tables_is_a_sentence(remote: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"There are no tables in .*materialize` first"):
        tables(remote, str(tmp_path))
    with pytest.raises(InvalidRequest, match=r"There are no tables in .*materialize` first"):
        register(remote, str(tmp_path))


def test_whose_log_lies_beside_the_tables(remote: SparkSession, story: Place) -> None:
    """Spark alone reads the entry."""
    folder = str(story.home.cursors.parent)
    entry = (story.home.topic_log / "_delta_log" / f"{2:020d}.json").read_bytes()
    require_own(remote, folder, LogIdentity("id", 2, digest(entry)), beside=True)
    require_own(remote, f"{folder}/cursors", LogIdentity("id", 2, digest(entry)), beside=False)
    for version, why in ((2, "is another one"), (99, "has no version 99")):
        with pytest.raises(StoreError, match=why):
            require_own(remote, folder, LogIdentity("id", version, "0"), beside=False)


NEED_THE_JVM: dict[str, Callable[[SparkSession, Path], object]] = {
    "materialize": lambda spark, home: materialize.once(spark, str(home)),
    "upkeep": lambda spark, home: spark_upkeep.run(spark, str(home / "tables"), load().upkeep),
    "a look at upkeep": lambda spark, home: spark_upkeep.plan(
        spark, str(home / "tables"), load().upkeep
    ),
    "a writer": lambda spark, home: writing(spark, str(home / "tables"), "job", 30).__enter__(),
    "what Delta says": lambda spark, home: newest_version(spark, str(home / "tables" / "acks")),
}


@pytest.mark.parametrize("what", NEED_THE_JVM)
def test_what_writes_needs_the_jvm(remote: SparkSession, story: Place, what: str) -> None:
    with pytest.raises(InvalidRequest, match="don't reach: run it where Spark runs"):
        NEED_THE_JVM[what](remote, story.home.root)


def test_a_query_of_a_client_is_a_consumer(
    connect_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Looking takes nothing; what a query writes by Delta's own sink is there once and settled. A
    batch of `foreachBatch` doesn't know its query, and says what to do."""
    with Gateway(tmp_path / "gateway", SETTINGS) as gateway, client(connect_url) as remote:
        mine = Subscription(gateway, "connected")
        mine.publish(range(50))
        assert mine.pending(remote).where("attempts = 0").count() == 50
        register_source(remote)
        owed = remote.readStream.format("subscription").options(**mine.options).load()
        query = (
            owed.select("sequence", "body_text")
            .writeStream.format("delta")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        query.awaitTermination()
        assert bodies(tmp_path) == list(range(50))
        until(mine.settled, "the last batch is settled")
        with pytest.raises(InvalidRequest, match=r"format\('delta'\)"):
            drain.append_once(remote.range(1), 0, str(tmp_path / "other"))
        gateway.stop()
        gateway.verified()
