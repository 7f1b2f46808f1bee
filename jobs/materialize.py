"""`topic_log` into `messages`, `acks` and `cursors`, as a Structured Streaming query.

Run by `spark-submit jobs/materialize.py --home DIR` or `distributary jobs materialize`.
"""

import json
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from types import FrameType

import click
from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.streaming.query import StreamingQuery

from jobs.batch import Batch, Places, ensure_tables, write
from jobs.session import session
from pipeline.errors import DistributaryError, InvalidRequest, StoreError
from pipeline.tables.home import Home

QUERY = "materialize"

#: Delta's source would split a version over two batches at 1,000 files; a batch here is whole
#: versions, so there is no limit.
FILES_PER_TRIGGER = 2**31 - 1

#: What Delta calls it when the log's schema isn't what the query began with.
NEW_COLUMNS = "DELTA_SCHEMA_CHANGED"

#: Seconds between two looks at whether somebody wants the job to stop.
STOP_SECONDS = 1

EXAMPLES = """
\b
Examples:
  distributary jobs materialize --home build/demo
  distributary jobs materialize --home build/demo --trigger "2 seconds" --json
  spark-submit jobs/materialize.py --home build/demo
  spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/materialize.py \\
      --log s3a://lake/topic_log --tables s3a://lake/tables --checkpoint s3a://lake/checkpoint
\b
Exit codes: 0 done or stopped, 1 the job failed, 2 bad arguments or no topic_log.
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch brought."""

    batch: int
    messages: int
    acks: int
    subscription_events: int
    last_group: int
    log_version: int  #: of topic_log, wholly in the tables now
    lag_versions: int  #: that topic_log has more by now
    seconds: float

    def __str__(self) -> str:
        lag = "" if self.lag_versions == 0 else f", {self.lag_versions:,} versions behind"
        return (
            f"batch {self.batch}: {self.messages:,} messages, {self.acks:,} acks, "
            f"{self.subscription_events:,} subscription events in {self.seconds:.1f} s; "
            f"up to version {self.log_version:,}, group {self.last_group:,}{lag}"
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the job is told. `trigger` is `available-now` or an interval such as `2 seconds`."""

    places: Places
    trigger: str = "available-now"
    report: Callable[[Progress], None] = print


def build(spark: SparkSession, settings: Settings) -> StreamingQuery:
    """Start the query. Raises InvalidRequest when there is no topic_log."""
    places = settings.places
    require_log(spark, places.log)
    # Which groups come, is all that the stream has to say: a few bytes per message.
    arrivals = (
        spark.readStream.format("delta")
        .option("ignoreDeletes", "true")
        .option("maxFilesPerTrigger", FILES_PER_TRIGGER)
        .load(places.log)
        .select("record", "group", F.coalesce(F.size("sequences"), F.lit(1)).alias("deliveries"))
    )
    writer = (
        arrivals.writeStream.queryName(QUERY)
        .option("checkpointLocation", places.checkpoint)
        .foreachBatch(lambda rows, number: _materialize(rows, number, settings))
    )
    if settings.trigger == "available-now":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.trigger).start()


def run(spark: SparkSession, settings: Settings) -> tuple[StreamingQuery, bool]:
    """The query, and whether it came to its end (else somebody stopped it).

    Delta ends a query when its source gets new columns, and lets it go on when it is started again:
    that is done here, once for each version of the log.
    """
    seen = -1
    while True:
        query = build(spark, settings)
        try:
            return query, _wait(query)
        except StreamingQueryException as error:
            version = newest_version(spark, settings.places.log)
            if NEW_COLUMNS not in str(error) or version <= seen:
                raise
            seen = version
            click.echo("topic_log has new columns; the job goes on with them.", err=True)


def require_log(spark: SparkSession, log: str) -> None:
    if not DeltaTable.isDeltaTable(spark, log):
        raise InvalidRequest(_no_log(log))


def _no_log(log: str) -> str:
    return f"There is no topic_log at {log}: start `distributary serve` with this home first."


def _materialize(rows: DataFrame, number: int, settings: Settings) -> None:
    started = monotonic()
    spark, places = rows.sparkSession, settings.places
    ensure_tables(spark, places, may_create=number == 0)
    kinds = {
        row.record: row
        for row in rows.groupBy("record")
        .agg(
            F.min("group").alias("first"),
            F.max("group").alias("last"),
            F.sum("deliveries").alias("count"),
        )
        .collect()
    }
    if not kinds:
        return
    batch = Batch(
        query=query_id(spark),
        number=number,
        first_group=min(row.first for row in kinds.values()),
        last_group=max(row.last for row in kinds.values()),
        log_version=last_version(spark, places.checkpoint, number),
    )
    write(spark, places, batch)
    counts = {record: int(row["count"]) for record, row in kinds.items()}
    settings.report(
        Progress(
            batch=number,
            messages=counts.get("message", 0),
            acks=counts.get("settlement", 0),
            subscription_events=counts.get("subscription", 0),
            last_group=batch.last_group,
            log_version=batch.log_version,
            lag_versions=newest_version(spark, places.log) - batch.log_version,
            seconds=monotonic() - started,
        )
    )


def query_id(spark: SparkSession) -> str:
    """The id of the query that runs this batch: the same for as long as its checkpoint is."""
    found = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise StoreError("A batch without a query id could not be told from those of others.")
    return found


def last_version(spark: SparkSession, checkpoint: str, number: int) -> int:
    """The last version of the log that is wholly in a batch.

    Spark writes down where a batch ends before it runs it. Delta's offset names the next version
    with a negative index when the one before was read to its end; else it is inside a version.
    """
    lines = spark.read.text(f"{checkpoint}/offsets/{number}").collect()
    offset = json.loads(lines[-1].value)
    if offset["index"] >= 0:
        raise StoreError(
            f"Batch {number} ends within version {offset['reservoirVersion']} of the log: "
            "the query's checkpoint was made with a limit on files; remove it and start again."
        )
    return int(offset["reservoirVersion"]) - 1


def newest_version(spark: SparkSession, log: str) -> int:
    newest = DeltaTable.forPath(spark, log).history(1).select("version").first()
    return 0 if newest is None else int(newest.version)


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    try:
        command.main(args=list(argv), prog_name="materialize", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except InvalidRequest as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except (DistributaryError, PySparkException) as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    except (KeyboardInterrupt, click.Abort):
        return 0
    return 0


@click.command(help=__doc__, epilog=EXAMPLES)
@click.option("--home", type=click.Path(path_type=Path), help="Home of a gateway.")
@click.option("--log", help="topic_log, instead of the home's.")
@click.option("--tables", help="Folder for the tables, instead of the home's.")
@click.option("--checkpoint", help="Folder for the query's checkpoint, instead of the home's.")
@click.option(
    "--trigger",
    default="available-now",
    show_default=True,
    help="`available-now`, or how often: `2 seconds`.",
)
@click.option("--json", "as_json", is_flag=True, help="Progress as one JSON object a line.")
def command(
    *,
    home: Path | None,
    log: str | None,
    tables: str | None,
    checkpoint: str | None,
    trigger: str,
    as_json: bool,
) -> None:
    places = _places(home, log, tables, checkpoint)
    if "://" not in places.log and not (Path(places.log) / "_delta_log").is_dir():
        raise InvalidRequest(_no_log(places.log))  # before a JVM starts
    report = _report_json if as_json else _report_line
    query, ended = run(session(), Settings(places, trigger, report))
    if (
        ended
        and not as_json
        and not any(progress["numInputRows"] for progress in query.recentProgress)
    ):
        click.echo("Nothing new: the tables are up to date.")


def _places(
    home: Path | None, log: str | None, tables: str | None, checkpoint: str | None
) -> Places:
    if home is not None:
        of_home = Home(home.absolute())
        log = log or str(of_home.topic_log)
        tables = tables or str(of_home.cursors.parent)
        checkpoint = checkpoint or str(of_home.checkpoint(QUERY))
    if log is None or tables is None or checkpoint is None:
        raise click.UsageError("give --home, or all of --log, --tables and --checkpoint")
    return Places(log, tables.rstrip("/"), checkpoint.rstrip("/"))


def _report_line(progress: Progress) -> None:
    click.echo(str(progress))


def _report_json(progress: Progress) -> None:
    click.echo(json.dumps(asdict(progress)))


def _wait(query: StreamingQuery) -> bool:
    """Until the query ends (True), or somebody asks the job to: a batch that is cut runs again.

    The asking only sets a flag: an exception in the middle of a call to the JVM would leave the
    call's answer for the next one. A signal to the whole process group ends the JVM as well, and
    then there is nothing left to stop.
    """
    asked = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        logging.disable()  # Spark's client would report each call that finds no JVM any more

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        while not asked and not query.awaitTermination(STOP_SECONDS):
            pass
        query.stop()
    except (Py4JError, PySparkException, OSError):
        if not asked:
            raise
    return not asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
