"""The tables that a topic's schemas make, and the table of each message.

Rule 1: a table only grows: columns are added to it, and each may be null. A version whose columns
        can't be added begins the next table, beside it (`orders.v2`); nothing is rewritten.
Rule 2: columns have their widest type from the start: integers are longs, floats doubles.
Rule 3: tables follow from the events alone, so every process with the events finds the same tables.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from distributary.pipeline.distinct_names import beside
from distributary.pipeline.schemas import column_types
from distributary.pipeline.schemas.schema_choice import chosen
from distributary.pipeline.schemas.schema_text import version_of
from distributary.pipeline.schemas.schema_version import SchemaVersion
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES
from distributary.pipeline.transforms.schema.topic_folders import folder_name

#: Columns of every typed table, before those of the schema.
OWN: Final = StructType(
    [
        StructField(name, kind, metadata={"comment": says})
        for name, (kind, says) in zip(
            column_types.OWN,
            (
                (LongType(), "position in the log"),
                (TimestampType(), "when it was made durable"),
                (StringType(), "as in `messages`"),
                (MESSAGES["properties"].dataType, "as in `messages`"),
                (LongType(), "the version that read it"),
            ),
            strict=True,
        )
    ]
)


@dataclass(frozen=True, slots=True)
class SchemaEvent:
    """A schema was set for a topic or a pattern, or dropped (`schema` is None). The event counts
    for messages from `floor` on. `columns` are Spark's, as JSON."""

    topic: str
    floor: int
    schema: SchemaVersion | None
    columns: str = ""

    @classmethod
    def of(cls, topic: str, floor: int, text: str) -> "SchemaEvent":
        """An event by the text that the log has of it."""
        columns = json.loads(text).get("columns")
        said = "" if columns is None else json.dumps(columns)
        return cls(topic, floor, version_of(topic, text), said)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "SchemaEvent":
        """An event by its row of the table `schemas`."""
        if row["version"] is None:
            return cls(row["topic"], row["floor"], None)
        said = {**row, "columns": json.loads(row["columns"])}
        return cls.of(row["topic"], row["floor"], json.dumps(said, default=str))


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[SchemaEvent]:
    """Rows of `schemas` as events, in the order of the log."""
    ordered = sorted(rows, key=lambda row: (row["group"], row["floor"], row["version"] or 0))
    return [SchemaEvent.of_row(row) for row in ordered]


@dataclass(frozen=True, slots=True)
class Reign:
    """From `floor` on messages of a topic are read by this version, and go into this table; None:
    they have no schema. `names` are the version's columns with the names in the table."""

    floor: int
    schema: SchemaVersion | None
    table: str
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicTables:
    """The reigns over one topic, and its tables, by the events."""

    reigns: tuple[Reign, ...]
    tables: dict[str, StructType]  #: by name, below FOLDER


def topic_tables(events: Sequence[SchemaEvent], topic: str) -> TopicTables:
    """The reigns over a topic, and its tables. Events are in the order of the log."""
    current: dict[str, SchemaEvent] = {}
    reigns: list[Reign] = []
    tables: dict[str, StructType] = {}
    number = 1
    for event in events:
        current[event.topic] = event
        in_force = [name for name, one in current.items() if one.schema is not None]
        name = chosen(in_force, topic)
        schema = None if name is None else current[name].schema
        if schema == (reigns[-1].schema if reigns else None):
            continue
        if schema is None or name is None:
            reigns.append(Reign(event.floor, None, ""))
            continue
        said = StructType.fromJson(json.loads(current[name].columns))
        names = beside([one.name for one in said], OWN.names)
        wanted = StructType(
            [
                *OWN.fields,
                *(
                    StructField(names[one.name], widest(one.dataType), metadata=one.metadata)
                    for one in said
                ),
            ]
        )
        table = folder_name(topic, number)
        known = tables.get(table)
        grown = wanted if known is None else joined(known, wanted)
        if grown is None:
            number += 1
            table, grown = folder_name(topic, number), wanted
        assert isinstance(grown, StructType)  # noqa: S101
        tables[table] = grown
        reigns.append(Reign(event.floor, schema, table, tuple(names.items())))
    return TopicTables(tuple(reigns), tables)


def widest(kind: DataType) -> DataType:
    """Return the widest type for a column, nullable in all parts: it needs no widening later."""
    match kind:
        case IntegerType():
            return LongType()
        case FloatType():
            return DoubleType()
        case ArrayType():
            return ArrayType(widest(kind.elementType))
        case MapType():
            return MapType(kind.keyType, widest(kind.valueType))
        case StructType():
            return StructType(
                [StructField(one.name, widest(one.dataType), metadata=one.metadata) for one in kind]
            )
    return kind


def joined(one: DataType, other: DataType) -> DataType | None:
    """Return a type for values of both types; None if there is none. Columns keep their places."""
    match one, other:
        case StructType(), StructType():
            return _joined_columns(one, other)
        case ArrayType(), ArrayType():
            element = joined(one.elementType, other.elementType)
            return None if element is None else ArrayType(element)
        case MapType(), MapType():
            value = joined(one.valueType, other.valueType)
            return None if value is None else MapType(one.keyType, value)
    return one if one == other else None


def _joined_columns(one: StructType, other: StructType) -> StructType | None:
    there = {field.name.lower(): field for field in one}
    found = {field.name.lower(): field for field in one}
    for field in other:
        known = there.get(field.name.lower())
        if known is None:
            found[field.name.lower()] = field
            continue
        if known.name != field.name or _is_json(known) != _is_json(field):
            return None
        kind = joined(known.dataType, field.dataType)
        if kind is None:
            return None
        found[field.name.lower()] = StructField(field.name, kind, metadata=known.metadata)
    return StructType(list(found.values()))


def _is_json(field: StructField) -> bool:
    return bool((field.metadata or {}).get("json"))
