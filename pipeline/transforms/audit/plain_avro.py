"""Bodies of Avro, read by the specification alone (Avro 1.12: "Binary encoding", "Schema
Resolution"), and by none of the code that makes typed rows.

A value is read by the writer's schema, then converted to the reader's. A value that its column has
as JSON, and one that was written with another logical type than it is read with, is UNJUDGED.
"""

import json
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

#: A type with its named types filled in. Unions are lists, all others have a `type`.
Node = Any


class Unjudged(Enum):
    """A value that isn't compared."""

    UNJUDGED = "unjudged"


UNJUDGED: Final = Unjudged.UNJUDGED

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PRECISION_MAX: Final = 38
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_NAMED: Final = ("record", "error", "enum", "fixed")
_LOGICAL: Final = ("logicalType", "precision", "scale")
_DAY: Final = timedelta(days=1)
_LONG_BITS: Final = 64
#: Nanoseconds of a unit.
_UNITS: Final = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


class AvroBodies:
    """Reads bodies by a reader's schema; `writers` are other versions by their registry ids."""

    def __init__(self, definition: str, writers: Mapping[str, str]) -> None:
        self._reader = _whole(json.loads(definition), "", {})
        self._writers = {name: _whole(json.loads(one), "", {}) for name, one in writers.items()}

    def read(self, data: bytes, registry_id: str) -> object:
        """The value of a body. Raises ValueError for bytes that aren't of the schema."""
        writer = self._reader
        if registry_id and self._writers:
            if registry_id not in self._writers:
                raise ValueError(f"no version has the registry id {registry_id}")
            writer = self._writers[registry_id]
        cursor = _Cursor(data)
        value = cursor.value(writer)
        if cursor.at != len(data):
            raise ValueError(f"{len(data) - cursor.at} bytes stand behind the value")
        return _told(value, writer, self._reader)


def _whole(node: Node, namespace: str, known: dict[str, Node]) -> Node:
    """A schema with each name of a type replaced by the type."""
    if isinstance(node, list):
        return [_whole(one, namespace, known) for one in node]
    if isinstance(node, str):
        full = node if "." in node or not namespace else f"{namespace}.{node}"
        return known.get(full, known.get(node, {"type": node}))
    kind = node["type"]
    if not isinstance(kind, str):
        return _whole(kind, namespace, known)
    found = dict(node)
    if kind in _NAMED:
        name = node["name"]
        own = name.rpartition(".")[0] or node.get("namespace", namespace)
        full = name if "." in name or not own else f"{own}.{name}"
        known[full] = found
        if kind in ("record", "error"):
            found["fields"] = [
                {**one, "type": _whole(one["type"], own, known)} for one in node["fields"]
            ]
    elif kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        found[part] = _whole(node[part], namespace, known)
    elif kind in known or f"{namespace}.{kind}" in known:
        return _whole(kind, namespace, known)
    return found


class _Branch:
    """A value of a union, and its type."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node, value: object) -> None:
        self.node, self.value = node, value


class _Cursor:
    """Reads values one behind the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def value(self, node: Node) -> object:
        if isinstance(node, list):
            nth = self._long()
            if not 0 <= nth < len(node):
                raise ValueError(f"a union has no branch {nth}")
            return _Branch(node[nth], self.value(node[nth]))
        match node["type"]:
            case "null":
                return None
            case "boolean":
                return self._bytes(1) != b"\0"
            case "int" | "long":
                return self._long()
            case "float":
                return struct.unpack("<f", self._bytes(4))[0]
            case "double":
                return struct.unpack("<d", self._bytes(8))[0]
            case "bytes":
                return self._bytes(self._long())
            case "string":
                return self._bytes(self._long()).decode()
            case _:
                return self._complex(node)

    def _complex(self, node: Node) -> object:
        match node["type"]:
            case "fixed":
                return self._bytes(node["size"])
            case "enum":
                nth = self._long()
                if not 0 <= nth < len(node["symbols"]):
                    raise ValueError(f"an enum has no symbol {nth}")
                return node["symbols"][nth]
            case "array":
                return [self.value(node["items"]) for _ in self._blocks()]
            case "map":
                return {
                    self._bytes(self._long()).decode(): self.value(node["values"])
                    for _ in self._blocks()
                }
            case "record" | "error":
                return {one["name"]: self.value(one["type"]) for one in node["fields"]}
        raise ValueError(f"there is no type {node['type']}")

    def _blocks(self) -> Any:
        """Yield once for each item of an array or a map."""
        while count := self._long():
            if count < 0:
                self._long()  # the block's bytes
            yield from range(abs(count))

    def _bytes(self, count: int) -> bytes:
        found = self._data[self.at : self.at + max(count, 0)]
        if count < 0 or len(found) < count:
            raise ValueError("the body is cut off")
        self.at += count
        return found

    def _long(self) -> int:
        value = shift = 0
        while True:
            [byte] = self._bytes(1)
            value |= (byte & 127) << shift
            shift += 7
            if value >> _LONG_BITS or (byte > 127 and shift > _LONG_BITS):
                raise ValueError("an integer has more than 64 bits")
            if byte < 128:
                return (value >> 1) ^ -(value & 1)


def _told(value: Any, writer: Node, reader: Node) -> Any:
    """A value of the writer's type converted to the reader's, in Python's own types."""
    if isinstance(value, _Branch):
        return _told(value.value, value.node, reader)
    if isinstance(reader, list):
        real = [one for one in reader if one["type"] != "null"]
        if len(real) > 1:
            return None if value is None else UNJUDGED
        if value is None:
            return None
        reader = real[0] if real else {"type": "null"}
    match reader["type"]:
        case "record" | "error":
            return _record(value, writer, reader)
        case "array":
            return [_told(one, writer["items"], reader["items"]) for one in value]
        case "map":
            return {
                key: _told(one, writer["values"], reader["values"]) for key, one in value.items()
            }
        case "enum":
            return value if value in reader["symbols"] else reader.get("default")
    if any(one in writer and writer[one] != reader.get(one) for one in _LOGICAL):
        return UNJUDGED
    return _logical(_promoted(value, reader["type"]), reader)


def _record(value: Mapping[str, Any], writer: Node, reader: Node) -> dict[str, Any]:
    there = {one["name"]: one["type"] for one in writer["fields"]}
    found: dict[str, Any] = {}
    for one in reader["fields"]:
        names = [name for name in (one["name"], *one.get("aliases", ())) if name in there]
        if names:
            found[one["name"]] = _told(value[names[0]], there[names[0]], one["type"])
        else:
            found[one["name"]] = _default(one["default"], one["type"])
    return found


def _promoted(value: Any, kind: str) -> Any:
    if kind in ("float", "double") and isinstance(value, int):
        return float(value)
    if kind == "bytes" and isinstance(value, str):
        return value.encode()
    if kind == "string" and isinstance(value, bytes):
        return value.decode()
    return value


def _default(value: Any, node: Node) -> Any:
    """A default in the definition as a value: bytes are written as a text of one character each.
    The default of a union is of its first branch."""
    if isinstance(node, list):
        if len([one for one in node if one["type"] != "null"]) > 1:
            return None if value is None else UNJUDGED
        real = [one for one in node if (one["type"] == "null") == (value is None)]
        return None if value is None else _default(value, real[0])
    match node["type"]:
        case "record" | "error":
            return {
                one["name"]: _default(value.get(one["name"], one.get("default")), one["type"])
                for one in node["fields"]
            }
        case "array":
            return [_default(one, node["items"]) for one in value]
        case "map":
            return {key: _default(one, node["values"]) for key, one in value.items()}
        case "bytes" | "fixed":
            return _logical(value.encode("latin-1"), node)
    return _logical(_promoted(value, node["type"]), node)


def _logical(value: Any, node: Node) -> Any:
    """Convert a value by its logical type."""
    logical, kind = node.get("logicalType"), node["type"]
    match kind, logical:
        case (("bytes" | "fixed"), "decimal") if isinstance(node.get("precision"), int):
            found = _decimal(value, node["precision"], node.get("scale", 0))
            return found if node["precision"] <= _PRECISION_MAX else format(found, "f")
        case "int", "date":
            return date(1970, 1, 1) + timedelta(days=value)
        case (("string" | "fixed"), "uuid"):
            return str(UUID(value) if kind == "string" else UUID(bytes=value))
        case (("int" | "long"), str()) if "time" in logical:
            return _time(value, logical)
    return value


def _decimal(value: bytes, precision: int, scale: int) -> Decimal:
    """All digits of a decimal: Python's own context would round to 28 of them. A long integer is
    refused before its digits are counted, which takes the square of its length."""
    unscaled = int.from_bytes(value, "big", signed=True)
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"a decimal has more digits than its precision, {precision}")
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale))


def _time(value: int, logical: str) -> Any:
    name, _, unit = logical.rpartition("-")
    if unit not in _UNITS:
        return UNJUDGED
    since = timedelta(microseconds=value * _UNITS[unit] // 1_000)
    match name:
        case "timestamp":
            return _EPOCH + since
        case "local-timestamp":
            return (_EPOCH.replace(tzinfo=None) + since).isoformat()
        case "time" if unit != "nanos":
            if not timedelta() <= since < _DAY:
                raise ValueError(f"{value} is no time of a day")
            return (datetime.combine(date.min, time()) + since).time().isoformat()
    return value
