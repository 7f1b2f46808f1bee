"""Make Spark's sessions on this machine begin in half of the time: once for each Java and Spark.

Run by `distributary jobs prepare`. It asks each view of a home of one message, and Java keeps what
classes that took in an archive (190 MB) in the user's cache (XDG_CACHE_HOME, else ~/.cache). Each
session that Python begins later takes it from there, jobs and notebooks alike. Nothing else depends
on it: delete it when you like. A new Java, or new jars, go without until it is made again;
the three newest archives stay.
"""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from pyspark import SparkContext
from pyspark.sql import SparkSession

from distributary.jobs.session.class_archive import making, named_in, remove_older
from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import execute
from distributary.jobs.session.session import class_archive, defaults, require_java, session
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.views.view_registry import VIEWS, register

EXAMPLES = """
\b
Examples:
  distributary jobs prepare
"""

_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: Folder of a run, beside the archives, and the seconds after which it is one of a killed run: a
#: run takes a minute or two.
_UNFINISHED: Final = "unfinished-"
_UNFINISHED_SECONDS: Final = 3_600


def prepare() -> Path:
    """Make the archive of this Java and these jars; returns where it is. No session may be there.
    Raises SparkUnavailable, InvalidRequest where another one is named or a folder has a space, and
    StoreError when it can't be written."""
    options, archive = defaults()[_OPTIONS], class_archive(require_java())
    if where := named_in(options, os.environ):
        raise InvalidRequest(f"{where} names a class archive already: take it out first.")
    if " " in str(archive):
        raise InvalidRequest(
            f"Java takes no archive from {archive.parent}, which has a space in its name: "
            "name another cache by XDG_CACHE_HOME."
        )
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(archive.parent, time.time())
        work = TemporaryDirectory(dir=archive.parent, prefix=_UNFINISHED)
    except OSError as error:
        raise StoreError(f"{archive.parent} can't be written: {error.strerror}") from error
    with work as folder:  # of this process alone: another one may prepare at the same time
        begun = Path(folder, archive.name)
        spark = session({_OPTIONS: making(begun, options)})
        _ask(spark, folder)
        _end(spark)
        try:
            begun.replace(archive)
        except OSError as error:
            raise StoreError(f"Java has written no {begun}: {error.strerror}") from error
    remove_older(archive)
    return archive


def remove_unfinished(cache: Path, now: float) -> None:
    """Remove the folders of runs that were killed; `now` in seconds since 1970."""
    for folder in cache.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):  # another run has just ended
            if now - folder.stat().st_mtime > _UNFINISHED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _ask(spark: SparkSession, folder: str) -> None:
    """Do the work of jobs and notebooks: write tables, follow and query them."""
    now = datetime.now(UTC)
    of_all: dict[str, Any] = {"subscription": "s", "topic": "t", "sequence": 1, "group": 1}
    of_all |= {"floor": 1, "day": now.date(), "settled_count": 0, "event": "created"}
    of_all |= {"consumer": "c", "outcome": "accepted", "final": True, "delivery_count": 0}
    of_all |= dict.fromkeys(("published_at", "recorded_at", "committed_at"), now)
    of_all |= dict.fromkeys(("delivered_at", "settled_at"), now)
    for name, schema in SCHEMAS.items():
        row = [of_all.get(column) for column in schema.names]
        rows = spark.createDataFrame([row] if name != "schemas" else [], schema)
        rows.write.format("delta").save(f"{folder}/tables/{name}")
    followed = spark.readStream.format("delta").load(f"{folder}/tables/messages")
    query = followed.writeStream.foreachBatch(lambda rows, _: rows.foreach(lambda _row: None))
    query.trigger(availableNow=True).option("checkpointLocation", f"{folder}/follow").start()
    for one in spark.streams.active:
        one.awaitTermination()
    register(spark, folder)
    for name in VIEWS:
        spark.sql(f"SELECT subscription, count(*) FROM {name} GROUP BY subscription").collect()  # noqa: S608


def _end(spark: SparkSession) -> None:
    """End Java, which then writes the archive: it ends when its standard input is closed."""
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    process.stdin.close()
    process.wait()


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "prepare")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
def command() -> None:
    click.echo(prepare())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
