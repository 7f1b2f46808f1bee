"""Consumers: what each gets of which subscription, the outcomes, and how long they take."""

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.transforms.schema.deliveries import each_once
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.lake_rows import of_logs

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

#: So many times to settle are told apart between one time and its double: steps of 1.1 %. Each step
#: of each consumer is a row of its own on the way: with three times as many the view took a third
#: longer.
STEPS = 64


def consumers(
    tables: Tables | Mapping[str, Tables],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """One row per subscription and consumer: its deliveries that were settled in the window from
    `since` to `until` (exclusive), what became of them, its share, throughput and times.

    Each delivery counts once (`pipeline.transforms.schema.deliveries`). Without a window it is all
    that there is. Of the tables of a lake's logs (`lake_tables`) it is the rows of all, with a
    column `log` in front. Cost: the days of `acks` in the window and those beside them, one pass.
    """
    if isinstance(tables, Tables):
        return _consumers(tables, since, until)
    return of_logs({log: _consumers(one, since, until) for log, one in tables.items()})


def _consumers(tables: Tables, since: datetime | None, until: datetime | None) -> DataFrame:
    settled = _window(each_once(_days(tables.acks, since, until)), since, until)
    # What a lost consumer held has the time of the loss for both: no time to settle.
    timed = ~F.col("outcome").isin("released", "lost")
    took_us = F.unix_micros("settled_at") - F.unix_micros("delivered_at")
    alike = (
        settled.withColumn("step", F.when(timed, _step(took_us)))
        .groupBy("subscription", "consumer", "outcome", "step")
        .agg(
            F.count("*").alias("n"),
            F.max(F.when(timed, took_us)).alias("longest_us"),
            F.min("delivered_at").alias("first_seen"),
            F.max("settled_at").alias("last_seen"),
        )
    )
    by_consumer = (
        alike.withColumns(_ranks())
        .groupBy("subscription", "consumer")
        .agg(
            F.sum("n").alias("deliveries"),
            *(
                F.coalesce(F.sum(F.when(F.col("outcome") == outcome, F.col("n"))), F.lit(0)).alias(
                    outcome
                )
                for outcome in OUTCOMES
            ),
            *(
                (F.min(F.when(_reaches(share), F.col("longest_us"))) / 1_000_000).alias(name)
                for share, name in PERCENTILES.items()
            ),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
        )
    )
    return by_consumer.select(
        "subscription",
        "consumer",
        "deliveries",
        *OUTCOMES,
        (F.col("deliveries") / F.sum("deliveries").over(_of_all())).alias("share"),
        F.try_divide("deliveries", _seconds(since, until)).alias("per_second"),
        *PERCENTILES.values(),
        "first_seen",
        "last_seen",
    )


def _step(us: Column) -> Column:
    """The number of the step that a time is in: there are few, whatever the number of times."""
    return F.floor(F.log2(F.greatest(us, F.lit(1))) * STEPS)


def _ranks() -> dict[str, Column]:
    """Of each time: how many of the consumer's took as long or less, and how many have a time."""
    mine = Window.partitionBy("subscription", "consumer")
    n = F.when(F.col("step").isNotNull(), F.col("n"))
    return {"_up_to": F.sum(n).over(mine.orderBy("step")), "_timed": F.sum(n).over(mine)}


def _reaches(share: float) -> Column:
    """Whether this share of the times is no longer than this one."""
    return F.col("step").isNotNull() & (F.col("_up_to") >= F.ceil(F.col("_timed") * share))


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
