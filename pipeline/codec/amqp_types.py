"""Values of the AMQP 1.0 type system (part 1), read from bytes that may be anything.

Every constructor of the specification is a row of READERS; a missing row is an error. A reader
starts behind its constructor byte and returns the value and where it ends. Nothing is read beyond
the bytes given, a container ends where its size says, and a decode has a budget of values and of
nesting (`DecodeLimits`), so hostile bytes cost an error and no more than their own length in work.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from distributary.pipeline.errors import DistributaryError

#: Containers within containers; real messages have two or three.
DEPTH_MAX = 32

#: Values that a decode may give beside one for each of its bytes: only the elements of arrays that
#: take no bytes (nulls, empty lists) can be more than their bytes.
EMPTY_ELEMENTS_MAX = 1_024


class DecodeError(DistributaryError):
    """The bytes are no AMQP 1.0 value or message; the text says what was wrong and where."""


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What one decode may give: so many values in all, nested so deep."""

    values_max: int
    depth_max: int = DEPTH_MAX


#: Of bytes that nobody has said anything else about.
DECODE_LIMITS = DecodeLimits(values_max=262_144)


class DecodeBudget:
    """What is left for one decode of `size` bytes, over all that is read in it.

    A container is charged for its elements before any of them is read, a described value for
    itself. `depth` is how much deeper values may lie.
    """

    __slots__ = ("_deepest", "_most", "_values", "depth")

    def __init__(self, size: int, limits: DecodeLimits = DECODE_LIMITS) -> None:
        self._most = self._values = min(limits.values_max, size + EMPTY_ELEMENTS_MAX)
        self.depth = self._deepest = limits.depth_max

    def spend(self, values: int, at: int) -> None:
        """Charge for so many values. Raises DecodeError when there is no budget for them."""
        self._values -= values
        if self._values < 0:
            raise DecodeError(
                f"more than {self._most} values in all, at byte {at} (decode_values_max; and at "
                f"most {EMPTY_ELEMENTS_MAX} more than bytes)"
            )

    def enter(self, values: int, at: int) -> None:
        """Go into a container with so many values; add 1 to `depth` at its end. Raises
        DecodeError."""
        self.spend(values, at)
        self.depth -= 1
        if self.depth < 0:
            raise DecodeError(f"nested deeper than {self._deepest} at byte {at} (decode_depth_max)")


class Symbol(str):
    """A string from a constrained domain, ASCII."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the epoch, UTC; may be any 64-bit number."""


@dataclass(frozen=True, slots=True)
class Decimal:
    """An IEEE 754 decimal of 4, 8 or 16 bytes, kept as it came."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class Map:
    """Pairs in their order. No dict: AMQP tells the keys 1, 1.0 and true apart, Python doesn't."""

    pairs: "tuple[tuple[Value, Value], ...]" = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it means."""

    descriptor: "Value"
    value: "Value"


Value: TypeAlias = (
    "bool | int | float | str | bytes | UUID | Decimal | Map | Described | list[Value] | None"
)
Reader: TypeAlias = Callable[[bytes, int, DecodeBudget], tuple[Value, int]]

#: Constructor byte -> the type's name in the specification.
TYPE_NAMES: dict[int, str] = {
    0x00: "described",
    0x40: "null",
    **dict.fromkeys((0x41, 0x42, 0x56), "boolean"),
    0x50: "ubyte",
    0x60: "ushort",
    **dict.fromkeys((0x43, 0x52, 0x70), "uint"),
    **dict.fromkeys((0x44, 0x53, 0x80), "ulong"),
    0x51: "byte",
    0x61: "short",
    **dict.fromkeys((0x54, 0x71), "int"),
    **dict.fromkeys((0x55, 0x81), "long"),
    0x72: "float",
    0x82: "double",
    0x74: "decimal32",
    0x84: "decimal64",
    0x94: "decimal128",
    0x73: "char",
    0x83: "timestamp",
    0x98: "uuid",
    **dict.fromkeys((0xA0, 0xB0), "binary"),
    **dict.fromkeys((0xA1, 0xB1), "string"),
    **dict.fromkeys((0xA3, 0xB3), "symbol"),
    **dict.fromkeys((0x45, 0xC0, 0xD0), "list"),
    **dict.fromkeys((0xC1, 0xD1), "map"),
    **dict.fromkeys((0xE0, 0xF0), "array"),
}


def read(data: bytes, at: int, budget: DecodeBudget | None = None) -> tuple[Value, int]:
    """The value whose constructor is at `at`, and where it ends; without a budget the usual one.

    Besides DecodeError this may raise IndexError, struct.error and UnicodeDecodeError, all for
    bytes that aren't AMQP; whoever reads a whole message catches them once.
    """
    reader = READERS.get(data[at])
    if reader is None:
        raise DecodeError(f"unknown constructor 0x{data[at]:02x} at byte {at}")
    return reader(data, at + 1, DecodeBudget(len(data)) if budget is None else budget)


def skip(data: bytes, at: int, depth: int = 0) -> int:
    """Where the value at `at` ends, without looking into it.

    The high half of a constructor says how wide its value is, also for types yet unknown.
    """
    code = data[at]
    if code == 0x00:
        if depth >= DEPTH_MAX:
            raise DecodeError(f"nested deeper than {DEPTH_MAX} at byte {at}")
        return skip(data, skip(data, at + 1, depth + 1), depth + 1)
    width = code >> 4
    if 0x4 <= width <= 0x9:
        stop = at + 1 + (0, 1, 2, 4, 8, 16)[width - 4]
    elif width >= 0xA:
        stop = sized(data, at + 1, wide=bool(width & 1))[1]
    else:
        raise DecodeError(f"unknown constructor 0x{code:02x} at byte {at}")
    if stop > len(data):
        raise DecodeError(f"the value at byte {at} goes on after the end")
    return stop


def sized(data: bytes, at: int, *, wide: bool) -> tuple[int, int]:
    """Where the content of a value with a size in front of it starts and stops."""
    start = at + (4 if wide else 1)
    stop = start + (int.from_bytes(data[at:start], "big") if wide else data[at])
    if start > len(data) or stop > len(data):
        raise DecodeError(f"the value at byte {at} goes on after the end")
    return start, stop


def compound(data: bytes, at: int, *, wide: bool) -> tuple[int, int, int]:
    """Where the elements of a list or map start and stop, and how many there are."""
    start, stop = sized(data, at, wide=wide)
    first = start + (4 if wide else 1)
    if first > stop:
        raise DecodeError(f"the container at byte {at} has no room for its count")
    count = int.from_bytes(data[start:first], "big")
    if count > stop - first:
        raise DecodeError(f"the container at byte {at} claims {count} elements")
    return first, stop, count


def closed(at: int, stop: int) -> None:
    """Raise unless a container's elements end where its size says."""
    if at != stop:
        raise DecodeError(f"a container's elements end at byte {at}, its size says {stop}")


def _constant(constant: Value) -> Reader:
    return lambda _data, at, _budget: (constant, at)


def _number(form: str) -> Reader:
    packed = struct.Struct(form)
    unpack, size = packed.unpack_from, packed.size

    def reader(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
        return unpack(data, at)[0], at + size

    return reader


def _raw(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise DecodeError(f"the value at byte {at} goes on after the end")
    return data[at : at + size]


def _decimal(size: int) -> Reader:
    return lambda data, at, _budget: (Decimal(_raw(data, at, size)), at + size)


def _boolean(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
    if data[at] > 1:
        raise DecodeError(f"a boolean of {data[at]} at byte {at}")
    return data[at] == 1, at + 1


def _char(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
    return Char(_raw(data, at, 4).decode("utf-32-be")), at + 4


def _timestamp(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
    return Timestamp(int.from_bytes(_raw(data, at, 8), "big", signed=True)), at + 8


def _uuid(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
    return UUID(bytes=_raw(data, at, 16)), at + 16


def _binary(*, wide: bool) -> Reader:
    def reader(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
        start, stop = sized(data, at, wide=wide)
        return data[start:stop], stop

    return reader


def _short_string(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
    """As _string; of its own because most of a message's values are such."""
    start = at + 1
    stop = start + data[at]
    if stop > len(data):
        raise DecodeError(f"the value at byte {at} goes on after the end")
    return data[start:stop].decode(), stop


def _string(*, wide: bool) -> Reader:
    def reader(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
        start, stop = sized(data, at, wide=wide)
        return data[start:stop].decode(), stop

    return reader


def _symbol(*, wide: bool) -> Reader:
    def reader(data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
        start, stop = sized(data, at, wide=wide)
        return Symbol(data[start:stop].decode("ascii")), stop

    return reader


def _elements(data: bytes, at: int, stop: int, count: int, budget: DecodeBudget) -> list[Value]:
    budget.enter(count, at)
    found: list[Value] = []
    for _ in range(count):
        value, at = read(data, at, budget)
        found.append(value)
    closed(at, stop)
    budget.depth += 1
    return found


def _list(*, wide: bool) -> Reader:
    def reader(data: bytes, at: int, budget: DecodeBudget) -> tuple[Value, int]:
        first, stop, count = compound(data, at, wide=wide)
        return _elements(data, first, stop, count, budget), stop

    return reader


def _map(*, wide: bool) -> Reader:
    def reader(data: bytes, at: int, budget: DecodeBudget) -> tuple[Value, int]:
        first, stop, count = compound(data, at, wide=wide)
        if count % 2:
            raise DecodeError(f"the map at byte {at} has a key without a value")
        flat = _elements(data, first, stop, count, budget)
        return Map(tuple(zip(flat[::2], flat[1::2], strict=True))), stop

    return reader


def _array(*, wide: bool) -> Reader:
    def reader(data: bytes, at: int, budget: DecodeBudget) -> tuple[Value, int]:
        start, stop = sized(data, at, wide=wide)
        first = start + (4 if wide else 1)
        if first >= stop:
            raise DecodeError(f"the array at byte {at} has no room for its elements' constructor")
        count = int.from_bytes(data[start:first], "big")
        budget.enter(count, at)
        element, first = _element_reader(data, first, budget)
        found: list[Value] = []
        for _ in range(count):
            value, first = element(data, first, budget)
            found.append(value)
        closed(first, stop)
        budget.depth += 1
        return found, stop

    return reader


def _element_reader(data: bytes, at: int, budget: DecodeBudget) -> tuple[Reader, int]:
    """What reads each element of an array, whose constructor stands once, at `at`."""
    if data[at] != 0x00:
        reader = READERS.get(data[at])
        if reader is None:
            raise DecodeError(f"unknown constructor 0x{data[at]:02x} at byte {at}")
        return reader, at + 1
    budget.enter(1, at)
    descriptor, at = read(data, at + 1, budget)
    inner, at = _element_reader(data, at, budget)
    budget.depth += 1

    def described(data: bytes, at: int, budget: DecodeBudget) -> tuple[Value, int]:
        budget.enter(1, at)
        value, at = inner(data, at, budget)
        budget.depth += 1
        return Described(descriptor, value), at

    return described, at


def _described(data: bytes, at: int, budget: DecodeBudget) -> tuple[Value, int]:
    budget.enter(1, at)
    descriptor, at = read(data, at, budget)
    value, at = read(data, at, budget)
    budget.depth += 1
    return Described(descriptor, value), at


def _empty_list(_data: bytes, at: int, _budget: DecodeBudget) -> tuple[Value, int]:
    return [], at


READERS: dict[int, Reader] = {
    0x00: _described,
    0x40: _constant(None),
    0x41: _constant(constant=True),
    0x42: _constant(constant=False),
    0x56: _boolean,
    **dict.fromkeys((0x43, 0x44), _constant(0)),
    **dict.fromkeys((0x50, 0x52, 0x53), _number(">B")),
    0x60: _number(">H"),
    0x70: _number(">I"),
    0x80: _number(">Q"),
    **dict.fromkeys((0x51, 0x54, 0x55), _number(">b")),
    0x61: _number(">h"),
    0x71: _number(">i"),
    0x81: _number(">q"),
    0x72: _number(">f"),
    0x82: _number(">d"),
    0x74: _decimal(4),
    0x84: _decimal(8),
    0x94: _decimal(16),
    0x73: _char,
    0x83: _timestamp,
    0x98: _uuid,
    0xA0: _binary(wide=False),
    0xB0: _binary(wide=True),
    0xA1: _short_string,
    0xB1: _string(wide=True),
    0xA3: _symbol(wide=False),
    0xB3: _symbol(wide=True),
    0x45: _empty_list,
    0xC0: _list(wide=False),
    0xD0: _list(wide=True),
    0xC1: _map(wide=False),
    0xD1: _map(wide=True),
    0xE0: _array(wide=False),
    0xF0: _array(wide=True),
}
