"""Put the messages that a subscription is owed into a Delta table, each once.

The job is a consumer of the subscription like any other: AMQP workers on the same shared
subscription get their turns beside it. A batch is settled as accepted when it is in the table. A
job that died goes on where it was: its last batch is written once, even if it was interrupted.

No other process may write the table meanwhile.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql.streaming.query import StreamingQuery

from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import execute
from distributary.jobs.session.session import session
from distributary.jobs.session.stopping import StopRequest, wait
from distributary.jobs.subscription import register
from distributary.jobs.subscription.choices import choices
from distributary.jobs.tables.folders import make_writable
from distributary.jobs.tables.object_stores import spark_address
from distributary.pipeline.errors import InvalidRequest, StoreError

EXAMPLES = """\b
Examples:
  distributary jobs drain --gateway localhost:5672 --subscription global/orders \\
      --to lake/orders --checkpoint lake/orders-checkpoint
  distributary jobs drain ... --trigger "2 seconds" --option maxMessagesPerTrigger=10000
  spark-submit jobs/subscription/drain.py ...
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the job. `options` are those of the source (`jobs.subscription.choices`);
    `trigger` is `available-now` or an interval such as `2 seconds`."""

    options: Mapping[str, str]
    to: str
    checkpoint: str
    trigger: str = "available-now"
    columns: tuple[str, ...] = field(default=())


def build(spark: SparkSession, settings: Settings) -> StreamingQuery:
    """Start the query. Raises InvalidRequest for wrong options."""
    choices(settings.options)
    register(spark)
    rows = spark.readStream.format("subscription").options(**settings.options).load()
    if settings.columns:
        rows = rows.select(*settings.columns)

    def write(batch: DataFrame, number: int) -> None:
        append_once(batch, number, settings.to)

    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", settings.checkpoint)
    if settings.trigger == "available-now":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.trigger).start()


def append_once(batch: DataFrame, number: int, to: str) -> None:
    """Append a batch to the Delta table `to`, unless this query has done so before.

    Delta keeps the last number by the query's id, which is the same as long as the checkpoint
    exists; with another checkpoint the source gives other batches, too. Raises InvalidRequest on
    Spark Connect.
    """
    if is_remote():
        raise InvalidRequest(
            "A batch doesn't say to a client of Spark Connect which query it is of. Write the "
            "query by `writeStream.format('delta')`: that writes each batch once, too."
        )
    query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query:
        raise StoreError("a batch without a query's id can't be told from those of others")
    once = {"txnAppId": query, "txnVersion": str(number)}
    batch.write.format("delta").mode("append").options(**once).save(to)


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "drain")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@click.option("--gateway", required=True, help="amqp://user:password@host:port, or host:port.")
@click.option("--subscription", required=True, help="Its id, such as global/orders.")
@click.option("--to", required=True, help="The Delta table; made if it isn't there.")
@click.option("--checkpoint", required=True, help="Folder for the query's checkpoint.")
@click.option(
    "--trigger",
    default="available-now",
    show_default=True,
    help="`available-now`, or how often: `2 seconds`.",
)
@click.option("--option", "others", multiple=True, help="NAME=VALUE: an option of the source.")
@click.option("--columns", default="", help="The columns that are wanted, with commas; else all.")
def command(
    *,
    gateway: str,
    subscription: str,
    to: str,
    checkpoint: str,
    trigger: str,
    others: tuple[str, ...],
    columns: str,
) -> None:
    options = {"gateway": gateway, "subscription": subscription}
    for other in others:
        name, equals, value = other.partition("=")
        if not equals:
            raise InvalidRequest(f"--option '{other}' isn't NAME=VALUE")
        options[name] = value
    choices(options)  # before a JVM starts
    to, checkpoint = (spark_address(one, os.environ) for one in (to, checkpoint))
    make_writable(to, "the table")
    make_writable(checkpoint, "the query's checkpoint")
    wanted = tuple(name.strip() for name in columns.split(",") if name.strip())
    request = StopRequest()
    query = build(
        session(places=[to, checkpoint]), Settings(options, to, checkpoint, trigger, wanted)
    )
    request.listen()
    wait(query, request)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
