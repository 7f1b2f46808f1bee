"""`topic_log` into Spark's tables, as a Structured Streaming query; of a lake one for each log,
side by side.

Run by `spark-submit jobs/materialize/materialize.py --home DIR` or `distributary jobs materialize`.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

import click
from msgspec import structs
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from distributary.jobs.materialize.batch import Materialization, Step
from distributary.jobs.materialize.batch_progress import Lines, Progress, brought
from distributary.jobs.materialize.found_logs import of_logs, require_log
from distributary.jobs.materialize.progress import Gauges, Watch
from distributary.jobs.materialize.side_by_side import FAIR, LookAgain, SideBySide, Slots
from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import (
    DONE,
    FAILED,
    execute,
    json_option,
    query_options,
    settings_option,
)
from distributary.jobs.session.job_settings import JobSettings, MaterializeSettings, load
from distributary.jobs.session.session import of_long_life, session
from distributary.jobs.session.stopping import StopRequest, wait
from distributary.jobs.tables.delta_files import Folder, newest_version
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.tables.writer_lock import require_no_writer, writing
from distributary.jobs.upkeep.spark_upkeep import run as upkeep
from distributary.pipeline.errors import StopAsked, StoreError

QUERY = "materialize"

#: The trigger that ends when the tables are at the log's end.
AVAILABLE_NOW = "available-now"

#: Delta's source would split a version over two batches at 1,000 files; a batch here is whole
#: versions, so there is no limit.
FILES_PER_TRIGGER = 2**31 - 1

#: Delta's error when the log's schema isn't the one that the query began with.
NEW_COLUMNS = "DELTA_SCHEMA_CHANGED"

#: Delta's errors when versions that the stream hasn't read are gone from the log's Delta log.
GONE = (
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
)

EXAMPLES = """
\b
Examples:
  distributary jobs materialize --home build/demo
  distributary jobs materialize --home build/demo --trigger "2 seconds" --json
  distributary jobs materialize --home build/demo --trigger "2 seconds" \\
      --metrics 127.0.0.1:9101 --upkeep-every 60
  distributary jobs materialize --home build/demo --restart-from-snapshot
  distributary jobs materialize --home /srv/lake --trigger "2 seconds"
  distributary jobs materialize --home s3://bucket/orders
  spark-submit jobs/materialize/materialize.py --home build/demo
  spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/materialize/materialize.py \\
      --log s3a://lake/topic_log --tables s3a://lake/tables --checkpoint s3a://lake/checkpoint
\b
Of a lake each log is done by itself, beside the others: one that fails is named and stops none.
\b
Exit codes: 0 done or stopped, 1 the job failed, or a log of a lake did, 2 bad arguments or no
topic_log.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a query. `trigger` is `available-now` or an interval such as `2 seconds`.

    `restart`: begin anew from the log as it is, and skip rows that are gone from it; `restarted` is
    called when a batch has done so. `before` is called before each step, `between` after each
    batch. `query` is the name of the query in its session; `slots` limit the batches of logs that
    run side by side.
    """

    locations: TableLocations
    trigger: str = AVAILABLE_NOW
    report: Callable[[Progress], None] = print
    limits: MaterializeSettings = field(default_factory=lambda: load().materialize)
    restart: bool = False
    restarted: Callable[[], None] = lambda: None
    before: Step = lambda _step: None
    between: Callable[[SparkSession], None] = lambda _spark: None
    query: str = QUERY
    slots: Slots = field(default_factory=lambda: Slots(1, StopRequest()))


def build(spark: SparkSession, settings: Settings) -> StreamingQuery:
    """Start the query. Raises InvalidRequest when there is no topic_log."""
    locations = settings.locations
    require_log(spark, locations.log)
    # The stream only tells that there are new versions, and up to which: its rows aren't read.
    arrivals = (
        spark.readStream.format("delta")
        .option("ignoreDeletes", "true")
        .option("maxFilesPerTrigger", FILES_PER_TRIGGER)
        .load(locations.log)
        .select("group")
    )
    writer = (
        arrivals.writeStream.queryName(settings.query)
        .option("checkpointLocation", locations.checkpoint)
        .foreachBatch(_Batches(settings).run)
    )
    if settings.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.trigger).start()


def run(
    spark: SparkSession, settings: Settings, request: StopRequest
) -> tuple[StreamingQuery, bool]:
    """Run the query; return it, and whether it came to its end (else it was stopped).

    Delta ends a query when its source gets new columns, and lets it go on when it is started again:
    this restarts it once for each version of the log. Raises StoreError when versions are gone that
    the query hasn't read.
    """
    seen = -1
    if settings.restart:
        Folder(spark, settings.locations.checkpoint).remove()
    while True:
        query = build(spark, settings)
        try:
            return query, wait(query, request)
        except StreamingQueryException as error:
            if any(name in str(error) for name in GONE):
                raise StoreError(_gone(settings.locations)) from error
            version = newest_version(spark, settings.locations.log)
            if NEW_COLUMNS not in str(error) or version <= seen:
                raise
            seen = version
            click.echo("topic_log has new columns; the job goes on with them.", err=True)


def once(spark: SparkSession, home: str) -> list[Progress]:
    """Bring the tables of a home, of a lake those of each log, to the log's end; return the
    progress of each batch. For notebooks.
    Raises InvalidRequest when there is no topic_log, TablesLocked when another job writes.
    """
    told: list[Progress] = []
    for locations in of_logs(home, None, None, None, query=QUERY).values():
        require_log(spark, locations.log)
        with writing(spark, locations.tables, QUERY, load().tables.lease_seconds):
            build(spark, Settings(locations, report=told.append)).awaitTermination()
    return told


def _gone(locations: TableLocations) -> str:
    return (
        f"Versions of {locations.log} that the job hasn't read were cleaned up while it was "
        "stopped. Their rows may still be in the log as it is: --restart-from-snapshot goes on "
        "from there, and names the rows that are gone."
    )


@dataclass(slots=True)
class _Batches:
    """The function that the query calls for each batch. The first batch opens the tables."""

    settings: Settings
    tables: Materialization | None = None

    def run(self, rows: DataFrame, number: int) -> None:
        with self.settings.slots.slot():
            self._run(rows.sparkSession, number)

    def _run(self, spark: SparkSession, number: int) -> None:
        started, settings = monotonic(), self.settings
        if self.tables is None:
            self.tables = Materialization(
                spark,
                settings.locations,
                settings.limits,
                begun=number > 0,
                lost_is_known=settings.restart,
                before=settings.before,
            )
        upto = last_version(spark, settings.locations.checkpoint, number)
        written = list(self.tables.bring(upto))
        settings.restarted()
        if not written:
            return
        settings.report(
            brought(
                number,
                written,
                log_version=upto,
                lag_versions=self.tables.log.entries.last_from(upto) - upto,
                seconds=monotonic() - started,
            )
        )
        settings.between(spark)


def last_version(spark: SparkSession, checkpoint: str, number: int) -> int:
    """Return the last version of the log that is wholly in a batch.

    Spark records a batch's end before it runs the batch. Delta's offset names the next version with
    a negative index when the one before was read to its end; else the end is inside a version.
    """
    said = Folder(spark, f"{checkpoint}/offsets").text(str(number)) or ""
    offset = json.loads(said.splitlines()[-1])
    if offset["index"] >= 0:
        raise StoreError(
            f"Batch {number} ends within version {offset['reservoirVersion']} of the log: "
            "the query's checkpoint was made with a limit on files; remove it and start again."
        )
    return int(offset["reservoirVersion"]) - 1


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, QUERY)


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@query_options
@settings_option
@click.option("--trigger", help="`available-now`, the default, or how often: `2 seconds`.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve gauges for Prometheus there.")
@click.option(
    "--upkeep-every",
    type=click.IntRange(min=1),
    metavar="MINUTES",
    help="Run upkeep of the tables between two batches, so often.",
)
@click.option(
    "--restart-from-snapshot",
    is_flag=True,
    help="Forget the checkpoint and go on from the log as it is, also past rows that are gone.",
)
@json_option("Progress as one JSON object a line.")
def command(
    *,
    home: str | None,
    log: str | None,
    tables: str | None,
    checkpoint: str | None,
    settings_file: Path | None,
    trigger: str | None,
    metrics: str | None,
    upkeep_every: int | None,
    restart_from_snapshot: bool,
    as_json: bool,
) -> int:
    logs = of_logs(home, log, tables, checkpoint, query=QUERY)
    given, request = _over(load(settings_file), trigger, upkeep_every), StopRequest()
    of_lake = "" not in logs
    if not of_lake:
        require_no_writer(logs[""].tables, given.tables.lease_seconds)
    gauges = Gauges()
    if metrics is not None:
        gauges.serve(metrics)
    ends = given.materialize.trigger == AVAILABLE_NOW
    places = [one.tables for one in logs.values()]
    spark = session(({} if ends else of_long_life()) | (FAIR if of_lake else {}), places)
    lines, slots = Lines(gauges, as_json=as_json), Slots(given.materialize.logs_at_once, request)
    job = _Job(spark, given, lines, slots, request, set(logs) if restart_from_snapshot else set())
    request.listen()
    failed: dict[str, str] = {}
    with _listening(spark, lines.watch):
        if of_lake:
            look = partial(of_logs, home, log, tables, checkpoint, query=QUERY)
            again = None if ends else LookAgain(look, given.materialize.lake_seconds)
            SideBySide(spark, logs, job.bring, request, again, failed).run()
        else:
            job.bring("", logs[""])
    if not (as_json or lines.count or failed or request.asked):
        click.echo("Nothing new: the tables are up to date.")
    return FAILED if failed else DONE


def _over(given: JobSettings, trigger: str | None, upkeep_every: int | None) -> JobSettings:
    """Return the settings, with the command line's options over them."""
    of_job = given.materialize
    said = structs.replace(
        of_job,
        trigger=trigger or of_job.trigger,
        upkeep_minutes=of_job.upkeep_minutes if upkeep_every is None else upkeep_every,
    )
    return structs.replace(given, materialize=said)


@dataclass(frozen=True, slots=True)
class _Job:
    """The command's work for each log, or for the only one of a home. `restart`: logs that are to
    begin anew, until one of their batches has ended: an attempt that fails before that has skipped
    no rows."""

    spark: SparkSession
    given: JobSettings
    lines: Lines
    slots: Slots
    request: StopRequest
    restart: set[str]

    def bring(self, log: str, locations: TableLocations) -> None:
        """Bring a log's tables to its end, or until the job is asked to stop. Raises as `run`, and
        TablesLocked."""
        require_log(self.spark, locations.log)
        query, of_job = f"{QUERY}/{log}" if log else QUERY, self.given.materialize
        between = UpkeepBetween(locations, self.given, of_job.upkeep_minutes).between
        lease, asked = self.given.tables.lease_seconds, lambda: self.request.asked
        with suppress(StopAsked), writing(self.spark, locations.tables, QUERY, lease, asked):
            settings = Settings(
                locations,
                of_job.trigger,
                partial(self.lines.note, query, log),
                of_job,
                restart=log in self.restart,
                restarted=partial(self.restart.discard, log),
                between=between,
                query=query,
                slots=self.slots,
            )
            run(self.spark, settings, self.request)


@contextmanager
def _listening(spark: SparkSession, watch: Watch) -> Iterator[None]:
    spark.streams.addListener(watch)
    try:
        yield
    finally:
        with suppress(Py4JError, PySparkException, OSError):  # a JVM that is gone has none
            if not spark.streams.active:
                watch.wait()
            spark.streams.removeListener(watch)


@dataclass(slots=True)
class UpkeepBetween:
    """Runs upkeep between two batches, when it is due."""

    locations: TableLocations
    settings: JobSettings
    minutes: int
    last: float = field(default_factory=monotonic)

    def between(self, spark: SparkSession) -> None:
        if not self.minutes or monotonic() - self.last < 60 * self.minutes:
            return
        upkeep(spark, self.locations.tables, self.settings.upkeep, log=self.locations.log)
        self.last = monotonic()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
