"""AMQP values as text: identifiers in the form of JMS, lists and maps as JSON."""

import json
from typing import TypeAlias
from uuid import UUID

from pipeline.amqp_types import Decimal, Described, Map, Value
from pipeline.sections import Identifier

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def identifier(value: Identifier | None) -> str | None:
    """A message or correlation id as JMS clients show it; strings are as they were sent."""
    match value:
        case None | str():
            return value
        case UUID():
            return f"ID:AMQP_UUID:{value}"
        case bytes():
            return f"ID:AMQP_BINARY:{value.hex().upper()}"
        case int():
            return f"ID:AMQP_ULONG:{value}"


def as_json(value: Value) -> str:
    """Compact JSON: bytes and decimals in hexadecimal, a described value without its descriptor,
    keys of maps as text. NaN and the infinities, which JSON lacks, are strings."""
    return json.dumps(_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _json(value: Value) -> Json:
    match value:
        case bytes():
            return value.hex()
        case Decimal():
            return value.raw.hex()
        case UUID():
            return str(value)
        case Described():
            return _json(value.value)
        case list():
            return [_json(element) for element in value]
        case Map():
            return {_key(key): _json(element) for key, element in value.pairs}
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
            return str(value)
        case _:
            return value


def _key(value: Value) -> str:
    return value if isinstance(value, str) else as_json(value)
