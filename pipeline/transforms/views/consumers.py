"""Consumers: what each gets of which subscription, the outcomes, and how long they take."""

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.transforms.schema.deliveries import each_once
from distributary.pipeline.transforms.schema.home_tables import Tables

#: What can become of a delivery to a consumer; a column each.
OUTCOMES = (
    "accepted",
    "rejected",
    "released",
    "lost",
    "modified",
    "dead_lettered",
    "expired",
    "dropped",
)

#: Percentile -> its column.
PERCENTILES = {0.5: "settle_seconds_p50", 0.9: "settle_seconds_p90", 0.99: "settle_seconds_p99"}

#: A percentile's rank is off by 1 / this at most.
ACCURACY = 10_000


def consumers(
    tables: Tables, *, since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    """One row per subscription and consumer: its deliveries that were settled in the window from
    `since` to `until` (exclusive), what became of them, its share, throughput and times.

    Each delivery counts once (`pipeline.transforms.schema.deliveries`). Without a window it is all
    that there is. Cost: the days of `acks` in the window and those beside them, one pass.
    """
    settled = _window(each_once(_days(tables.acks, since, until)), since, until)
    took = (F.unix_micros("settled_at") - F.unix_micros("delivered_at")) / 1_000_000
    # What a lost consumer held has the time of the loss for both: no time to settle.
    timed = F.when(~F.col("outcome").isin("released", "lost"), took)
    by_consumer = settled.groupBy("subscription", "consumer").agg(
        F.count("*").alias("deliveries"),
        *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES),
        F.percentile_approx(timed, list(PERCENTILES), ACCURACY).alias("percentiles"),
        F.min("delivered_at").alias("first_seen"),
        F.max("settled_at").alias("last_seen"),
    )
    return by_consumer.select(
        "subscription",
        "consumer",
        "deliveries",
        *OUTCOMES,
        (F.col("deliveries") / F.sum("deliveries").over(_of_all())).alias("share"),
        F.try_divide("deliveries", _seconds(since, until)).alias("per_second"),
        *(F.col("percentiles")[nth].alias(name) for nth, name in enumerate(PERCENTILES.values())),
        "first_seen",
        "last_seen",
    )


def _of_all() -> WindowSpec:
    return Window.partitionBy("subscription")


def _days(acks: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    """By the partition, so that no other day is read; of a delivery that has two rows the second
    one may lie on the next day."""
    if since is not None:
        acks = acks.where(F.col("day") >= F.date_sub(_utc_day(F.lit(since)), 1))
    if until is not None:
        acks = acks.where(F.col("day") <= F.date_add(_utc_day(F.lit(until)), 1))
    return acks


def _window(settled: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    if since is not None:
        settled = settled.where(F.col("settled_at") >= F.lit(since))
    if until is not None:
        settled = settled.where(F.col("settled_at") < F.lit(until))
    return settled


def _seconds(since: datetime | None, until: datetime | None) -> Column:
    """The length of the window; where it is open, from the subscription's first delivery, to its
    last settlement."""
    begin = F.min("first_seen").over(_of_all()) if since is None else F.lit(since)
    end = F.max("last_seen").over(_of_all()) if until is None else F.lit(until)
    return (F.unix_micros(end) - F.unix_micros(begin)) / 1_000_000


def _utc_day(at: Column) -> Column:
    """The UTC day of a time, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_micros(at) / 86_400_000_000).cast("int"))
