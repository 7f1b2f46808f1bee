"""Values of the AMQP 1.0 type system, written: the inverse of `pipeline.codec.amqp_types`.

Python's own types say which type is meant, except for numbers of another width than usual: those
come as `Typed`, with the type's name.
"""

import struct
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from distributary.pipeline.codec.amqp_types import Described, Map, Symbol, Timestamp, Value
from distributary.pipeline.codec.sections import Typed

#: The type's name -> constructor and format, of numbers of one width.
_NUMBERS: dict[str, tuple[int, str]] = {
    "ubyte": (0x50, ">B"),
    "ushort": (0x60, ">H"),
    "uint": (0x70, ">I"),
    "ulong": (0x80, ">Q"),
    "byte": (0x51, ">b"),
    "short": (0x61, ">h"),
    "int": (0x71, ">i"),
    "long": (0x81, ">q"),
    "float": (0x72, ">f"),
    "double": (0x82, ">d"),
    "timestamp": (0x83, ">q"),
}

Writable: TypeAlias = "Value | Typed"


def write(value: Writable) -> bytes:
    """The value with its constructor in front.

    An int becomes a long, a float a double. Raises ValueError for a number that its type can't
    hold, and for what isn't written here: decimals, and containers of them.
    """
    if value is None:
        return b"\x40"
    match value:
        case Typed(type=name, value=plain):
            return _typed(name, plain)
        case bool():
            return b"\x41" if value else b"\x42"
        case Timestamp():
            return _number("timestamp", value)
        case int():
            return _number("long", value)
        case float():
            return _number("double", value)
        case UUID():
            return b"\x98" + value.bytes
    return _of_any_size(value)


def _of_any_size(value: Value) -> bytes:
    match value:
        case Symbol():
            return _sized(0xA3, 0xB3, value.encode("ascii"))
        case str():
            return _sized(0xA1, 0xB1, value.encode())
        case bytes():
            return _sized(0xA0, 0xB0, value)
        case list():
            return compound(0xC0, 0xD0, [write(one) for one in value])
        case Map(pairs):
            return compound(0xC1, 0xD1, [write(one) for pair in pairs for one in pair])
        case Described(descriptor, inner):
            return b"\x00" + write(descriptor) + write(inner)
    raise ValueError(f"{type(value).__name__} can't be written")


def compound(narrow: int, wide: int, elements: Sequence[bytes]) -> bytes:
    """A list or a map of elements that are written already."""
    content = b"".join(elements)
    if len(content) < 0xFF and len(elements) <= 0xFF:
        return bytes((narrow, len(content) + 1, len(elements))) + content
    return struct.pack(">BII", wide, len(content) + 4, len(elements)) + content


def _typed(name: str, value: Value) -> bytes:
    if name in _NUMBERS and isinstance(value, int | float):
        return _number(name, value)
    return write(value)


def _number(name: str, value: float) -> bytes:
    code, form = _NUMBERS[name]
    try:
        return bytes((code,)) + struct.pack(form, value)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{value} is no {name}: {error}") from None


def _sized(narrow: int, wide: int, data: bytes) -> bytes:
    if len(data) <= 0xFF:
        return bytes((narrow, len(data))) + data
    return struct.pack(">BI", wide, len(data)) + data
