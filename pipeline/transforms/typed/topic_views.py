"""Topics by their names, for SQL: `SELECT * FROM orders`.

Rule: a topic with several tables side by side is one view of all their rows. A column whose type
      differs between them is text in the view; a list, map or struct is its JSON.
"""

import json
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from distributary.pipeline.distinct_names import beside
from distributary.pipeline.schemas.schema_choice import chosen
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.lake_rows import TYPED_LOG, with_log
from distributary.pipeline.transforms.typed.topic_tables import (
    SchemaEvent,
    in_order,
    topic_tables,
)

#: Setting of a session with the names of its views of topics, as JSON.
_MADE: Final = "spark.distributary.topics"


def register_topics(
    logs: Mapping[str, Tables],
    schemas: Mapping[str, Iterable[Mapping[str, Any]]],
    taken: Iterable[str],
) -> None:
    """Make the views in the session of these tables; views made before, of another home, go. A view
    of a lake has the rows of all logs that have the topic, and a column `_log` in front; a home
    that is no lake has one log without a name. `schemas` are the rows of each log's table."""
    spark = next(iter(logs.values())).spark
    for name in json.loads(spark.conf.get(_MADE, "[]") or "[]"):
        spark.catalog.dropTempView(name)
    found: dict[str, dict[str, DataFrame]] = {}
    for log, tables in logs.items():
        for name, rows in topic_views(tables, schemas[log], taken).items():
            found.setdefault(name, {})[log] = rows
    views = {
        name: parts[""] if "" in parts else topic_of_logs(parts) for name, parts in found.items()
    }
    for name, rows in views.items():
        rows.createOrReplaceTempView(f"`{name.replace('`', '``')}`")
    spark.conf.set(_MADE, json.dumps(list(views)))


def topic_views(
    tables: Tables, schemas: Iterable[Mapping[str, Any]], taken: Iterable[str]
) -> dict[str, DataFrame]:
    """By name a view for each topic that has typed tables by these rows of `schemas`; a name that
    is `taken` gets `_` behind it.

    Cost: a look at each typed table; if there are patterns, one reading of the topics of
    `messages`.
    """
    events = in_order(schemas)
    known = {name.lower() for name in taken}
    found: dict[str, DataFrame] = {}
    for topic in _topics(tables, events):
        names = [f"{FOLDER}/{one}" for one in topic_tables(events, topic).tables]
        there = tables.some(names)
        if there:
            name = topic
            while name.lower() in known:
                name += "_"
            known.add(name.lower())
            found[name] = together(list(there.values()))
    return found


def _topics(tables: Tables, events: list[SchemaEvent]) -> list[str]:
    words = {one.topic for one in events if one.schema is not None}
    patterns = {one for one in words if "*" in one or "?" in one}
    topics = words - patterns
    if patterns:
        said = (row.topic for row in tables.messages.select("topic").distinct().collect())
        topics |= {one for one in said if chosen(patterns, one) is not None}
    return sorted(topics)


def topic_of_logs(logs: Mapping[str, DataFrame]) -> DataFrame:
    """The typed rows of one topic in several logs, with TYPED_LOG in front; a field of that name
    gets `_` behind it."""
    names = beside(
        dict.fromkeys(one for rows in logs.values() for one in rows.columns), [TYPED_LOG]
    )
    renamed = {name: column for name, column in names.items() if name != column}
    return together(
        [with_log(rows.withColumnsRenamed(renamed), log, TYPED_LOG) for log, rows in logs.items()]
    )


def together(some: list[DataFrame]) -> DataFrame:
    """The rows of tables that stand side by side."""
    if len(some) == 1:
        return some[0]
    kinds: dict[str, set[str]] = {}
    names: dict[str, str] = {}
    for rows in some:
        for field in rows.schema:
            names.setdefault(field.name.lower(), field.name)
            kinds.setdefault(field.name.lower(), set()).add(field.dataType.simpleString())
    texts = {name for name, found in kinds.items() if len(found) > 1}
    return reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [_named(rows, names, texts) for rows in some],
    )


def _named(rows: DataFrame, names: Mapping[str, str], texts: set[str]) -> DataFrame:
    return rows.select(
        *(
            (
                _text(one.name, one.dataType) if one.name.lower() in texts else _column(one.name)
            ).alias(names[one.name.lower()])
            for one in rows.schema
        )
    )


def _text(name: str, kind: DataType) -> Column:
    match kind:
        case StringType():
            return _column(name)
        case ArrayType() | MapType() | StructType():
            return F.to_json(_column(name))
        case BinaryType():
            return F.base64(_column(name))
    return _column(name).cast("string")


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")
