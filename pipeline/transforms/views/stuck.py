"""Reasons why messages are still owed.

The tables have settlements, failures, delays and expiries. Connected consumers and the messages in
flight to them are in no table: the gateway reports them (`pipeline.management.live_state`), and
the caller passes the report in. Without it, a message that the tables don't explain has the reason
NOT_SETTLED.

Rule: the reason is the first of REASONS that holds. Reasons of the message that hold in any case
      come first, then reasons that keep all of a subscription's messages, then temporary ones of
      the message.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from distributary.pipeline.management.live_state import Live
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.views.claiming import Claims
from distributary.pipeline.transforms.views.pending import find, owed, pending_of_all


class Reason(StrEnum):
    """Why a message is still owed, as it stands in the column `reason`."""

    GONE = "subscription deleted"  #: by the gateway's word; the tables don't know yet
    SETTLED = "settled, not yet materialized"
    IN_FLIGHT = "in flight"
    EXPIRED = "expired, not yet settled"
    DELAYED = "delayed"
    PAUSED = "paused"
    NOBODY = "nobody connected"
    NO_CREDIT = "no credit"
    GROUP = "held back by its group"
    POISON = "poison"
    WAITING = "waits for its turn"
    NOT_SETTLED = "not settled"
    NOT_MATERIALIZED = "not yet materialized"  #: only in the summary: the tables lack the messages


#: Of a message what is in the words of a reason, and what of it only a gateway can say.
_DETAILED = ("expires_at", "deliver_at", "failures")
_LIVE = {"_since": "timestamp", "_consumer": "string", "group_id": "string"}


def _columns(*columns: tuple[str, type]) -> StructType:
    return StructType([StructField(name, kind()) for name, kind in columns])


_SUBSCRIPTION = _columns(
    ("_subscription", StringType),
    ("_paused", BooleanType),
    ("_floor", LongType),
    ("_backlog", LongType),
    ("_attempts_max", IntegerType),
    ("_consumers", IntegerType),
    ("_credit", LongType),
)
_HELD = _columns(
    ("_subscription", StringType),
    ("_sequence", LongType),
    ("_consumer", StringType),
    ("_since", TimestampType),
    ("_failures", IntegerType),
)


def stuck(tables: Tables, live: Live | None = None, subscription: str | None = None) -> DataFrame:
    """One row per message that is owed: `subscription`, `topic`, `sequence`, `message_id`,
    `published_at`, `age_seconds`, the `reason` and its `detail` in words, the `consumer` that holds
    it `since` when, the `failures` that it has behind it of at most `attempts_max`.

    `live` is what a gateway says; only its subscriptions are looked at. `subscription` is an id or
    bare name, to look at it alone. Raises InvalidRequest when there is no such subscription.

    Cost: that of `pending`, of the columns of headers alone, and a join with what is in flight.
    """
    return listed(_told(tables, live, subscription))


def listed(told: DataFrame) -> DataFrame:
    """The columns of `stuck` of what `explained` says."""
    age = (F.unix_micros(F.current_timestamp()) - F.unix_micros("published_at")) / 1_000_000
    return told.select(
        *("subscription", "topic", "sequence", "message_id", "published_at"),
        age.alias("age_seconds"),
        "reason",
        _detail().alias("detail"),
        F.col("_consumer").alias("consumer"),
        F.col("_since").alias("since"),
        "failures",
        F.col("_attempts_max").alias("attempts_max"),
    )


def explained(tables: Tables, owed: DataFrame, cursors: DataFrame, live: Live | None) -> DataFrame:
    """Return the `owed` messages (rows of `pending` with a `subscription`) with their `reason` and
    the columns that explain it."""
    rows = owed.select(
        *("subscription", "topic", "sequence", "message_id", "published_at"),
        *("group_id", "expires_at", "deliver_at", "expired", "delayed"),
    )
    rows = _with_live(rows, live) if live is not None else _with_tables(rows, tables)
    failed = F.greatest(F.coalesce("_failures", F.lit(0)), F.coalesce("failures", F.lit(0)))
    return (
        rows.join(F.broadcast(_failures(cursors)), on=["subscription", "sequence"], how="left")
        .withColumn("failures", failed)
        .withColumn("reason", _reason(known=live is not None))
    )


def stuck_summary(
    tables: Tables, live: Live | None = None, subscription: str | None = None
) -> DataFrame:
    """One row per subscription and reason: how many `messages`, when the oldest was published
    (`oldest_at`, `oldest_seconds`), and the first of them as an `example` with its `detail`.

    What a gateway has and the tables lack is a row of its own, without an example."""
    return summed(_told(tables, live, subscription), live)


def summed(told: DataFrame, live: Live | None) -> DataFrame:
    """The rows of `stuck_summary` of what `explained` says."""
    # What `_detail` reads of the example, and of what only a gateway says nothing where there is
    # none: texts, too, so that rows have a fixed size and are summed up where they are, unsorted.
    example = [*_DETAILED, *(() if live is None else _LIVE)]
    found = told.groupBy("subscription", "reason").agg(
        F.count("*").alias("messages"),
        F.min("published_at").alias("oldest_at"),
        F.min("sequence").alias("example"),
        F.max("_attempts_max").alias("_attempts_max"),
        *(F.min_by(name, "sequence").alias(name) for name in example),
    )
    if live is None:
        nothing = {name: F.lit(None).cast(kind) for name, kind in _LIVE.items()}
        found = found.withColumns(nothing)
    age = (F.unix_micros(F.current_timestamp()) - F.unix_micros("oldest_at")) / 1_000_000
    rows = found.select(
        *("subscription", "reason", "messages", "oldest_at"),
        age.alias("oldest_seconds"),
        "example",
        _detail().alias("detail"),
    )
    if live is None:
        return rows
    return rows.unionByName(_lacking(rows, live), allowMissingColumns=True)


def _told(tables: Tables, live: Live | None, subscription: str | None) -> DataFrame:
    if subscription is None:
        claims = Claims.of(tables)
        return explained(tables, pending_of_all(tables, claims), claims.cursors, live)
    cursor = find(tables, subscription)
    rows = owed(tables.messages, cursor).withColumn("subscription", F.lit(cursor.subscription))
    return explained(tables, rows, tables.cursors, live)


def _failures(cursors: DataFrame) -> DataFrame:
    return cursors.select("subscription", F.explode("failures").alias("one")).select(
        "subscription", "one.sequence", "one.failures"
    )


def _with_tables(rows: DataFrame, tables: Tables) -> DataFrame:
    """Add the facts from the tables: the last event has the pause and the policy."""
    last = (
        tables.subscriptions.coalesce(1)  # a few rows of each: nothing is moved
        .groupBy(F.col("subscription").alias("_subscription"))
        .agg(F.max_by(F.struct("paused", "policy"), "group").alias("last"))
        .select(
            "_subscription",
            F.coalesce("last.paused", F.lit(False)).alias("_paused"),
            F.get_json_object("last.policy", "$.delivery_attempts_max")
            .cast("int")
            .alias("_attempts_max"),
        )
    )
    return rows.join(
        F.broadcast(last), on=F.col("subscription") == F.col("_subscription"), how="left"
    ).withColumns(
        {
            "_consumer": F.lit(None).cast("string"),
            "_since": F.lit(None).cast("timestamp"),
            "_failures": F.lit(None).cast("int"),
        }
    )


def _with_live(rows: DataFrame, live: Live) -> DataFrame:
    spark = rows.sparkSession
    held = _held(spark, live)
    mine = F.col("subscription") == F.col("_subscription")
    known = rows.join(F.broadcast(_subscriptions(spark, live)), on=mine, how="left")
    here = (F.col("subscription") == F.col("h._subscription")) & (
        F.col("sequence") == F.col("h._sequence")
    )
    joined = known.join(F.broadcast(held.alias("h")), on=here, how="left").drop(
        F.col("h._subscription"), F.col("h._sequence")
    )
    return _with_groups(joined)


def _with_groups(rows: DataFrame) -> DataFrame:
    """`_group_held`: whether a consumer holds another message of this one's group."""
    groups = (
        rows.where(F.col("_consumer").isNotNull() & F.col("group_id").isNotNull())
        .select(F.col("subscription").alias("_of"), F.col("group_id").alias("_group_id"))
        .distinct()
    )
    same = (F.col("subscription") == F.col("_of")) & (F.col("group_id") == F.col("_group_id"))
    return (
        rows.join(F.broadcast(groups), on=same, how="left")
        .withColumn("_group_held", F.col("_of").isNotNull())
        .drop("_of", "_group_id")
    )


def _reason(*, known: bool) -> Column:
    """Return the first reason that holds."""
    rules: list[tuple[Reason, Column]] = [
        (Reason.EXPIRED, F.col("expired")),
        (Reason.DELAYED, F.col("delayed")),
        (Reason.PAUSED, F.col("_paused")),
    ]
    if known:
        rules = [
            (Reason.GONE, F.col("_subscription").isNull()),
            (Reason.SETTLED, F.col("sequence") < F.col("_floor")),
            (Reason.IN_FLIGHT, F.col("_consumer").isNotNull()),
            *rules,
            (Reason.NOBODY, F.col("_consumers") == 0),
            (Reason.NO_CREDIT, F.col("_credit") == 0),
            (Reason.GROUP, F.col("_group_held")),
        ]
    rules.append((Reason.POISON, F.col("failures") > 0))
    last = Reason.WAITING if known else Reason.NOT_SETTLED
    return _chosen(((condition, F.lit(reason.value)) for reason, condition in rules), last.value)


def _detail() -> Column:
    """The reason in words, with what belongs to it."""
    at_most = F.coalesce(F.concat(F.lit(" of at most "), "_attempts_max"), F.lit(""))
    said = {
        Reason.IN_FLIGHT: F.concat(
            F.lit("in flight"),
            F.coalesce(F.concat(F.lit(" since "), _text("_since")), F.lit("")),
            F.lit(" by consumer "),
            "_consumer",
        ),
        Reason.EXPIRED: F.concat(F.lit("expired at "), _text("expires_at"), F.lit(", not settled")),
        Reason.DELAYED: F.concat(F.lit("delayed until "), _text("deliver_at")),
        Reason.POISON: F.concat(F.lit("poison: "), "failures", F.lit(" failures"), at_most),
        Reason.GROUP: F.concat(F.lit("a consumer holds another message of group "), "group_id"),
        Reason.NOT_SETTLED: F.lit("who is connected isn't in the tables: ask with a gateway"),
    }
    return _chosen(
        ((F.col("reason") == reason.value, text) for reason, text in said.items()), F.col("reason")
    )


def _chosen(rules: Iterable[tuple[Column, Column]], otherwise: Column | str) -> Column:
    chosen: Column | None = None
    for condition, value in rules:
        chosen = F.when(condition, value) if chosen is None else chosen.when(condition, value)
    assert chosen is not None  # noqa: S101
    return chosen.otherwise(otherwise)


def _text(column: str) -> Column:
    """A time in UTC, whatever the session's time zone is."""
    utc = F.to_utc_timestamp(column, F.current_timezone())
    return F.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss'Z'")


def _subscriptions(spark: SparkSession, live: Live) -> DataFrame:
    rows = [
        (
            one.subscription,
            one.paused,
            one.floor,
            one.backlog,
            one.attempts_max or None,
            len(one.consumers),
            sum(consumer.credit for consumer in one.consumers if consumer.active),
        )
        for one in live.subscriptions
    ]
    return spark.createDataFrame(rows, _SUBSCRIPTION)


def _held(spark: SparkSession, live: Live) -> DataFrame:
    rows = [
        (
            one.subscription,
            held.sequence,
            held.consumer,
            _time(held.delivered_at),
            held.delivery_count,
        )
        for one in live.subscriptions
        for held in one.held
    ]
    return spark.createDataFrame(rows, _HELD)


def _lacking(summed: DataFrame, live: Live) -> DataFrame:
    """Return the messages that the gateway has and the tables lack."""
    known = (
        summed.where(F.col("reason") != Reason.SETTLED.value)
        .groupBy(F.col("subscription").alias("_known"))
        .agg(F.sum("messages").alias("messages"))
    )
    behind = F.col("_backlog") - F.coalesce("messages", F.lit(0))
    return (
        _subscriptions(summed.sparkSession, live)
        .join(known, on=F.col("_subscription") == F.col("_known"), how="left")
        .select(
            F.col("_subscription").alias("subscription"),
            F.lit(Reason.NOT_MATERIALIZED.value).alias("reason"),
            behind.alias("messages"),
            F.lit("at most; the tables don't have them yet").alias("detail"),
        )
        .where(F.col("messages") > 0)
    )


def _time(at: int | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at / 1_000_000, UTC)
