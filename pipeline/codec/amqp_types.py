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

from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_codes import DESCRIBED, FIXED_BYTES, NUMBER_FORMS, SIZE_BYTES
from distributary.pipeline.errors import DistributaryError

#: Containers within containers; real messages have two or three.
DEPTH_MAX = 32

#: Values that a decode may return beside one for each of its bytes: only array elements that take
#: no bytes (nulls, empty lists) can outnumber the bytes.
EMPTY_ELEMENTS_MAX = 1_024


class DecodeError(DistributaryError):
    """The bytes are no AMQP 1.0 value or message; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """Limits of one decode: values in all, and depth of nesting."""

    values_max: int
    depth_max: int = DEPTH_MAX


#: The default limits of a decode.
DECODE_LIMITS = DecodeLimits(values_max=262_144)


class DecodeBudget:
    """The remaining budget of one decode of `size` bytes, over all values read in it.

    A container is charged for its elements before any of them is read, a described value for
    itself. `depth` is the number of further levels of nesting.
    """

    __slots__ = ("_deepest", "_most", "_values", "depth")

    def __init__(self, size: int, limits: DecodeLimits = DECODE_LIMITS) -> None:
        self._most = self._values = min(limits.values_max, size + EMPTY_ELEMENTS_MAX)
        self.depth = self._deepest = limits.depth_max

    def spend(self, values: int, at: int) -> None:
        """Charge for this number of values. Raises DecodeError when the budget is exceeded."""
        self._values -= values
        if self._values < 0:
            raise DecodeError(
                f"more than {self._most} values in all, at byte {at} (decode_values_max; and at "
                f"most {EMPTY_ELEMENTS_MAX} more than bytes)"
            )

    def enter(self, values: int, at: int) -> None:
        """Enter a container with this number of values; the caller adds 1 to `depth` at its end.
        Raises DecodeError."""
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
    """An IEEE 754 decimal of 4, 8 or 16 bytes, kept encoded."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class Map:
    """Pairs in their order. No dict: the keys 1, 1.0 and true differ in AMQP, not in Python."""

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


def read(data: bytes, at: int, budget: DecodeBudget | None = None) -> tuple[Value, int]:
    """Read the value whose constructor is at `at`; return it and its end. Without a budget the
    default one holds.

    Besides DecodeError this may raise IndexError, struct.error and UnicodeDecodeError, all for
    bytes that aren't AMQP; a reader of whole messages catches them once.
    """
    reader = READERS.get(data[at])
    if reader is None:
        raise DecodeError(f"unknown constructor 0x{data[at]:02x} at byte {at}")
    return reader(data, at + 1, DecodeBudget(len(data)) if budget is None else budget)


def skip(data: bytes, at: int, depth: int = 0) -> int:
    """Return the end of the value at `at`, without reading it.

    The high half of a constructor gives its value's width, even for unknown types.
    """
    code = data[at]
    if code == DESCRIBED:
        if depth >= DEPTH_MAX:
            raise DecodeError(f"nested deeper than {DEPTH_MAX} at byte {at}")
        return skip(data, skip(data, at + 1, depth + 1), depth + 1)
    if fixed := FIXED_BYTES[code]:
        stop = at + fixed
    elif size := SIZE_BYTES[code]:
        stop = sized(data, at + 1, wide=size > 1)[1]
    else:
        raise DecodeError(f"unknown constructor 0x{code:02x} at byte {at}")
    if stop > len(data):
        raise DecodeError(f"the value at byte {at} goes on after the end")
    return stop


def sized(data: bytes, at: int, *, wide: bool) -> tuple[int, int]:
    """Return start and stop of the content of a value with a size in front of it."""
    start = at + (4 if wide else 1)
    stop = start + (int.from_bytes(data[at:start], "big") if wide else data[at])
    if start > len(data) or stop > len(data):
        raise DecodeError(f"the value at byte {at} goes on after the end")
    return start, stop


def compound(data: bytes, at: int, *, wide: bool) -> tuple[int, int, int]:
    """Return start and stop of the elements of a list or map, and their number."""
    start, stop = sized(data, at, wide=wide)
    first = start + (4 if wide else 1)
    if first > stop:
        raise DecodeError(f"the container at byte {at} has no room for its count")
    count = int.from_bytes(data[start:first], "big")
    if count > stop - first:
        raise DecodeError(f"the container at byte {at} claims {count} elements")
    return first, stop, count


def closed(at: int, stop: int) -> None:
    """Raise DecodeError unless a container's elements end where its size says."""
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
    """Read a short string, as most of a message's values are; a fast form of `_string`."""
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
    """Return the reader of an array's elements, whose constructor stands once, at `at`; and its
    end."""
    if data[at] != DESCRIBED:
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
    **{code: _number(form) for code, form in NUMBER_FORMS.items()},
    codes.DESCRIBED: _described,
    codes.NULL: _constant(None),
    codes.TRUE: _constant(constant=True),
    codes.FALSE: _constant(constant=False),
    codes.BOOLEAN: _boolean,
    codes.UINT0: _constant(0),
    codes.ULONG0: _constant(0),
    codes.DECIMAL32: _decimal(4),
    codes.DECIMAL64: _decimal(8),
    codes.DECIMAL128: _decimal(16),
    codes.CHAR: _char,
    codes.TIMESTAMP: _timestamp,
    codes.UUID: _uuid,
    codes.VBIN8: _binary(wide=False),
    codes.VBIN32: _binary(wide=True),
    codes.STR8: _short_string,
    codes.STR32: _string(wide=True),
    codes.SYM8: _symbol(wide=False),
    codes.SYM32: _symbol(wide=True),
    codes.LIST0: _empty_list,
    codes.LIST8: _list(wide=False),
    codes.LIST32: _list(wide=True),
    codes.MAP8: _map(wide=False),
    codes.MAP32: _map(wide=True),
    codes.ARRAY8: _array(wide=False),
    codes.ARRAY32: _array(wide=True),
}
