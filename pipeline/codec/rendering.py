"""AMQP values as text: identifiers in the form of JMS, lists and maps as JSON."""

import json
from typing import TypeAlias
from uuid import UUID

from distributary.pipeline.codec.amqp_types import Decimal, DecodeError, Described, Map, Value
from distributary.pipeline.codec.sections import Identifier

#: Default limit of the characters of one message's lists and maps as JSON: a binary of 16 MiB in
#: hexadecimal.
JSON_CHARS_MAX = 32 << 20

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def identifier(value: Identifier | None) -> str | None:
    """Return a message or correlation id as JMS clients show it; strings are as they were sent."""
    match value:
        case None | str():
            return value
        case UUID():
            return f"ID:AMQP_UUID:{value}"
        case bytes():
            return f"ID:AMQP_BINARY:{value.hex().upper()}"
        case int():
            return f"ID:AMQP_ULONG:{value}"


class JsonRoom:
    """The characters that may still be written as JSON for one message.

    A list may have five times its bytes, and the quotes of a map in a map's key are escaped at each
    level, so that it doubles: the length of a text isn't known before it is written.
    """

    __slots__ = ("_left", "_most")

    def __init__(self, chars_max: int = JSON_CHARS_MAX) -> None:
        self._most = self._left = chars_max

    def take(self, text: str) -> str:
        """Charge for a text and return it. Raises DecodeError if there is no room for it."""
        self._left -= len(text)
        if self._left < 0:
            raise DecodeError(f"as JSON it has more than {self._most} characters (json_chars_max)")
        return text


def as_json(value: Value, room: JsonRoom | None = None) -> str:
    """Return compact JSON: bytes and decimals in hexadecimal, a described value without its
    descriptor, keys of maps as text. NaN and the infinities, which JSON lacks, are strings. Raises
    DecodeError where there is no room for it."""
    room = JsonRoom() if room is None else room
    plain = _json(value, room)
    return room.take(json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def _json(value: Value, room: JsonRoom) -> Json:
    match value:
        case bytes():
            return value.hex()
        case Decimal():
            return value.raw.hex()
        case UUID():
            return str(value)
        case Described():
            return _json(value.value, room)
        case list():
            return [_json(element, room) for element in value]
        case Map():
            return {_key(key, room): _json(element, room) for key, element in value.pairs}
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
            return str(value)
        case _:
            return value


def _key(value: Value, room: JsonRoom) -> str:
    return value if isinstance(value, str) else as_json(value, room)
