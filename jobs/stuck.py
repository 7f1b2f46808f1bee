"""Why is a message still owed: the view `stuck` with a gateway's word."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from jobs.live import live
from pipeline.live import Live
from pipeline.transforms import stuck as views
from pipeline.transforms.tables import find_tables


def stuck(
    spark: SparkSession, place: str, subscription: str | None = None, gateway: str | None = None
) -> DataFrame:
    """One row per message that is owed, with its reason: `pipeline.transforms.stuck`.

    `place` is a home or the folder of Spark's tables; `gateway` is `host:port` or
    `amqp[s]://user:password@host:port`, and without one the tables alone are asked. Raises
    InvalidRequest when there are no tables or no such subscription, Unanswered when no gateway is
    there.
    """
    return views.stuck(find_tables(spark, place), _live(gateway, subscription), subscription)


def stuck_summary(
    spark: SparkSession, place: str, subscription: str | None = None, gateway: str | None = None
) -> DataFrame:
    """The same by subscription and reason."""
    said = _live(gateway, subscription)
    return views.stuck_summary(find_tables(spark, place), said, subscription)


def _live(gateway: str | None, subscription: str | None) -> Live | None:
    return None if gateway is None else live(gateway, subscription)


@dataclass(frozen=True, slots=True)
class Stuck:
    """A line of the summary, for people and programs."""

    reason: str
    messages: int
    oldest_at: str | None
    example: int | None
    detail: str


def summary(spark: SparkSession, place: str, said: Live, subscription: str) -> Iterator[Stuck]:
    """The summary of one subscription by what a gateway has said, the most frequent reason
    first."""
    found = views.stuck_summary(find_tables(spark, place), said, subscription)
    for row in found.orderBy("messages", ascending=False).collect():
        at: datetime | None = row.oldest_at
        oldest = None if at is None else at.astimezone(UTC).isoformat()
        yield Stuck(row.reason, row.messages, oldest, row.example, row.detail)
