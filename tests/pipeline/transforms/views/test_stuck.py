"""Why a message is still owed: each reason, with a gateway's word and without."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import Row, SparkSession
from spark_log import BEGIN, encoded
from spark_place import Place, assert_rows
from test_tables_page import columns, word_of

from distributary.pipeline.amqp.dead_letter import DeadLetterInfo, copy
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.live_state import Held, Live, LiveConsumer, LiveSubscription
from distributary.pipeline.model.outcome import Reason as GivenUp
from distributary.pipeline.transforms.schema.home_tables import Tables, find_tables
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES
from distributary.pipeline.transforms.views.stuck import Reason, stuck, stuck_summary
from distributary.pipeline.transforms.views.view_registry import VIEWS, register

LATER = BEGIN + timedelta(days=365 * 100)
SINCE = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
IDLE = "container/c1/idle"
DEAD_LETTERS = "queue://DLQ.global/gone"
GIVEN_UP_US = 1_795_000_000_123_000
DEAD = (
    *("sequence", "topic", "message_id", "subscription", "origin_topic", "origin_sequence"),
    *("reason", "attempts", "given_up_at"),
)
#: Subscriptions to one topic, by what the gateway will say of them.
STATES = ("flowing", "dry", "paused", "alone", "behind", "gone")


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Messages 0 to 7 wait for reasons of their own, in several subscriptions; one more is paused
    and owed two of them, another one of another topic. One home for all tests: none of them changes
    what another one asks."""
    place = Place(spark, tmp_path_factory.mktemp("stuck"))
    log = place.log
    log.next_group()
    for state in STATES:
        log.subscribe(f"global/{state}", "orders")
    log.subscribe(IDLE, "orders", selector="n > 5")
    log.subscribe("global/other", "other")
    log.publish("orders", encoded(), expires_at=BEGIN - timedelta(days=3650))
    log.publish("orders", encoded(), deliver_at=LATER)
    log.publish("orders", *(encoded(group_id="g") for _ in range(2)))
    log.publish("orders", *(encoded(properties={"n": n}) for n in range(4, 8)))
    log.publish("other", encoded())
    given_up = DeadLetterInfo("global/gone", "orders", GivenUp.EXHAUSTED, 3, GIVEN_UP_US)
    log.publish(DEAD_LETTERS, bytes(copy(encoded(id="m"), 4, given_up).data), encoded())
    log.next_group()
    for state in STATES:
        log.settle(f"global/{state}", "orders", [4], 0, outcome="modified", delivery_count=2)
    log.subscribe(IDLE, "orders", event="paused", selector="n > 5")
    log.known[-1]["paused"] = True
    log.known[-1]["policy"] = '{"delivery_attempts_max": 5}'
    log.commit()
    place.materialize()
    return place


@pytest.fixture
def tables(place: Place) -> Tables:
    return find_tables(place.spark, str(place.home.root))


def said(state: str) -> LiveSubscription:
    """A gateway's answer about a subscription; its one consumer holds message 2."""
    credit = 0 if state == "dry" else 5
    consumer = LiveConsumer("w/orders", credit, active=True, in_flight=1, oldest_delivered_at=None)
    held = Held(2, "w/orders", int(SINCE.timestamp() * 1e6), 0)
    alone = state == "alone"
    return LiveSubscription(
        f"global/{state}",
        paused=state == "paused",
        floor=5 if state == "behind" else 0,
        backlog=11 if state == "flowing" else 0,
        attempts_max=10,
        consumers=() if alone else (consumer,),
        held=() if alone else (held,),
    )


LIVE = Live(0, tuple(said(state) for state in STATES if state != "gone"))


def by_subscription(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.sequence):
        found[row.subscription.rpartition("/")[2]].append(row)
    return found


def test_each_message_has_the_reason_that_comes_first(tables: Tables) -> None:
    """First come reasons of the message alone, then those that hold its whole subscription up, then
    those that hold it up for a while. The reason is told in words, and counted."""
    found = by_subscription(stuck(tables, LIVE).collect())
    reasons = {name: [row.reason for row in rows] for name, rows in found.items()}
    first = [Reason.EXPIRED, Reason.DELAYED]
    held, waits = [*first, Reason.IN_FLIGHT], [Reason.WAITING] * 3
    assert reasons["flowing"] == [*held, Reason.GROUP, Reason.POISON, *waits]
    assert reasons["dry"] == [*held, *[Reason.NO_CREDIT] * 5]
    assert reasons["paused"] == [*held, *[Reason.PAUSED] * 5]
    assert reasons["alone"] == [*first, *[Reason.NOBODY] * 6]
    assert reasons["behind"] == [*[Reason.SETTLED] * 5, *waits]
    assert reasons["gone"] == [Reason.GONE] * 8

    rows = found["flowing"]
    assert [row.detail for row in rows[:6]] == [
        "expired at 2016-11-23T23:59:00Z, not settled",
        "delayed until 2126-10-28T23:59:00Z",
        "in flight since 2026-11-22T08:30:00Z by consumer w/orders",
        "a consumer holds another message of group g",
        "poison: 3 failures of at most 10",
        Reason.WAITING,
    ]
    assert (rows[2].consumer, rows[2].since.astimezone(UTC)) == ("w/orders", SINCE)
    assert (rows[4].failures, rows[4].attempts_max) == (3, 10)
    assert rows[5].age_seconds > 0


def test_the_summary_counts_and_gives_an_example(tables: Tables) -> None:
    """By subscription and reason; and what the gateway has beyond the tables. Without a gateway
    the tables say what they know."""
    found = stuck_summary(tables, LIVE, "flowing").where("subscription LIKE '%flow%'")
    counted = found.select("reason", "messages", "example")
    wanted = [
        (Reason.EXPIRED, 1, 0),
        (Reason.DELAYED, 1, 1),
        (Reason.IN_FLIGHT, 1, 2),
        (Reason.GROUP, 1, 3),
        (Reason.POISON, 1, 4),
        (Reason.WAITING, 3, 5),
        (Reason.NOT_MATERIALIZED, 3, None),
    ]
    assert_rows(counted, wanted)
    alone = stuck(tables, None, "global/alone").collect()
    assert [row.reason for row in sorted(alone, key=lambda row: row.sequence)] == [
        *(Reason.EXPIRED, Reason.DELAYED, Reason.NOT_SETTLED, Reason.NOT_SETTLED),
        *(Reason.POISON, Reason.NOT_SETTLED, Reason.NOT_SETTLED, Reason.NOT_SETTLED),
    ]
    with pytest.raises(InvalidRequest, match="no durable subscription 'x'"):
        stuck(tables, None, "x")


def test_all_is_there_in_sql(place: Place, tables: Tables) -> None:
    """The tables and the views by their names, as they are when they are asked."""
    spark = tables.spark
    register(spark, tables.folder)
    summary = "SELECT * FROM stuck_summary WHERE subscription IN ('global/other', '{}')"
    found = spark.sql(summary.format(IDLE)).select("subscription", "reason", "messages")
    wanted = [(IDLE, "paused", 2), ("global/other", "not settled", 1)]
    assert_rows(found, wanted)
    for view in VIEWS:
        fields = [(field.name, word_of(field.dataType)) for field in spark.table(view).schema]
        if view == "pending":
            assert [name for name, _ in fields[1:-2]] == MESSAGES.names
            fields = fields[-2:]
        assert fields == [(row[0].strip("`"), row[1]) for row in columns(view)]
    dead = spark.sql("SELECT * FROM dead_letters").select(*DEAD)
    given_up_at = datetime.fromtimestamp(GIVEN_UP_US / 1_000_000, UTC)
    wanted = [(9, DEAD_LETTERS, "m", "global/gone", "orders", 4, "exhausted", 3, given_up_at)]
    assert [(*row[:-1], row[-1].astimezone(UTC)) for row in dead.collect()] == wanted
    count = "SELECT owed FROM backlog WHERE subscription = 'global/other' ORDER BY begins_at DESC"
    assert spark.sql(count).first().owed == 1
    assert spark.sql("SELECT sum(modified) AS n FROM consumers").first().n == 6
    assert spark.sql("SELECT count(*) AS n FROM subscriptions").first().n == 9
    place.log.next_group()
    place.log.publish("other", encoded())
    place.log.commit()
    place.materialize()
    other = "SELECT * FROM pending WHERE subscription = 'global/other'"
    assert spark.sql(other).count() == 2
