"""Puts all tables and views of a home into a catalog, where they stay: for SQL from anywhere.

Tables become external tables, with Delta's own columns and comments; nothing of them is written.
Views become SQL views. Of a lake each log has a schema of its own, and views unite them: each row
says its log. Which may be read by whom stays the catalog's. What a view can't be made of, because
it asks a gateway or takes arguments, is left out and named.

Run by `distributary jobs register --home DIR --schema NAME` or `spark-submit
jobs/views/register_job.py ...`, in a session that has the catalog.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import execute, folders, json_option
from distributary.jobs.session.session import session
from distributary.jobs.tables.folders import local, require_tables
from distributary.jobs.tables.lake_homes import lake_of
from distributary.jobs.tables.spark_tables import typed_names
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.catalog.catalog_registry import (
    Registered,
    is_forgotten,
    register,
    register_together,
)
from distributary.pipeline.transforms.catalog.dbt_sources import sources
from distributary.pipeline.transforms.catalog.relations import SESSION_CATALOG
from distributary.pipeline.transforms.catalog.united_relations import log_schemas
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME

EXAMPLES = """
\b
Examples:
  distributary jobs register --home build/demo --schema messaging
  distributary jobs register --home build/demo --catalog lake --schema messaging \\
      --dbt models/sources.yml
  distributary jobs register --home /srv/lake --schema messaging
  spark-submit jobs/views/register_job.py --tables s3a://lake/tables --schema messaging
\b
Exit codes: 0 done, 1 the catalog refused or the job failed, 2 bad arguments or no tables.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the job. `tables` are the folders of Spark's tables by their logs, absolute
    paths or URLs: of a home that is no lake one, whose log has no name. `dbt` is a file for dbt's
    `sources.yml`, if it is wanted. `logs` are all of the lake in the order in which they were made,
    so that a log's schema is the same whichever have tables."""

    tables: Mapping[str, str]
    schema: str
    catalog: str = SESSION_CATALOG
    dbt: Path | None = None
    logs: tuple[str, ...] = ()


def build(spark: SparkSession, settings: Settings) -> Registered:
    """Register, and write dbt's file. Raises InvalidRequest, OSError."""
    catalog, schema, logs = settings.catalog, settings.schema, settings.tables
    if "" in logs:
        made = _of_folder(spark, logs[""], catalog, schema)
    else:
        logs = _with_tables(spark, logs)
        schemas = log_schemas(schema, settings.logs or logs)
        each = {
            log: _of_folder(spark, folder, catalog, schemas[log]) for log, folder in logs.items()
        }
        made = register_together(spark, catalog, schema, each, schemas)
    if settings.dbt is not None:
        names = [log for log in logs if log]
        settings.dbt.write_text(sources(catalog, schema, made.relations, names))
    return made


def _with_tables(spark: SparkSession, logs: Mapping[str, str]) -> dict[str, str]:
    """Return the logs that have tables; print the others. Raises InvalidRequest when none has."""
    found = {
        log: folder
        for log, folder in logs.items()
        if DeltaTable.isDeltaTable(spark, f"{folder}/cursors")
    }
    if not found:
        raise InvalidRequest(
            "No log of this lake has tables: run `distributary jobs materialize` first."
        )
    for log in logs.keys() - found.keys():
        click.echo(f"The log {log} is left out: it has no tables yet.", err=True)
    return found


def _of_folder(spark: SparkSession, folder: str, catalog: str, schema: str) -> Registered:
    there = typed_names(spark, folder)
    typed = {
        name.removeprefix(f"{FOLDER}/"): spark.read.format("delta").load(f"{folder}/{name}").schema
        for name in sorted(there)
        if name != REJECTED_NAME
    }
    with_rejected = REJECTED_NAME in there
    return register(spark, folder, catalog, schema, typed, with_rejected=with_rejected)


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
    places = {log: _absolute(place) for log, place in folders(home, None, tables).items()}
    if "" in places:
        require_tables(places[""])
    lake = None if home is None or "" in places else lake_of(home)
    logs = () if lake is None else lake.placement().logs
    spark = session(places=places.values())
    if is_forgotten(spark, catalog):
        raise InvalidRequest(
            f"The catalog {catalog} is in memory here and ends with this job: run it where "
            "spark.sql.catalogImplementation is hive, or name another --catalog."
        )
    made = build(spark, Settings(places, schema, catalog, dbt, logs))
    for line in said(made, as_json=as_json):
        click.echo(line)


def _absolute(place: str) -> str:
    path = local(place)
    return place if path is None else str(path.absolute())


def said(made: Registered, *, as_json: bool) -> list[str]:
    """Return the made and the omitted relations, in lines."""
    names = [one.name for one in made.relations]
    if as_json:
        return [json.dumps({"registered": names, "left_out": dict(made.left_out)})]
    lines = [f"registered: {', '.join(names)}"]
    return lines + [f"left out: {name}, as {why}" for name, why in made.left_out.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
