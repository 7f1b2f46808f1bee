"""Keeps the tables that Spark writes small: compaction, retention, clean-up.

Run by `distributary jobs upkeep`, `spark-submit jobs/upkeep/spark_upkeep.py`, or by `materialize`
between two of its batches. Readers see the same rows before, meanwhile and after; only retention,
which is off unless a setting asks for it, takes rows away.

Each step is a commit of its own and first looks for work: the next run completes one that was
killed anywhere.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic

import click
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import (
    DONE,
    execute,
    folders,
    json_option,
    location_options,
    log_by_log,
    settings_option,
)
from distributary.jobs.session.job_settings import UpkeepSettings, load
from distributary.jobs.session.session import session
from distributary.jobs.tables.delta_files import java_class, require_jvm
from distributary.jobs.tables.folders import local, require_tables
from distributary.jobs.tables.spark_tables import typed_names
from distributary.jobs.tables.table_files import (
    Day,
    days,
    entries,
    properties,
    remove_entries,
    vacuumed_hours_ago,
)
from distributary.jobs.tables.writer_lock import require_no_writer, writing
from distributary.jobs.upkeep.spark_retention import Removal, of_acks, of_messages
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS

#: The property of a table that has the first day that may still be there, as ISO date.
REMOVED_BEFORE = "distributary.removedBefore"

#: Days of one commit of a compaction: the most work that a kill can lose.
COMMIT_DAYS_MAX = 7

EXAMPLES = """
\b
Examples:
  distributary jobs upkeep --home build/demo --dry-run
  distributary jobs upkeep --home build/demo
  distributary jobs upkeep --tables s3a://lake/tables --log s3a://lake/topic_log --json
\b
Exit codes: 0 done, 1 it, or a log of a lake, failed or is written by another job, 2 bad arguments
or no tables.
"""


@dataclass(frozen=True, slots=True)
class Work:
    """Due work on one table."""

    table: str
    files: int
    compact: tuple[Day, ...]  #: the days that have too many small files
    removal: Removal | None
    vacuum: bool
    entries: int  #: of its log
    properties: dict[str, str]  #: properties that the table lacks or has with other values


@dataclass(frozen=True, slots=True)
class Done:
    """Work done on one table, or planned."""

    table: str
    files_before: int
    files_after: int | None  #: None: a plan, nothing was changed
    days_compacted: int
    days_removed: int
    first_day: str | None  #: the first that stays, when days were removed
    vacuumed: bool
    entries_before: int
    entries_removed: int | None
    seconds: float


def run(
    spark: SparkSession,
    tables: str,
    settings: UpkeepSettings,
    *,
    log: str | None = None,
    today: date | None = None,
    report: Callable[[Done], None] = lambda _: None,
) -> list[Done]:
    """Do the due work on the tables in the folder `tables`, one after the other.

    The caller is their only writer (`jobs.tables.writer_lock`). `log` is topic_log, unless
    it lies beside them; `today` the UTC day. Raises InvalidRequest when there are no tables, or
    retention is asked for and there is no log to ask, or Spark is reached by Spark Connect.
    """
    require_jvm()
    all_done = []
    with _confs(spark, tables, settings):
        for work in plan(spark, tables, settings, log=log, today=today):
            done = _perform(spark, f"{tables}/{work.table}", work, settings)
            report(done)
            all_done.append(done)
    return all_done


def plan(
    spark: SparkSession,
    tables: str,
    settings: UpkeepSettings,
    *,
    log: str | None = None,
    today: date | None = None,
) -> list[Work]:
    """Return the work that `run` would do, in its order, without a change. Raises as `run` does."""
    require_jvm()
    there = [name for name in SCHEMAS if DeltaTable.isDeltaTable(spark, f"{tables}/{name}")]
    if not there:
        raise InvalidRequest(
            f"There are no tables in {tables}: run `distributary jobs materialize` first."
        )
    there += typed_names(spark, tables)
    found = {
        name: days(spark, f"{tables}/{name}", small_bytes=settings.small_bytes) for name in there
    }
    day = today or datetime.now(UTC).date()
    removals = _removals(spark, tables, found, settings, log or f"{tables}/topic_log", day)
    return [_work(spark, tables, name, found[name], removals.get(name), settings) for name in there]


def _removals(
    spark: SparkSession,
    tables: str,
    found: dict[str, list[Day]],
    settings: UpkeepSettings,
    log: str,
    today: date,
) -> dict[str, Removal]:
    """Return the removals by table; `messages` before `acks`."""
    if not settings.messages_days or not found.get("messages") or "cursors" not in found:
        return {}
    if not DeltaTable.isDeltaTable(spark, log):
        raise InvalidRequest(
            f"There is no topic_log at {log}: give --log, as retention takes away nothing that "
            "topic_log still has."
        )
    lowest = spark.read.format("delta").load(f"{tables}/cursors").agg(F.min("floor")).first()
    logged = days(spark, log, small_bytes=0, record="message")
    removals = {}
    messages = of_messages(
        found["messages"],
        settings,
        today,
        floor=None if lowest is None else lowest[0],
        logged=min((day.day for day in logged if day.day), default=None),
    )
    if messages is not None:
        removals["messages"] = messages
    kept = messages.first_kept if messages is not None else found["messages"][0].day
    acks = of_acks(found.get("acks", []), settings, today, messages_from=kept)
    if acks is not None:
        removals["acks"] = acks
    return removals


def _work(
    spark: SparkSession,
    tables: str,
    name: str,
    found: list[Day],
    removal: Removal | None,
    settings: UpkeepSettings,
) -> Work:
    path = f"{tables}/{name}"
    gone = removal.days if removal is not None else ()
    ago = vacuumed_hours_ago(spark, path)
    return Work(
        table=name,
        files=sum(day.files for day in found),
        compact=tuple(
            day for day in found if day not in gone and day.small > settings.small_files_max
        ),
        removal=removal,
        vacuum=ago is None or ago >= settings.vacuum_hours,
        entries=entries(spark, path),
        properties=_lacking(spark, path, name, settings),
    )


def _lacking(spark: SparkSession, path: str, name: str, settings: UpkeepSettings) -> dict[str, str]:
    """Return properties for how long Delta keeps removed files and entries, where they differ."""
    hours = settings.cursors_removed_hours if name == "cursors" else settings.removed_hours
    wanted = {
        "delta.deletedFileRetentionDuration": f"interval {hours} hours",
        "delta.logRetentionDuration": f"interval {settings.log_days} days",
    }
    there = properties(spark, path, wanted)
    return {key: value for key, value in wanted.items() if there.get(key) != value}


def _perform(spark: SparkSession, path: str, work: Work, settings: UpkeepSettings) -> Done:
    """Do the work on one table, in an order in which an interruption does no harm: a removal is
    recorded before it is done, and files go after the versions that name them."""
    started = monotonic()
    if work.properties:
        _set(spark, path, work.properties)
    if work.removal is not None:
        first = work.removal.first_kept.isoformat()
        _set(spark, path, {REMOVED_BEFORE: first})
        DeltaTable.forPath(spark, path).delete(f"day < DATE'{first}'")
    for at in range(0, len(work.compact), COMMIT_DAYS_MAX):
        _compact(spark, path, work.compact[at : at + COMMIT_DAYS_MAX])
    if work.vacuum:
        # As long as the table's own property says: Delta's check of it stays on.
        DeltaTable.forPath(spark, path).vacuum()
    removed = remove_entries(spark, path, settings.log_entries_max)
    files = work.files
    if work.compact or work.removal:
        files = sum(day.files for day in days(spark, path, small_bytes=0))
    return _done(
        work,
        files_after=files,
        entries_removed=removed,
        seconds=monotonic() - started,
    )


def _compact(spark: SparkSession, path: str, found: Sequence[Day]) -> None:
    """Make fewer files of the small ones of these days, in one commit."""
    files = DeltaTable.forPath(spark, path).optimize()
    dates = [f"DATE'{day.day.isoformat()}'" for day in found if day.day is not None]
    if dates:
        files = files.where(f"day IN ({', '.join(dates)})")
    files.executeCompaction()


def _done(
    work: Work,
    *,
    files_after: int | None = None,
    entries_removed: int | None = None,
    seconds: float = 0.0,
) -> Done:
    removal = work.removal
    return Done(
        table=work.table,
        files_before=work.files,
        files_after=files_after,
        days_compacted=len(work.compact),
        days_removed=0 if removal is None else len(removal.days),
        first_day=None if removal is None else removal.first_kept.isoformat(),
        vacuumed=work.vacuum,
        entries_before=work.entries,
        entries_removed=entries_removed,
        seconds=round(seconds, 1),
    )


def _set(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    name = path.replace("`", "``")
    spark.sql(f"ALTER TABLE delta.`{name}` SET TBLPROPERTIES ({pairs})")


#: On a store VACUUM makes a version between its list of files and their removal. So a job that has
#: lost the tables removes no file; and files listed while it has them aren't needed any more.
VACUUM = {"spark.databricks.delta.vacuum.logging.enabled": "true"}


@contextmanager
def _confs(spark: SparkSession, tables: str, settings: UpkeepSettings) -> Iterator[None]:
    """The session's settings for upkeep while the block runs; then as they were."""
    ours = {
        "spark.databricks.delta.optimize.minFileSize": str(settings.small_bytes),
        "spark.databricks.delta.optimize.maxFileSize": str(settings.file_bytes),
        # A look at a handful of folders would else be 10,000 tasks: a minute for nothing.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(
            spark.sparkContext.defaultParallelism
        ),
        **({} if local(tables) is not None else VACUUM),
    }
    before = {key: spark.conf.get(key, None) for key in ours}
    try:
        for key, value in ours.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _keep_stdout(spark: SparkSession) -> None:
    """Keep stdout for this job's output: Delta's prints of a VACUUM go to stderr."""
    console = getattr(java_class(spark, "scala.Console$"), "MODULE$")
    console.setOutDirect(java_class(spark, "java.lang.System").err)


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "upkeep")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@location_options
@settings_option
@click.option("--dry-run", is_flag=True, help="Say what there is to do, and change nothing.")
@json_option("One JSON object for each table, a line each.")
def command(
    *,
    home: str | None,
    log: str | None,
    tables: str | None,
    settings_file: Path | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    found, given = folders(home, log, tables), load(settings_file)
    settings, lease = given.upkeep, given.tables.lease_seconds
    if "" in found:  # before a JVM starts
        require_tables(found[""])
        require_no_writer(found[""], lease)
    spark = session(places=found.values())
    if not dry_run:
        _keep_stdout(spark)

    def one(name: str, where: str) -> int:
        require_tables(where)
        if dry_run:
            require_no_writer(where, lease)
            done = [_done(work) for work in plan(spark, where, settings, log=log)]
        else:
            with writing(spark, where, "upkeep", lease):
                done = run(spark, where, settings, log=log)
        if as_json:
            for table in done:
                click.echo(json.dumps(({"log": name} if name else {}) | asdict(table)))
        else:
            show(done, name, dry_run=dry_run)
        return DONE

    return log_by_log(found, one)


def show(done: Sequence[Done], log: str, *, dry_run: bool) -> None:
    """Print a table of done or planned work, with the log's name, if it has one."""
    title = ("There is to do" if dry_run else "Done") + (f" in log {log}" if log else "")
    shown = Table(
        box=SIMPLE, title=title, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0)
    )
    shown.add_column("table", no_wrap=True)
    for name in ("files", "compacted", "first day", "entries", "vacuum"):
        shown.add_column(name, justify="right", no_wrap=True)
    for one in done:
        entries_left = one.entries_before - (one.entries_removed or 0)
        shown.add_row(
            one.table,
            _change(one.files_before, one.files_after),
            _days(one.days_compacted),
            one.first_day or "",
            _change(one.entries_before, entries_left),
            "yes" if one.vacuumed else "later",
        )
    Console().print(shown)


def _days(number: int) -> str:
    return "" if number == 0 else f"{number:,} day{'s' if number > 1 else ''}"


def _change(before: int, after: int | None) -> str:
    return f"{before:,}" if after is None or after == before else f"{before:,} → {after:,}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
