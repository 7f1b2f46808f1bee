"""Consumers: what each gets of which subscription, the outcomes, and how long they take."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.transforms.schema.deliveries import PAIR, each_once
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.lake_rows import of_logs
from distributary.pipeline.transforms.views.consumer_sums import (
    CONSUMERS,
    OUTCOMES,
    PARTIAL,
    PERCENTILES,
    READ,
    DeliverySums,
    merged,
)
from distributary.pipeline.transforms.views.file_sums import Reading, summed, within_reach

#: Of a delivery that has two rows the second one may lie on the next day.
_DAY: Final = timedelta(days=1)


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
    acks, sums = _days(tables.acks, since, until), DeliverySums(since, until)
    if within_reach(tables):
        one = tables.spark.range(1)
        days = (None if at is None else at.astimezone(UTC).date() for at in (since, until))
        first, last = (at and at + more for at, more in zip(days, (-_DAY, _DAY), strict=True))
        reading = Reading(f"{tables.folder}/acks", READ, first, last)
        alone = DeliverySums(since, until, PAIR)
        parts = summed(one, reading, alone, PARTIAL).unionByName(
            _partial(each_once(acks.where(F.col("outcome").isin(*PAIR))), sums)
        )
    else:
        parts = _partial(each_once(acks), sums)
    by_consumer = parts.repartition(1).mapInArrow(merged, CONSUMERS)
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


def _partial(deliveries: DataFrame, sums: DeliverySums) -> DataFrame:
    return deliveries.select(*READ).mapInArrow(sums.batches, PARTIAL)


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


def _seconds(since: datetime | None, until: datetime | None) -> Column:
    """The length of the window; where it is open, from the subscription's first delivery, to its
    last settlement."""
    begin = F.min("first_seen").over(_of_all()) if since is None else F.lit(since)
    end = F.max("last_seen").over(_of_all()) if until is None else F.lit(until)
    return (F.unix_micros(end) - F.unix_micros(begin)) / 1_000_000


def _utc_day(at: Column) -> Column:
    """The UTC day of a time, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_micros(at) / 86_400_000_000).cast("int"))
