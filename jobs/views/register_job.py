"""Puts all tables and views of a home into a catalog, where they stay: for SQL from anywhere.

Tables become external tables, with Delta's own columns and comments; nothing of them is written.
Views become SQL views. Which may be read by whom stays the catalog's. What a view can't be made of,
because it asks a gateway or takes arguments, is left out and named.

Run by `distributary jobs register --home DIR --schema NAME` or `spark-submit
jobs/views/register_job.py ...`, in a session that has the catalog.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from pyspark.sql import SparkSession

from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import execute, folder, json_option
from distributary.jobs.session.session import session
from distributary.jobs.tables.folders import local, require_tables
from distributary.jobs.tables.spark_tables import typed_names
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.catalog.catalog_registry import (
    Registered,
    is_forgotten,
    register,
)
from distributary.pipeline.transforms.catalog.dbt_sources import sources
from distributary.pipeline.transforms.catalog.relations import SESSION_CATALOG
from distributary.pipeline.transforms.schema.topic_folders import FOLDER, REJECTED_NAME

EXAMPLES = """
\b
Examples:
  distributary jobs register --home build/demo --schema messaging
  distributary jobs register --home build/demo --catalog lake --schema messaging \\
      --dbt models/sources.yml
  spark-submit jobs/views/register_job.py --tables s3a://lake/tables --schema messaging
\b
Exit codes: 0 done, 1 the catalog refused or the job failed, 2 bad arguments or no tables.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the job is told. `tables` is the folder of Spark's tables, an absolute path or a URL;
    `dbt` a file for dbt's `sources.yml`, if it is wanted."""

    tables: str
    schema: str
    catalog: str = SESSION_CATALOG
    dbt: Path | None = None


def build(spark: SparkSession, settings: Settings) -> Registered:
    """Register, and write dbt's file. Raises InvalidRequest, OSError."""
    there = typed_names(spark, settings.tables)
    typed = {
        name.removeprefix(f"{FOLDER}/"): spark.read.format("delta")
        .load(f"{settings.tables}/{name}")
        .schema
        for name in sorted(there)
        if name != REJECTED_NAME
    }
    made = register(
        spark,
        settings.tables,
        settings.catalog,
        settings.schema,
        typed,
        with_rejected=REJECTED_NAME in there,
    )
    if settings.dbt is not None:
        settings.dbt.write_text(sources(settings.catalog, settings.schema, made.relations))
    return made


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "register")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@click.option("--home", help="Home of a gateway: a folder, or s3://bucket/prefix.")
@click.option("--tables", help="Folder of Spark's tables, instead of the home's.")
@click.option("--catalog", default=SESSION_CATALOG, show_default=True, help="The catalog.")
@click.option("--schema", required=True, help="The schema in it; made if there is none.")
@click.option("--dbt", type=click.Path(path_type=Path), help="Write dbt's sources to this file.")
@json_option("What was made and what was left out, as JSON.")
def command(
    *,
    home: str | None,
    tables: str | None,
    catalog: str,
    schema: str,
    dbt: Path | None,
    as_json: bool,
) -> None:
    place = folder(home, tables)
    if (path := local(place)) is not None:
        place = str(path.absolute())
    require_tables(place)
    spark = session(places=[place])
    if is_forgotten(spark, catalog):
        raise InvalidRequest(
            f"The catalog {catalog} is in memory here and ends with this job: run it where "
            "spark.sql.catalogImplementation is hive, or name another --catalog."
        )
    made = build(spark, Settings(place, schema, catalog, dbt))
    for line in said(made, as_json=as_json):
        click.echo(line)


def said(made: Registered, *, as_json: bool) -> list[str]:
    """What was made and what wasn't, in lines."""
    names = [one.name for one in made.relations]
    if as_json:
        return [json.dumps({"registered": names, "left_out": dict(made.left_out)})]
    lines = [f"registered: {', '.join(names)}"]
    return lines + [f"left out: {name}, as {why}" for name, why in made.left_out.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
