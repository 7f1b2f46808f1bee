"""The columns of a typed table, and their types.

`spark_json` writes them as Spark's and Delta's schema JSON, which `StructType.fromJson` reads.

Rule 1: a column has one type for all messages. A value that no column type fits is stored as the
        text of its JSON (`Scalar.JSON`), so nothing of it is lost.
Rule 2: names that differ only in case, or in characters that Delta doesn't take, would be one
        column: such schemas are refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as attribute
from enum import StrEnum
from typing import Final, TypeAlias

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.schema_version import LIMITS, SchemaLimits

#: Digits of a decimal at most, in Spark and Delta.
PRECISION_MAX: Final = 38
#: Characters of a description that become its column's comment: each version of the table's schema
#: repeats them.
COMMENT_CHARACTERS_MAX: Final = 500
#: Characters that Delta doesn't take in a name.
_NOT_IN_A_NAME: Final = re.compile(r"[ ,;{}()\n\t=]")


class Scalar(StrEnum):
    """A type without parts. The values are Spark's names of types, but for JSON."""

    BOOLEAN = "boolean"
    INTEGER = "integer"  #: 32 bits
    LONG = "long"  #: 64 bits
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"  #: microseconds, UTC
    JSON = "json"  #: a string, the compact JSON of a value without a column type


@dataclass(frozen=True, slots=True)
class DecimalOf:
    """An exact number of `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ListOf:
    """Elements of one type; `nullable` if an element may be null."""

    element: "ColumnType"
    nullable: bool


@dataclass(frozen=True, slots=True)
class MapOf:
    """Values of one type under keys that are strings; `nullable` if a value may be null."""

    value: "ColumnType"
    nullable: bool


@dataclass(frozen=True, slots=True)
class Struct:
    """Columns within a column."""

    columns: "tuple[Column, ...]"


ColumnType: TypeAlias = Scalar | DecimalOf | ListOf | MapOf | Struct


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name in the table, and `field`, its name in a message. `comment` is a
    description in the schema; columns that differ only in it are equal."""

    name: str
    type: ColumnType
    nullable: bool
    field: str
    comment: str = attribute(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Columns of a message's row. The first `before` of them are of its envelope (CloudEvents'
    attributes), the others of its body. `whole`: the body's only column is `value`, the body."""

    columns: tuple[Column, ...]
    whole: bool = False
    before: int = 0

    @property
    def body_columns(self) -> tuple[Column, ...]:
        return self.columns[self.before :]


#: The one column of a body that is no object.
VALUE: Final = "value"
#: Our own columns, the first ones of every typed table.
OWN: Final = ("_sequence", "_published_at", "_message_id", "_properties", "_schema_version")


def column(
    field: str,
    type: ColumnType,  # noqa: A002
    *,
    nullable: bool,
    comment: object = None,
) -> Column:
    """Return the column of a message's field, under a name that Delta takes. A comment that is no
    text is left out."""
    said = comment[:COMMENT_CHARACTERS_MAX] if isinstance(comment, str) else ""
    return Column(_NOT_IN_A_NAME.sub("_", field) or "_", type, nullable, field, said)


def distinct(columns: Iterable[Column], where: str) -> tuple[Column, ...]:
    """Return the columns. Raises InvalidRequest if two have one name; `where` is their place."""
    found: dict[str, Column] = {}
    for one in columns:
        other = found.setdefault(one.name.lower(), one)
        if other is not one:
            raise InvalidRequest(
                f"{where or 'the schema'} has fields {quoted(other.field)} and "
                f"{quoted(one.field)}, which would be one column: names of columns don't differ "
                "in case, and spaces and , ; { } ( ) = become _. Rename one of them"
            )
    return tuple(found.values())


def require_free(columns: Iterable[Column]) -> None:
    """Raise InvalidRequest for a field such as `_sequence_`: that is the column of a field
    `_sequence`, in this or another version of the topic, as the name itself is a column of ours.
    Versions already in a log aren't checked."""
    for one in columns:
        name = one.name.lower()
        if name not in OWN and name.rstrip("_") in OWN:
            raise InvalidRequest(
                f"the schema has a field {quoted(one.field)}, which is the column of a field "
                f"{name.rstrip('_')}: each row has a column of ours of that name. Rename it"
            )


def layout(root: ColumnType, limits: SchemaLimits = LIMITS) -> RowLayout:
    """Return the layout of bodies of this type. Raises InvalidRequest for too many or too deep
    columns."""
    _measured(root, limits)
    if isinstance(root, Struct):
        return RowLayout(root.columns)
    return RowLayout((Column(VALUE, root, nullable=True, field=VALUE),), whole=True)


def _measured(root: ColumnType, limits: SchemaLimits) -> None:
    count, level = 0, [root]
    for _ in range(limits.depth_max + 1):
        level = [part for one in level for part in parts(one)]
        count += len(level)
        if count > limits.columns_max:
            raise InvalidRequest(
                f"the schema has more than {limits.columns_max} columns (schemas.columns_max)"
            )
        if not level:
            return
    raise InvalidRequest(
        f"the schema's columns lie deeper than {limits.depth_max} (schemas.depth_max)"
    )


def parts(one: ColumnType) -> list[ColumnType]:
    """Return the types directly within a type."""
    match one:
        case Struct(columns):
            return [column.type for column in columns]
        case ListOf(element):
            return [element]
        case MapOf(value):
            return [value]
    return []


SparkJson: TypeAlias = "str | int | bool | list[SparkJson] | dict[str, SparkJson]"


def spark_json(columns: Iterable[Column]) -> dict[str, SparkJson]:
    """Return columns as Spark's StructType in JSON. `metadata` has `field` if the name in the
    message is another one, `json` for a text of JSON, and `comment`."""
    return {"type": "struct", "fields": [_spark_field(one) for one in columns]}


def _spark_field(one: Column) -> dict[str, SparkJson]:
    metadata: dict[str, SparkJson] = {}
    if one.field != one.name:
        metadata["field"] = one.field
    if one.type is Scalar.JSON:
        metadata["json"] = True
    if one.comment:
        metadata["comment"] = one.comment
    return {
        "name": one.name,
        "type": _spark_type(one.type),
        "nullable": one.nullable,
        "metadata": metadata,
    }


def _spark_type(one: ColumnType) -> SparkJson:
    match one:
        case Scalar.JSON:
            return "string"
        case Scalar():
            return one.value
        case DecimalOf(precision, scale):
            return f"decimal({precision},{scale})"
        case ListOf(element, nullable):
            kind = _spark_type(element)
            return {"type": "array", "elementType": kind, "containsNull": nullable}
        case MapOf(value, nullable):
            return {
                "type": "map",
                "keyType": "string",
                "valueType": _spark_type(value),
                "valueContainsNull": nullable,
            }
        case Struct(columns):
            return spark_json(columns)
