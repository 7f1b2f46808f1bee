"""Defaults of an Avro schema as values that a body could have had.

A field that the writer doesn't know has the reader's default. fastavro returns it unchanged from
the definition: a text for bytes, a number for a date or a time (Avro 1.12, "Complex Types").
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from distributary.pipeline.schemas.amqp_instance import EPOCH
from distributary.pipeline.schemas.avro_columns import LOGICAL

#: A type of a definition parsed by fastavro: names have their namespaces.
Node: TypeAlias = Any

#: Raised for a default that isn't of its field's type: it isn't changed.
_NOT_OF_ITS_TYPE: Final = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
#: Nanoseconds of a unit.
_UNITS: Final = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


def prepare_defaults(schema: Node) -> None:
    """Replace the defaults of a parsed schema in place."""
    _Walk().walk(schema)


class _Walk:
    """A walk over one schema: the named types read so far."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def walk(self, node: Node) -> None:
        match node:
            case list():
                for one in node:
                    self.walk(one)
            case {"type": "record" | "error"}:
                self._named[node["name"]] = node
                for field in node["fields"]:
                    self.walk(field["type"])
                    if "default" in field:
                        with suppress(*_NOT_OF_ITS_TYPE):
                            field["default"] = self._value(field["default"], field["type"])
            case {"type": "enum" | "fixed"}:
                self._named[node["name"]] = node
            case {"type": "array"}:
                self.walk(node["items"])
            case {"type": "map"}:
                self.walk(node["values"])

    def _value(self, said: Any, node: Node) -> Any:
        match node:
            case str() if node in self._named:
                return self._value(said, self._named[node])
            case str():
                return _plain(said, node, {})
            case list():
                return None if said is None else self._of_union(said, node)
            case {"type": "record" | "error"}:
                return {one["name"]: self._of_field(said, one) for one in node["fields"]}
            case {"type": "array"}:
                return [self._value(one, node["items"]) for one in said]
            case {"type": "map"}:
                return {key: self._value(one, node["values"]) for key, one in said.items()}
        return _plain(said, node["type"], node)

    def _of_union(self, said: Any, node: list[Node]) -> Any:
        """Return the default of a union: of its first branch that isn't null."""
        real = [one for one in node if one != "null"]
        return self._value(said, real[0])

    def _of_field(self, said: Mapping[str, Any], field: Node) -> Any:
        if field["name"] in said:
            return self._value(said[field["name"]], field["type"])
        return field.get("default")  # prepared before


def _plain(said: Any, kind: str, node: Mapping[str, Any]) -> Any:
    logical = node.get("logicalType")
    match kind, logical:
        case (("bytes" | "fixed"), _) if isinstance(said, str):
            return _of_bytes(said.encode("latin-1"), logical, node)
        case (("float" | "double"), _):
            return float(said)
        case "int", "date":
            return date(1970, 1, 1) + timedelta(days=said)
        case "string", "uuid":
            return UUID(said)
        case (("int" | "long"), str()) if (kind, logical) in LOGICAL:
            return _time(said, logical)
    return said


def _of_bytes(said: bytes, logical: str | None, node: Mapping[str, Any]) -> Any:
    if logical == "decimal" and isinstance(node.get("precision"), int):
        return Decimal(int.from_bytes(said, "big", signed=True)).scaleb(-node.get("scale", 0))
    return UUID(bytes=said) if logical == "uuid" else said


def _time(said: int, logical: str) -> Any:
    name, _, unit = logical.rpartition("-")
    if name == "time":
        return (datetime.combine(date.min, time(), UTC) + _since(said, unit)).time()
    return since_epoch(said, logical)


def since_epoch(said: int, logical: str) -> datetime:
    """Return the time of a logical type; digits behind microseconds are cut off. Raises
    OverflowError outside of the years 1 to 9999."""
    name, _, unit = logical.rpartition("-")
    found = EPOCH + _since(said, unit)
    return found if name == "timestamp" else found.replace(tzinfo=None)


def _since(said: int, unit: str) -> timedelta:
    return timedelta(microseconds=said * _UNITS[unit] // 1_000)
