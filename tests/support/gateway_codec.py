"""AMQP 1.0's type system by hand (part 1): a value becomes bytes, bytes become a value.

It uses neither our code nor Proton's engine, so the gateway's bytes are read by independent code.
Only the names of types are Proton's Python classes (`uint`, `symbol`, `Described`, ...).
"""

import struct
from typing import Any
from uuid import UUID

from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    byte,
    char,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)


class Encoded(bytes):
    """A value's bytes, put in as they are: what no encoder would write."""

    __slots__ = ()


#: Types of one width: Python's class, constructor, format.
_FIXED: tuple[tuple[type, int, str], ...] = (
    (ubyte, 0x50, "B"),
    (ushort, 0x60, "H"),
    (byte, 0x51, "b"),
    (short, 0x61, "h"),
    (int32, 0x71, "i"),
    (timestamp, 0x83, "q"),
    (float32, 0x72, "f"),
    (float, 0x82, "d"),
)
#: Constructor -> (format, class) of what has a width of its own.
_READ: dict[int, tuple[str, type]] = {
    **{code: (form, kind) for kind, code, form in _FIXED},
    0x70: ("I", uint),
    0x52: ("B", uint),
    0x80: ("Q", ulong),
    0x53: ("B", ulong),
    0x54: ("b", int32),
    0x81: ("q", int),
    0x55: ("b", int),
}
_CONSTANTS: dict[int, object] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: uint(0),
    0x44: ulong(0),
}
#: Constructor of an array's elements -> Proton's number of their type.
_ARRAY_TYPES = {
    0xA1: Data.STRING,
    0xB1: Data.STRING,
    0xA3: Data.SYMBOL,
    0xB3: Data.SYMBOL,
    0x80: Data.ULONG,
    0x70: Data.UINT,
}
_ELEMENTS = {Data.SYMBOL: (0xA3, 0xB3), Data.STRING: (0xA1, 0xB1)}


def encode(value: Any) -> bytes:
    """The value's bytes, in the shortest form."""
    match value:
        case Encoded():
            return bytes(value)
        case None:
            return b"\x40"
        case bool():
            return b"\x41" if value else b"\x42"
        case Described():
            return b"\x00" + encode(value.descriptor) + encode(value.value)
        case Array():
            return _array(value)
        case list() | tuple():
            return _compound(0xC0, list(value)) if value else b"\x45"
        case dict():
            return _compound(0xC1, [part for pair in value.items() for part in pair])
        case str() | bytes() | bytearray() | memoryview() | UUID():
            return _text(value)
    return _number(value)


def _text(value: Any) -> bytes:
    match value:
        case UUID():
            return b"\x98" + value.bytes
        case char():
            return b"\x73" + struct.pack(">I", ord(value))
        case symbol():
            return _variable(0xA3, value.encode())
        case str():
            return _variable(0xA1, value.encode())
    return _variable(0xA0, bytes(value))


def _number(value: Any) -> bytes:
    for kind, code, form in _FIXED:
        if type(value) is kind:
            return struct.pack(f">B{form}", code, value)
    small, wide, form, zero = {
        uint: (0x52, 0x70, "I", b"\x43"),
        ulong: (0x53, 0x80, "Q", b"\x44"),
        int: (0x55, 0x81, "q", b""),
    }[type(value)]
    if value == 0 and zero:
        return zero
    limits = range(256) if zero else range(-128, 128)
    return struct.pack(">B" + (("B" if zero else "b") if value in limits else form),
                       small if value in limits else wide, value)  # fmt: skip


def _variable(code: int, data: bytes) -> bytes:
    if len(data) < 256:
        return bytes([code, len(data)]) + data
    return struct.pack(">BI", code + 0x10, len(data)) + data


def _compound(code: int, values: list[object]) -> bytes:
    data = b"".join(map(encode, values))
    if len(data) < 255 and len(values) < 256:
        return bytes([code, len(data) + 1, len(values)]) + data
    return struct.pack(">BII", code + 0x10, len(data) + 4, len(values)) + data


def _array(value: Array) -> bytes:
    short_code, long_code = _ELEMENTS[value.type]
    texts = [str(one).encode() for one in value.elements]
    if all(len(text) < 256 for text in texts):
        data = bytes([short_code]) + b"".join(bytes([len(text)]) + text for text in texts)
    else:
        data = bytes([long_code]) + b"".join(struct.pack(">I", len(t)) + t for t in texts)
    if len(data) < 255 and len(texts) < 256:
        return bytes([0xE0, len(data) + 1, len(texts)]) + data
    return struct.pack(">BII", 0xF0, len(data) + 4, len(texts)) + data


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    code = data[at]
    if code != 0x00:
        return _plain(code, data, at + 1)
    descriptor, at = decode(data, at + 1)
    value, at = decode(data, at)
    return Described(descriptor, value), at


def _plain(code: int, data: bytes, at: int) -> tuple[Any, int]:
    """The value with this constructor whose own bytes begin there."""
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code == 0x45:
        return [], at
    if code in _READ:
        form, kind = _READ[code]
        [value] = struct.unpack_from(f">{form}", data, at)
        return kind(value), at + struct.calcsize(form)
    if code == 0x56:
        return bool(data[at]), at + 1
    if code == 0x73:
        return char(chr(struct.unpack_from(">I", data, at)[0])), at + 4
    if code in (0x74, 0x84, 0x94):  # decimals: no test looks at their values
        width = 1 << (code >> 4) - 5
        return data[at : at + width], at + width
    if code == 0x98:
        return UUID(bytes=data[at : at + 16]), at + 16
    return _sized(code, data, at)


def _sized(code: int, data: bytes, at: int) -> tuple[Any, int]:
    wide = bool(code & 0x10)
    form, width = (">I", 4) if wide else (">B", 1)
    [size] = struct.unpack_from(form, data, at)
    start, end = at + width, at + width + size
    assert end <= len(data), f"a value of {size} bytes has {len(data) - start}"
    match code & ~0x10:
        case 0xA0:
            return data[start:end], end
        case 0xA1:
            return data[start:end].decode(), end
        case 0xA3:
            return symbol(data[start:end].decode("ascii")), end
    assert code & ~0x10 in (0xC0, 0xC1, 0xE0), f"0x{code:02x} is no constructor"
    [count] = struct.unpack_from(form, data, start)
    at = start + width
    if code & ~0x10 == 0xE0:
        return _elements(data, at, count), end
    values = []
    for _ in range(count):
        value, at = decode(data, at)
        values.append(value)
    assert at == end, "a compound's size isn't that of its values"
    return (
        values if code & ~0x10 == 0xC0 else dict(zip(values[::2], values[1::2], strict=True))
    ), end


def _elements(data: bytes, at: int, count: int) -> Array:
    code, at = data[at], at + 1
    assert count <= len(data), f"an array of {count} elements in {len(data)} bytes"
    values = []
    for _ in range(count):
        value, at = _plain(code, data, at)
        values.append(value)
    return Array(UNDESCRIBED, _ARRAY_TYPES[code], *values)
