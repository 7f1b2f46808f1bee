"""Whether bytes are exactly one datum in Avro's binary encoding (Avro 1.12, "Binary Encoding").

fastavro reads more than that: an index below zero counts from the end of a union or an enum, an
integer of more than 64 bits loses some of them, a decimal of too many digits is rounded, a time
before midnight is one of the day before, and a field that the reader doesn't want may be cut off.

Rule: a body is checked by its writer's schema before fastavro reads it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from fastavro.types import Schema

from distributary.pipeline.schemas.typed_row import NotFitting

#: Checks the value that begins at a place, and returns the place behind it. Raises NotFitting, and
#: IndexError for bytes that are cut off.
Check: TypeAlias = Callable[[bytes, int], int]
#: A named type's check, by its full name.
_Named: TypeAlias = dict[str, Check]

_LONG_BITS: Final = 64
_SIZES: Final[Mapping[str, int]] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
#: Logical type -> the values of a day.
_OF_A_DAY: Final[Mapping[str, int]] = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}


def datum_check(writer: Schema) -> Callable[[bytes], None]:
    """Return the check of whole bodies by a schema that fastavro has parsed. It raises
    NotFitting."""
    check = _check(writer, {})

    def whole(data: bytes) -> None:
        try:
            end = check(data, 0)
        except IndexError:
            end = len(data) + 1
        except RecursionError:
            raise NotFitting("the body is nested too deep") from None
        if end > len(data):
            raise NotFitting("the body is no Avro of this schema: it is cut off")
        if end < len(data):
            raise NotFitting(f"the body has {len(data) - end} bytes behind its value")

    return whole


def _check(node: Any, named: _Named) -> Check:
    if isinstance(node, str):
        return _of_name(node, named)
    if isinstance(node, list):
        return _union([_check(one, named) for one in node])
    kind = node["type"]
    if not isinstance(kind, str):
        return _check(kind, named)
    if kind in ("record", "error", "enum", "fixed"):
        return _kept(node, named)
    if kind == "array":
        return _blocks(_check(node["items"], named))
    if kind == "map":
        return _blocks(_pair(_check(node["values"], named)))
    if kind in ("int", "long") and node.get("logicalType") in _OF_A_DAY:
        return _below(_OF_A_DAY[node["logicalType"]], "no time of a day")
    return _decimal(_bytes, node) if kind == "bytes" else _of_name(kind, named)


def _kept(node: Mapping[str, Any], named: _Named) -> Check:
    """Return the check of a type with a name, which later types may be by this name alone."""
    match node["type"]:
        case "enum":
            check = _below(len(node["symbols"]), f"no symbol of the enum {node['name']}")
        case "fixed":
            check = _decimal(_sized(node["size"]), node)
        case _:
            check = _record([(one["name"], _check(one["type"], named)) for one in node["fields"]])
    named[node["name"]] = check
    return check


def _of_name(name: str, named: _Named) -> Check:
    match name:
        case "int" | "long":
            return _integer
        case "bytes":
            return _bytes
        case "string":
            return _string
    if name in _SIZES:
        return _sized(_SIZES[name])

    def of_type(data: bytes, at: int) -> int:  # a type within itself isn't known before it ends
        return named[name](data, at)

    return of_type


def _record(fields: list[tuple[str, Check]]) -> Check:
    def record(data: bytes, at: int) -> int:
        field = ""
        try:
            for field, check in fields:  # noqa: B007 (the error's place)
                at = check(data, at)
        except NotFitting as wrong:
            raise wrong.within(field) from None
        return at

    return record


def _union(branches: list[Check]) -> Check:
    def union(data: bytes, at: int) -> int:
        nth, at = _number(data, at)
        if not 0 <= nth < len(branches):
            raise NotFitting(f"a union has no branch {nth}")
        return branches[nth](data, at)

    return union


def _blocks(item: Check) -> Check:
    def blocks(data: bytes, at: int) -> int:
        while True:
            count, at = _number(data, at)
            if not count:
                return at
            if count < 0:  # the block's bytes follow
                _, at = _number(data, at)
            for _ in range(abs(count)):
                at = item(data, at)
                if at > len(data):
                    raise IndexError

    return blocks


def _pair(value: Check) -> Check:
    return lambda data, at: value(data, _string(data, at))


def _decimal(below: Check, node: Mapping[str, Any]) -> Check:
    """Return the check of the type below; of a decimal also of its digits."""
    if node.get("logicalType") != "decimal" or not isinstance(node.get("precision"), int):
        return below
    precision, is_fixed = node["precision"], "size" in node
    most = 10**precision  # to count the digits of a long integer takes the square of its length

    def decimal(data: bytes, at: int) -> int:
        end = below(data, at)
        start = at if is_fixed else _number(data, at)[1]
        if not -most < int.from_bytes(data[start:end], "big", signed=True) < most:
            raise NotFitting(f"a decimal has more digits than its precision, {precision}")
        return end

    return decimal


def _below(most: int, wrong: str) -> Check:
    """Return the check of a number from 0 to below `most`; any other is `wrong`."""

    def below(data: bytes, at: int) -> int:
        value, at = _number(data, at)
        if not 0 <= value < most:
            raise NotFitting(f"{value} is {wrong}")
        return at

    return below


def _sized(size: int) -> Check:
    return lambda _data, at: at + size


def _integer(data: bytes, at: int) -> int:
    return at + 1 if data[at] < 128 else _number(data, at)[1]


def _bytes(data: bytes, at: int) -> int:
    return _span(data, at)[1]


def _string(data: bytes, at: int) -> int:
    start, end = _span(data, at)
    if end > len(data):
        raise IndexError
    try:
        data[start:end].decode()
    except UnicodeDecodeError:
        raise NotFitting("a string is no UTF-8") from None
    return end


def _span(data: bytes, at: int) -> tuple[int, int]:
    """Return the begin and the end of bytes that stand behind their length."""
    size, start = _number(data, at)
    if size < 0:
        raise NotFitting(f"a length is {size}")
    return start, start + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer, and the place behind it."""
    value = shift = 0
    while shift < _LONG_BITS:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            if value >> _LONG_BITS:
                break
            return (value >> 1) ^ -(value & 1), at
    raise NotFitting("an integer has more than 64 bits")
