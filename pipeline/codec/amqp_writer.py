"""Values of the AMQP 1.0 type system, written: the inverse of `pipeline.codec.amqp_types`.

Python's own types determine AMQP's, except for numbers of another width than the default: those
are passed as `Typed`, with the type's name.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_types import Described, Map, Symbol, Timestamp, Value
from distributary.pipeline.codec.sections import Typed

#: Name of a number's type -> constructor and format; of several widths the widest.
_NUMBERS: dict[str, tuple[int, str]] = {
    codes.TYPE_NAMES[code]: (code, form)
    for code, form in sorted(codes.NUMBER_FORMS.items(), key=lambda row: codes.FIXED_BYTES[row[0]])
}
_NULL, _TRUE, _FALSE = bytes((codes.NULL,)), bytes((codes.TRUE,)), bytes((codes.FALSE,))


class Written(NamedTuple):
    """An encoded value, with its constructor in front."""

    data: bytes


Writable: TypeAlias = "Value | Typed | Written"


def write(value: Writable) -> bytes:
    """Encode a value, with its constructor in front.

    An int becomes a long, a float a double. Raises ValueError for a number that its type can't
    hold, for decimals, and for containers of them.
    """
    if value is None:
        return _NULL
    match value:
        case Typed(type=name, value=plain):
            return _typed(name, plain)
        case Written(data):
            return data
        case bool():
            return _TRUE if value else _FALSE
        case Timestamp():
            return _number("timestamp", value)
        case int():
            return _number("long", value)
        case float():
            return _number("double", value)
        case UUID():
            return bytes((codes.UUID,)) + value.bytes
    return _of_any_size(value)


def _of_any_size(value: Value) -> bytes:
    match value:
        case Symbol():
            return _sized(codes.SYMBOLS, value.encode("ascii"))
        case str():
            return _sized(codes.STRINGS, value.encode())
        case bytes():
            return _sized(codes.BINARIES, value)
        case list():
            return compound(codes.LISTS, [write(one) for one in value])
        case Map(pairs):
            return compound(codes.MAPS, [write(one) for pair in pairs for one in pair])
        case Described(descriptor, inner):
            return bytes((codes.DESCRIBED,)) + write(descriptor) + write(inner)
    raise ValueError(f"{type(value).__name__} can't be written")


def compound(widths: tuple[int, int], elements: Sequence[bytes]) -> bytes:
    """Return a list (LISTS) or a map (MAPS) of encoded elements."""
    narrow, wide = widths
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


def _sized(widths: tuple[int, int], data: bytes) -> bytes:
    narrow, wide = widths
    if len(data) <= 0xFF:
        return bytes((narrow, len(data))) + data
    return struct.pack(">BI", wide, len(data)) + data


def section(kind: codes.Kind, value: bytes) -> bytes:
    """Return a section of a message with its encoded value."""
    return codes.descriptor(kind) + value
