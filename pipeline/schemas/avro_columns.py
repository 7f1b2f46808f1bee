"""Avro as columns (Avro 1.12, "Schema Declaration" and "Logical Types").

| Avro | column |
|---|---|
| boolean, int, long, float, double | boolean, integer, long, float, double |
| string, bytes | string, binary |
| fixed, enum | binary, string |
| record, array, map | struct, list, map |
| union of one type and null | that type, nullable |
| union of several types | the text of its JSON |
| null | string, always null |
| decimal of up to 38 digits; of more | decimal; string |
| date | date |
| timestamp-millis, -micros, -nanos | timestamp; digits behind microseconds are cut off |
| local-timestamp-*, time-* | string, as ISO 8601 writes it |
| uuid | string |
| other logical types | the column of the type below it |

Recursive types are refused: a body could make libraries follow them without limit. So are arrays
whose items take no bytes: eight bytes could declare billions of them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, cast

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.column_types import (
    PRECISION_MAX,
    ColumnType,
    DecimalOf,
    ListOf,
    MapOf,
    RowLayout,
    Scalar,
    Struct,
    column,
    distinct,
    layout,
)
from distributary.pipeline.schemas.json_columns import parsed
from distributary.pipeline.schemas.schema_version import LIMITS, SchemaLimits

Node: TypeAlias = dict[str, object]

PRIMITIVES: Final[Mapping[str, ColumnType]] = {
    "null": Scalar.STRING,
    "boolean": Scalar.BOOLEAN,
    "int": Scalar.INTEGER,
    "long": Scalar.LONG,
    "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE,
    "string": Scalar.STRING,
    "bytes": Scalar.BINARY,
}

#: (type, logical type) -> column.
LOGICAL: Final[Mapping[tuple[str, str], ColumnType]] = {
    ("int", "date"): Scalar.DATE,
    ("int", "time-millis"): Scalar.STRING,
    ("long", "time-micros"): Scalar.STRING,
    ("long", "timestamp-millis"): Scalar.TIMESTAMP,
    ("long", "timestamp-micros"): Scalar.TIMESTAMP,
    ("long", "timestamp-nanos"): Scalar.TIMESTAMP,
    ("long", "local-timestamp-millis"): Scalar.STRING,
    ("long", "local-timestamp-micros"): Scalar.STRING,
    ("long", "local-timestamp-nanos"): Scalar.STRING,
    ("string", "uuid"): Scalar.STRING,
    ("fixed", "uuid"): Scalar.STRING,
}


class Found(NamedTuple):
    """The column type of a schema, whether a value may be null, and whether it may take no
    bytes."""

    type: ColumnType
    nullable: bool
    empty: bool = False


def avro_columns(definition: str, limits: SchemaLimits = LIMITS) -> RowLayout:
    """Return the layout of the bodies that an Avro schema describes. Raises InvalidRequest for text
    that is no Avro schema, recursive types, and schemas beyond the limits."""
    return layout(_Walk(limits).found(parsed(definition), "", 0).type, limits)


class _Walk:
    """A walk over one definition: the named types read so far, and those being read."""

    def __init__(self, limits: SchemaLimits) -> None:
        self._limits = limits
        self._named: dict[str, Found | None] = {}  # None: being read

    def found(self, node: object, namespace: str, depth: int) -> Found:
        if depth > 2 * self._limits.depth_max:
            raise InvalidRequest(
                f"the schema is nested deeper than {self._limits.depth_max} (schemas.depth_max)"
            )
        match node:
            case str():
                return self._by_name(node, namespace)
            case list():
                return self._union(node, namespace, depth)
            case dict():
                return self._declared(cast("Node", node), namespace, depth)
        raise InvalidRequest(f"{quoted(node)} is no Avro schema")

    def _by_name(self, name: str, namespace: str) -> Found:
        if name in PRIMITIVES:
            return Found(PRIMITIVES[name], name == "null", name == "null")
        full = _full_name(name, namespace)
        if full not in self._named:
            raise InvalidRequest(f"the schema names the type {quoted(full)}, and doesn't define it")
        found = self._named[full]
        if found is None:
            raise InvalidRequest(
                f"the type {quoted(full)} is within itself: recursive types have no columns, and "
                "no limit in depth. Give it so many levels as there are"
            )
        return found

    def _union(self, branches: list[object], namespace: str, depth: int) -> Found:
        found = [(one, self.found(one, namespace, depth + 1)) for one in branches]
        real = [which for one, which in found if not _is_null(one)]
        nullable = len(real) < len(found)
        if not real:
            return Found(Scalar.STRING, nullable=True)
        if len(real) > 1:
            return Found(Scalar.JSON, nullable=True)
        return Found(real[0].type, nullable or real[0].nullable)

    def _declared(self, said: Node, namespace: str, depth: int) -> Found:
        kind = said.get("type")
        if not isinstance(kind, str):
            return self.found(kind, namespace, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(kind, said, namespace, depth)
        if kind == "array":
            return self._array(said, namespace, depth)
        if kind == "map":
            values = self.found(said.get("values"), namespace, depth + 1)
            return Found(MapOf(values.type, values.nullable), nullable=False)
        logical = _logical(kind, said)
        return self._by_name(kind, namespace) if logical is None else Found(logical, nullable=False)

    def _array(self, said: Node, namespace: str, depth: int) -> Found:
        items = self.found(said.get("items"), namespace, depth + 1)
        if items.empty:
            raise InvalidRequest(
                "an array has items that take no bytes: a short body could have billions of them. "
                "Give them a type with a value"
            )
        return Found(ListOf(items.type, items.nullable), nullable=False)

    def _defined(self, kind: str, said: Node, namespace: str, depth: int) -> Found:
        own = said.get("namespace")
        full = _full_name(str(said.get("name")), own if isinstance(own, str) else namespace)
        self._named[full] = None
        match kind:
            case "enum":
                found = Found(Scalar.STRING, nullable=False)
            case "fixed":
                logical = _logical(kind, said)
                found = Found(logical or Scalar.BINARY, nullable=False, empty=not said.get("size"))
            case _:
                found = self._record(said, full, depth)
        self._named[full] = found
        return found

    def _record(self, said: Node, full: str, depth: int) -> Found:
        fields = said.get("fields")
        if not isinstance(fields, list):
            raise InvalidRequest(f"the record {quoted(full)} has no list of fields")
        columns, empty = [], True
        for one in fields:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise InvalidRequest(f"a field of the record {quoted(full)} has no name")
            found = self.found(one.get("type"), full.rpartition(".")[0], depth + 1)
            empty = empty and found.empty
            name, says, nullable = one["name"], one.get("doc"), found.nullable
            columns.append(column(name, found.type, nullable=nullable, comment=says))
        if not columns:
            return Found(Scalar.JSON, nullable=True, empty=True)
        return Found(Struct(distinct(columns, f"the record {full}")), nullable=False, empty=empty)


def _is_null(node: object) -> bool:
    return node == "null" or (isinstance(node, dict) and node.get("type") == "null")


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _logical(kind: str, said: Node) -> ColumnType | None:
    """Return the column of a logical type; None if the type below it decides."""
    logical = said.get("logicalType")
    if not isinstance(logical, str):
        return None
    if logical != "decimal" or kind not in ("bytes", "fixed"):
        return LOGICAL.get((kind, logical))
    precision, scale = said.get("precision"), said.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return DecimalOf(precision, scale) if 0 < precision <= PRECISION_MAX else Scalar.STRING
