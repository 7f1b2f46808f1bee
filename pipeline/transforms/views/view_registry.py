"""The tables and views of a home by name, for plain SQL: `SELECT * FROM stuck`."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from distributary.pipeline.management.live_state import Live
from distributary.pipeline.transforms.schema.deliveries import deliveries
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS, Tables, find_tables
from distributary.pipeline.transforms.schema.lake_rows import of_logs
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME
from distributary.pipeline.transforms.typed.topic_views import register_topics
from distributary.pipeline.transforms.views.backlog import Buckets, History
from distributary.pipeline.transforms.views.claiming import Claims
from distributary.pipeline.transforms.views.consumers import consumers
from distributary.pipeline.transforms.views.file_sums import small_table, within_reach
from distributary.pipeline.transforms.views.given_up import dead_letters
from distributary.pipeline.transforms.views.happenings import events
from distributary.pipeline.transforms.views.pending import pending_of_all
from distributary.pipeline.transforms.views.stuck import explained, listed, summed

#: The views, beside the tables of SCHEMAS.
VIEWS = (
    "pending",
    "backlog",
    "backlog_minutes",
    "events",
    "deliveries",
    "dead_letters",
    "consumers",
    "stuck",
    "stuck_summary",
)

#: The widths of buckets in `backlog` and `backlog_minutes`, microseconds.
HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
#: What `backlog_minutes` goes back.
MINUTES_BACK = timedelta(days=1)


def register(spark: SparkSession, place: str, live: Live | None = None) -> Tables:
    """Make a temporary view of every table, every view and every topic with typed tables in
    `place`, which is the folder of Spark's tables or the home above it; returns the tables.

    The views read the tables as they are when they are asked. What `live` says stays as it was
    when a gateway was asked, and selectors are those of now: a new selector ends a query with an
    error that says to register again. Raises InvalidRequest when there are no tables.
    """
    found = find_tables(spark, place)
    tables = found.known()
    with _files_listed([tables]):
        _make(_frames(tables, live), {"": tables})
    return found


def register_logs(logs: Mapping[str, Tables], lives: Mapping[str, Live]) -> None:
    """Make the same views over the tables of several logs: each has their rows together, and a
    column `log` in front that says whose a row is. Sequences, groups and ids of subscriptions are
    one log's. `lives` are of the logs whose gateways were asked.

    Cost: each view plans as many of one log's as there are logs; what asks for one log reads that
    one alone.
    """
    known = {log: tables.known() for log, tables in logs.items()}
    with _files_listed(known.values()):
        each = {log: _frames(tables, lives.get(log)) for log, tables in known.items()}
        names = next(iter(each.values()))
        rows = {name: of_logs({log: one[name] for log, one in each.items()}) for name in names}
        _make(rows, known)


@contextmanager
def _files_listed(logs: Iterable[Tables]) -> Iterator[None]:
    """Meanwhile Delta finds out which files `messages` has, which nearly each view asks first. In a
    session that has just begun this takes as long as the plans of all views, for which it has one
    core. If it fails, the question does that needs it."""
    with ThreadPoolExecutor(1) as beside:
        for tables in logs:
            if within_reach(tables):
                beside.submit(tables.messages.inputFiles)
        yield


def _frames(tables: Tables, live: Live | None) -> dict[str, DataFrame]:
    """The tables and views of one log, by name."""
    # What several views begin with is made once: Spark needs longer to make a view than to ask it.
    claims = Claims.of(tables)
    owed = pending_of_all(tables, claims)
    history = History.of(tables, claims, owed)
    told = explained(tables, owed, claims.cursors, live)
    views = {
        "pending": owed,
        "backlog": history.counted(Buckets(HOUR_US)),
        "backlog_minutes": history.counted(Buckets(MINUTE_US, back=MINUTES_BACK)),
        "events": events(tables),
        "deliveries": deliveries(tables),
        "dead_letters": dead_letters(tables),
        "consumers": consumers(tables),
        "stuck": listed(told),
        "stuck_summary": summed(told, live),
    }
    rows = {name: tables.table(name) for name in SCHEMAS}
    return rows | {name: views[name] for name in VIEWS} | {REJECTED_NAME: tables.rejected}


def _make(frames: Mapping[str, DataFrame], logs: Mapping[str, Tables]) -> None:
    for name, rows in frames.items():
        rows.createOrReplaceTempView(name)
    schemas = {log: _schemas(tables) for log, tables in logs.items()}
    register_topics(logs, schemas, (*SCHEMAS, *VIEWS, REJECTED_NAME))


def _schemas(tables: Tables) -> list[dict[str, Any]]:
    """Without a job of Spark where files are within reach: in a session that has just begun, one
    costs more than all of the plans."""
    if within_reach(tables):
        return small_table(tables.folder, "schemas", SCHEMAS["schemas"].names)
    return [row.asDict() for row in tables.schemas.collect()]
