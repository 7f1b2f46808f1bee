"""Puts a home's tables and views into a catalog of the session, to stay there.

Rule 1: no table is written: a table of the catalog is external, and its columns and their comments
        are those of the Delta table. Nothing is dropped from the catalog.
Rule 2: a view is made anew each time. A catalog without views gets the tables alone.
Rule 3: each log of a lake has a schema of its own; views unite the logs' tables.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.catalog.relations import (
    LEFT_OUT,
    SESSION_CATALOG,
    Relation,
    column_list,
    identifier,
    query,
    tables,
    views,
)
from distributary.pipeline.transforms.catalog.united_relations import (
    together,
    united,
    why_not,
)
from distributary.pipeline.transforms.schema.home_tables import find_tables
from distributary.pipeline.transforms.selector.term_renderings import text_literal

#: Spark's error conditions for a catalog without views.
_NO_VIEWS = ("MISSING_CATALOG_ABILITY", "UNSUPPORTED_FEATURE", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE")


@dataclass(frozen=True, slots=True)
class Registered:
    """Relations that a catalog has now, and those that it lacks, each with the reason."""

    relations: tuple[Relation, ...]
    left_out: Mapping[str, str]


def is_forgotten(spark: SparkSession, catalog: str) -> bool:
    """Whether the catalog ends with the session."""
    kept = spark.conf.get("spark.sql.catalogImplementation", "in-memory")
    return catalog == SESSION_CATALOG and kept == "in-memory"


def register(
    spark: SparkSession,
    place: str,
    catalog: str,
    schema: str,
    typed: Mapping[str, StructType],
    *,
    with_rejected: bool,
) -> Registered:
    """Make the tables and views of the home at `place`, an absolute path or a URL, in
    `catalog`.`schema`, which is made if there is none.

    Raises InvalidRequest when there are no tables, or a name is taken by something else.
    """
    found = find_tables(spark, place)
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {identifier(catalog, schema)}")
    made: list[Relation] = []
    named: dict[str, str] = {}
    for table in tables(typed, with_rejected=with_rejected):
        named[table.name] = identifier(catalog, schema, table.name)
        _table(spark, named[table.name], f"{found.folder}/{table.folder}")
        made.append(table)
    left_out = dict(LEFT_OUT)
    selectors = _selectors(spark, named["cursors"])
    for view in views():
        named[view.name] = identifier(catalog, schema, view.name)
        why = _view(spark, named[view.name], view, query(view.name, named, selectors))
        if why:
            left_out[view.name] = why
        else:
            made.append(view)
    return Registered(tuple(made), left_out)


def register_together(
    spark: SparkSession,
    catalog: str,
    schema: str,
    logs: Mapping[str, Registered],
    schemas: Mapping[str, str],
) -> Registered:
    """Make a view in `catalog`.`schema` over each table and view that the logs of a lake have
    there, each log in its own of `schemas`.

    Raises InvalidRequest when a name is taken by something else.
    """
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {identifier(catalog, schema)}")
    made: list[Relation] = []
    left_out = {name: why for one in logs.values() for name, why in one.left_out.items()}
    for one in united({log: there.relations for log, there in logs.items()}):
        view = one.view
        places = {log: identifier(catalog, schemas[log], name) for log, name in one.parts.items()}
        kinds = {log: spark.table(place).schema for log, place in places.items()}
        why = why_not(kinds)
        if not why:
            name = identifier(catalog, schema, view.name)
            why = _view(spark, name, view, together(one, places, kinds))
        if why:
            left_out[view.name] = why
        else:
            made.append(view)
    return Registered(tuple(made), left_out)


def _table(spark: SparkSession, name: str, path: str) -> None:
    if spark.catalog.tableExists(name):
        there = dict(_described(spark, name))
        if _plain(there.get("Location", "")) != _plain(path):
            lies = there.get("Location") or there.get("Type", "not a table")
            raise InvalidRequest(
                f"{name} is there already, and isn't {path} but {lies}: name another --schema, "
                "or drop it."
            )
        return
    # Delta drops a comment in CREATE TABLE, and `COMMENT ON TABLE` is a commit to the table.
    spark.sql(f"CREATE TABLE {name} USING delta LOCATION {text_literal(path)}")


def _described(spark: SparkSession, name: str) -> Iterator[tuple[str, str]]:
    for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect():
        yield row.col_name, row.data_type or ""


def _plain(location: str) -> str:
    """A path or a URL in one form."""
    for scheme in ("file://", "file:"):
        location = location.removeprefix(scheme)
    return location.rstrip("/")


def _view(spark: SparkSession, name: str, view: Relation, asked: str) -> str:
    """Make a view of the query `asked`. Return "", or the reason if the catalog has no views."""
    sql = (
        f"CREATE OR REPLACE VIEW {name} ({column_list(view.columns)}) "
        f"COMMENT {text_literal(view.says)} AS\n{asked}"
    )
    try:
        spark.sql(sql)
    except (AnalysisException, ParseException, UnsupportedOperationException) as error:
        condition = error.getCondition() or ""
        if condition.startswith(_NO_VIEWS):
            return "the catalog has no views"
        if condition == "EXPECT_VIEW_NOT_TABLE":
            raise InvalidRequest(
                f"{name} is there already, and is a table: name another --schema, or drop it."
            ) from error
        if condition.startswith("UNRESOLVED_COLUMN"):
            raise InvalidRequest(
                "The tables lack columns of this version: run `distributary jobs materialize` "
                "first."
            ) from error
        raise
    return ""


def _selectors(spark: SparkSession, cursors: str) -> list[str]:
    rows = spark.sql(
        f"SELECT DISTINCT selector FROM {cursors} WHERE selector IS NOT NULL"  # noqa: S608
    ).collect()
    return [row.selector for row in rows]
