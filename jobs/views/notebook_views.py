"""The views of a home with a gateway's live state, in one call: for notebooks and commands."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from distributary.jobs.client.own_tables import require_own
from distributary.pipeline.errors import StoreError
from distributary.pipeline.management.live_state import Live
from distributary.pipeline.transforms.schema.home_tables import Tables, find_tables
from distributary.pipeline.transforms.schema.lake_rows import Found, found_in, lake_tables
from distributary.pipeline.transforms.views import stuck as reasons
from distributary.pipeline.transforms.views import view_registry
from distributary.pipeline.transforms.views.pending import find


def register(spark: SparkSession, place: str, gateway: str | None = None) -> Tables:
    """Make a temporary view of every table and view of a home
    (`pipeline.transforms.views.view_registry`), with what a gateway says now if one is named:
    `stuck` knows it then. Returns the tables.

    Of a lake each view has the rows of all logs that were served, with a column `log`; the
    gateway may be that of any, and the tables that are returned are those of the first. A log
    without tables yet is left out, with a warning. Raises InvalidRequest when none has any.
    """
    logs = lake_tables(spark, place)
    if not logs:
        return view_registry.register(spark, place, _live(spark, place, gateway, None))
    view_registry.register_logs(logs, _lives(spark, logs, gateway))
    return next(iter(logs.values()))


def _lives(spark: SparkSession, logs: Mapping[str, Tables], gateway: str | None) -> dict[str, Live]:
    """Return the gateway's live state, by the log that it serves. Raises StoreError if that is none
    of these logs."""
    if gateway is None:
        return {}
    from distributary.jobs.client.live_client import live  # noqa: PLC0415 - needs Proton, which a cluster needn't have

    said = live(gateway, None)
    for log, tables in logs.items():
        with suppress(StoreError):
            _require_own(spark, tables.folder, said)
            return {log: said}
    raise StoreError(f"the gateway that was asked serves none of the logs {', '.join(logs)}")


def stuck(
    spark: SparkSession, place: str, subscription: str | None = None, gateway: str | None = None
) -> DataFrame:
    """One row per message that is owed, with its reason: `pipeline.transforms.views.stuck`.

    `place` is a home or the folder of Spark's tables; `gateway` is `host:port` or
    `amqp[s]://user:password@host:port`, and without one the tables alone are asked. Of a lake it
    is the rows of all logs, with a column `log` in front; the gateway may be that of any, and says
    what it knows of its own. Raises InvalidRequest when there are no tables or no such
    subscription, Unanswered when no gateway is there, StoreError when the tables lie beside another
    gateway's log.
    """
    return _reasons(spark, place, subscription, gateway, reasons.stuck)


def stuck_summary(
    spark: SparkSession, place: str, subscription: str | None = None, gateway: str | None = None
) -> DataFrame:
    """Return the numbers of `stuck` by subscription and reason."""
    return _reasons(spark, place, subscription, gateway, reasons.stuck_summary)


def _reasons(
    spark: SparkSession,
    place: str,
    subscription: str | None,
    gateway: str | None,
    found: Callable[[Tables, Live | None, str | None], DataFrame],
) -> DataFrame:
    logs = lake_tables(spark, place)
    if not logs:
        said = _live(spark, place, gateway, subscription)
        return found(find_tables(spark, place), said, subscription)
    lives = {logs[log].folder: live for log, live in _lives(spark, logs, gateway).items()}

    def of_log(tables: Tables) -> Found:
        meant = subscription and find(tables, subscription).subscription
        return meant or "", found(tables, lives.get(tables.folder), meant)

    return found_in(spark, place, of_log)


def _live(
    spark: SparkSession, place: str, gateway: str | None, subscription: str | None
) -> Live | None:
    if gateway is None:
        return None
    from distributary.jobs.client.live_client import live  # noqa: PLC0415 - needs Proton, which a cluster needn't have

    said = live(gateway, subscription)
    _require_own(spark, place, said)
    return said


def _require_own(spark: SparkSession, place: str, said: Live) -> None:
    if said.table is not None:
        require_own(spark, find_tables(spark, place).folder, said.table, beside=False)


@dataclass(frozen=True, slots=True)
class Stuck:
    """A line of the summary, for people and programs."""

    reason: str
    messages: int
    oldest_at: str | None
    example: int | None
    detail: str


def summary(spark: SparkSession, place: str, said: Live, subscription: str) -> Iterator[Stuck]:
    """The summary of one subscription by what a gateway has said, the most frequent reason first.
    Raises StoreError when the tables lie beside another gateway's log."""
    _require_own(spark, place, said)
    found = reasons.stuck_summary(find_tables(spark, place), said, subscription)
    for row in found.orderBy("messages", ascending=False).collect():
        at: datetime | None = row.oldest_at
        oldest = None if at is None else at.astimezone(UTC).isoformat()
        yield Stuck(row.reason, row.messages, oldest, row.example, row.detail)
