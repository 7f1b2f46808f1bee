"""A subscription as of a time or a version of the log: from rows, however long ago that is.

Rule 1: the owed messages follow from three facts alone: the floor with which the incarnation of
        that time began, the messages of its topic from there on that it claimed, and those settled
        by then (`pipeline.transforms.materialize.cursors`, rules 1 and 2).
Rule 2: a state is as of a group. As of the newest it is what `cursors` and `pending` say.
Rule 3: if rows that it takes have been removed, the result is an error, and no smaller number.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import (
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from distributary.pipeline.errors import InvalidRequest, NotInLog
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.transforms.past.moment import AsOf, Moment, moment
from distributary.pipeline.transforms.schema.claimed_topics import is_of
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.incarnations import DECISIVE
from distributary.pipeline.transforms.schema.lake_rows import Found, found_in
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES
from distributary.pipeline.transforms.selector.selecting import selects
from distributary.pipeline.transforms.views.pending import meant

#: Each has a count of its own in a state.
OUTCOMES = tuple(outcome.value for outcome in Outcome)

#: Upkeep writes here, on `messages` and `acks`, the first day of which rows may still be there.
REMOVED = "distributary.removedBefore"

STATE = StructType(
    [
        StructField("subscription", StringType()),
        StructField("topic", StringType()),
        StructField("selector", StringType()),
        StructField("shared", BooleanType()),
        StructField("no_local", BooleanType()),
        StructField("paused", BooleanType()),
        StructField("policy", StringType()),
        StructField("began", StringType()),
        StructField("began_at", TimestampType()),
        StructField("event", StringType()),
        StructField("event_at", TimestampType()),
        StructField("floor", LongType()),
        StructField("settled_count", LongType()),
        StructField("pending", LongType()),
        *(StructField(outcome, LongType()) for outcome in OUTCOMES),
        StructField("group", LongType()),
        StructField("log_version", LongType()),
    ]
)


@dataclass(frozen=True, slots=True)
class Life:
    """One incarnation as of a moment: what it was, and what its settlements come to."""

    subscription: str
    began: Row  #: the event with which it began
    last: Row  #: its last event by then
    floor: int
    outcomes: Row  #: how many settlements of each
    at: Moment


def state(spark: SparkSession, place: str, subscription: str, as_of: AsOf = None) -> DataFrame:
    """One row: the definition, the floor, what is owed and what was settled, as of `as_of`.

    `place` is the folder of Spark's tables or the home above it, `subscription` an id or a bare
    name that only one subscription ever had; `as_of` a time (UTC if it doesn't say otherwise), a
    version of topic_log, or None for now. Of a lake it is a row for each log that had the
    subscription then, with a column `log` in front; `as_of` is no version then. Raises
    InvalidRequest when there is or was no such subscription then, or when the tables don't have
    that moment, yet or any more.

    Cost: the acks of the incarnation up to then, and what `pending_as_of` costs.
    """

    def found(tables: Tables) -> Found:
        return _state(tables, subscription, as_of)

    return found_in(spark, place, found, by_version=isinstance(as_of, int))


def _state(tables: Tables, subscription: str, as_of: AsOf) -> Found:
    life = _life(tables, subscription, moment(tables, as_of))
    complete = not _acks_removed(tables, life)
    began, last, group = life.began, life.last, life.at.group
    versions = tables.log_versions.where(F.col("group") <= group)
    said: dict[str, object] = {
        "subscription": life.subscription,
        "topic": began.topic,
        "selector": began.selector,
        "shared": last.shared,
        "no_local": last.no_local,
        "paused": last.paused,
        "policy": last.policy,
        "began": began.event,
        "began_at": began.recorded_at,
        "event": last.event,
        "event_at": last.recorded_at,
        "floor": life.floor,
        "settled_count": _settled(tables, life).agg(F.count("*")).scalar(),
        "pending": _owed(tables, life).agg(F.count("*")).scalar(),
        **{one: life.outcomes[one] if complete else None for one in OUTCOMES},
        "group": group,
        "log_version": versions.agg(F.max("log_version")).scalar(),
    }
    rows = tables.spark.range(1).select(
        *(_column(said[field.name]).cast(field.dataType).alias(field.name) for field in STATE)
    )
    return life.subscription, rows


def pending_as_of(
    spark: SparkSession, place: str, subscription: str, as_of: AsOf = None
) -> DataFrame:
    """The rows of `messages` that a subscription was owed as of then, with the columns of
    `pending`: `expired` and `delayed` are as of then, too. Arguments and errors as of `state`.

    Cost: the files of the topic from the floor of then on, and the acks of the incarnation.
    """

    def found(tables: Tables) -> Found:
        life = _life(tables, subscription, moment(tables, as_of))
        now = life.at.now
        rows = _owed(tables, life).select(
            *MESSAGES.names,
            F.coalesce(F.col("expires_at") <= now, F.lit(False)).alias("expired"),
            F.coalesce(F.col("deliver_at") > now, F.lit(False)).alias("delayed"),
        )
        return life.subscription, rows

    return found_in(spark, place, found, by_version=isinstance(as_of, int))


def _column(value: object) -> Column:
    return value if isinstance(value, Column) else F.lit(value)


def _life(tables: Tables, subscription: str, at: Moment) -> Life:
    events = _events(tables, subscription)
    began = _beginning(events, at)
    name = began.subscription
    last = [one for one in events if began.group <= one.group <= at.group][-1]
    mine = (F.col("subscription") == name) & F.col("group").between(began.group + 1, at.group)
    counts = [F.count_if(F.col("outcome") == one).alias(one) for one in OUTCOMES]
    sums = tables.acks.where(mine).agg(F.max("floor").alias("highest"), *counts)
    first = tables.messages.agg(F.min(F.struct("sequence", "day")).alias("first"))
    [row] = sums.crossJoin(first).collect()
    floor = max(began.floor, row.highest or 0)
    # What is owed now is never removed; what was owed once may be.
    if not at.newest and row.first is not None and row.first.sequence > floor:
        raise InvalidRequest(
            f"As of {at.said} {name} was owed messages from sequence {floor} on, and what lies "
            f"before {row.first.sequence} ({row.first.day}) is in the tables no more."
        )
    return Life(name, began, last, floor, row, at)


def _events(tables: Tables, subscription: str) -> list[Row]:
    """All events of the one subscription that is meant; of one group the one that counts last."""
    known = tables.subscriptions
    events = known.where(
        (F.col("subscription") == subscription)
        | F.col("subscription").endswith("/" + quote(subscription, safe=""))
    ).collect()
    if len({one.subscription for one in events}) != 1:
        ever = known.select("subscription").distinct().collect()
        name = meant([one.subscription for one in ever], subscription)
        events = [one for one in events if one.subscription == name]
    return sorted(events, key=lambda one: (one.group, one.event != SubscriptionEvent.DELETED))


def _beginning(events: list[Row], at: Moment) -> Row:
    """The event with which the incarnation of that moment began."""
    decisive = [one for one in events if one.group <= at.group and one.event in DECISIVE]
    if decisive and decisive[-1].event != SubscriptionEvent.DELETED:
        return decisive[-1]
    stretches: list[str] = []
    for one in [one for one in events if one.event in DECISIVE]:
        if one.event == SubscriptionEvent.DELETED:
            stretches.append(f"to {_utc(one.recorded_at)}")
        elif not stretches or stretches[-1].startswith("to"):
            stretches.append(f"from {_utc(one.recorded_at)}")
    raise NotInLog(
        f"There was no subscription {events[0].subscription} as of {at.said} (group {at.group}). "
        f"It lived {', '.join(stretches)}."
    )


def _owed(tables: Tables, life: Life) -> DataFrame:
    """Columns of `messages`."""
    mine = (
        is_of(life.began.topic)
        & (F.col("sequence") >= life.floor)
        & (F.col("group") <= life.at.group)
    )
    selected = tables.messages.where(mine).where(selects(life.began.selector))
    return selected.join(_settled(tables, life), on="sequence", how="left_anti")


def _settled(tables: Tables, life: Life) -> DataFrame:
    """Return the sequences from the floor on that were settled by then."""
    return (
        tables.acks.where(F.col("subscription") == life.subscription)
        .where(F.col("group").between(life.began.group + 1, life.at.group) & F.col("final"))
        .where(F.col("sequence") >= life.floor)
        .select("sequence")
        .distinct()
    )


def _acks_removed(tables: Tables, life: Life) -> bool:
    """Whether some of its outcomes aren't in the tables any more."""
    return removed_before(tables, "acks") > _day(life.began.recorded_at)


def removed_before(tables: Tables, name: str) -> str:
    """The first day of which rows of a table may still be there; empty if none were removed."""
    table = f"delta.`{tables.folder}/{name}`"
    properties = tables.spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return next((str(row.value) for row in properties if row.key == REMOVED), "")


def _day(time: datetime) -> str:
    return time.astimezone(UTC).date().isoformat()


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
