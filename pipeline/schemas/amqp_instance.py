"""AMQP values as JSON, so that one schema applies to both.

| AMQP | JSON |
|---|---|
| null, boolean, integers, float, double, string, symbol, char | the same |
| timestamp | `2026-08-01T10:00:00.000Z` |
| binary | base64 |
| uuid | its text |
| list, array | array |
| map whose keys are strings, or symbols | object |
| described | its value |
"""

import base64
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from distributary.pipeline.codec.amqp_types import Decimal, Described, Map, Timestamp, Value
from distributary.pipeline.schemas.json_values import Instance
from distributary.pipeline.schemas.typed_row import NotFitting

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def amqp_instance(value: Value) -> Instance:
    """Return a value as JSON. Raises NotFitting for values that JSON can't have: decimals of AMQP,
    keys that are no strings, timestamps outside of the years 1 to 9999."""
    match value:
        case Timestamp():
            return timestamp_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return str(value)
        case Described():
            return amqp_instance(value.value)
        case Decimal():
            raise NotFitting(f"a decimal of AMQP ({len(value.raw) * 8} bits) isn't read")
        case list():
            return [_within(nth, one) for nth, one in enumerate(value)]
        case Map():
            return {_key(key): _within(_key(key), one) for key, one in value.pairs}
        case str():
            return str(value)
    return value


def _key(value: Value) -> str:
    if not isinstance(value, str):
        raise NotFitting("a key of a map is no string")
    return str(value)


def _within(part: str | int, value: Value) -> Instance:
    try:
        return amqp_instance(value)
    except NotFitting as wrong:
        raise wrong.within(part) from None


def timestamp_of(milliseconds: int) -> datetime:
    """Return an AMQP timestamp as a datetime. Raises NotFitting outside of the years 1 to 9999."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise NotFitting(
            f"the timestamp {milliseconds} is outside of the years 1 to 9999"
        ) from None


def timestamp_text(milliseconds: int) -> str:
    """Return an AMQP timestamp as text by RFC 3339. Raises NotFitting."""
    text = timestamp_of(milliseconds).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
