"""Parsing of JSON bodies, and conversion of their values to the columns of a row.

Rule 1: JSON is RFC 8259: UTF-8, no NaN, no infinities, no lone surrogates. Of equal names the last
        one counts.
Rule 2: no value is rounded to fit an integer, a decimal, a date or a time, but for digits of a
        second behind the sixth. A number in a double becomes the nearest one.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias, cast

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.schemas.column_types import (
    Column,
    ColumnType,
    DecimalOf,
    ListOf,
    MapOf,
    RowLayout,
    Scalar,
    Struct,
    parts,
)
from distributary.pipeline.schemas.json_columns import LONG_LEAST, LONG_MOST
from distributary.pipeline.schemas.typed_row import (
    NotFitting,
    RowValue,
    TypedRow,
    cut,
    each_row,
    entries_row,
    not_a,
)

#: A value of JSON in Python; with decimals if the layout has any.
Instance: TypeAlias = (
    "bool | int | float | Decimal | str | list[Instance] | dict[str, Instance] | None"
)
#: Reads the value of one column. Raises NotFitting.
Reading: TypeAlias = Callable[[object], RowValue]


class Rounded(Exception):
    """A number for an integer was parsed as a double, so its digits must be read again."""


INTEGER_LEAST, INTEGER_MOST = -(2**31), 2**31 - 1
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def has_decimals(layout: RowLayout) -> bool:
    """Whether numbers must be read with all their digits."""
    level: list[ColumnType] = [one.type for one in layout.body_columns]
    while level:
        if any(isinstance(one, DecimalOf) for one in level):
            return True
        level = [part for one in level for part in parts(one)]
    return False


def json_instance(text: bytes | str, *, exact: bool) -> Instance:
    """Parse a body; `exact`: numbers with a point are decimals. Raises NotFitting."""
    try:
        data = text.encode() if isinstance(text, str) else text
        found = json.loads(
            data.decode(),
            parse_float=Decimal if exact else None,
            parse_constant=_no_constant,
        )
        if _SURROGATE.search(data):
            json.dumps(found, ensure_ascii=False, default=str).encode()
    except UnicodeError:
        raise NotFitting("the body is no UTF-8, or has half a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise NotFitting(f"the body is no JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise NotFitting("the body is JSON that is nested too deep") from None
    except ArithmeticError:  # of a decimal, which has no exponent of so many digits
        raise NotFitting("the body has a number whose exponent is too long to read") from None
    except ValueError as error:
        raise NotFitting(f"the body can't be read as JSON: {error}") from None
    return cast("Instance", found)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def row_reading(
    layout: RowLayout, scalars: "Mapping[Scalar, Reading] | None" = None
) -> Callable[[object], TypedRow]:
    """Return a function that makes the body's columns of an instance and raises NotFitting;
    `scalars` reads values of formats other than JSON."""
    table = SCALARS if scalars is None else scalars
    if layout.whole:
        (only,) = layout.body_columns
        value = _nullable(reading(only.type, table))
        return lambda body: {only.name: value(body)}
    return cast("Callable[[object], TypedRow]", reading(Struct(layout.body_columns), table))


def reading(of: ColumnType, scalars: Mapping[Scalar, Reading]) -> Reading:
    """Return a function that reads values of one type; null is only allowed within it."""
    match of:
        case ListOf(element, nullable):
            return _list_reading(_may_be(element, scalars, nullable=nullable))
        case MapOf(value, nullable):
            return _map_reading(_may_be(value, scalars, nullable=nullable))
        case Struct(columns):
            return _struct_reading(columns, scalars)
        case DecimalOf(precision, scale):
            return decimal_reading(precision, scale)
        case Scalar():
            return scalars[of]


def _may_be(of: ColumnType, scalars: Mapping[Scalar, Reading], *, nullable: bool) -> Reading:
    inner = reading(of, scalars)
    return _nullable(inner) if nullable else inner


def _nullable(inner: Reading) -> Reading:
    return lambda value: None if value is None else inner(value)


def _struct_reading(columns: tuple[Column, ...], scalars: Mapping[Scalar, Reading]) -> Reading:
    fields = [(one.name, one.field, one.nullable, reading(one.type, scalars)) for one in columns]

    def read(value: object) -> RowValue:
        if not isinstance(value, dict):
            raise not_a("object", value)
        row: dict[str, RowValue] = {}
        for name, field, nullable, inner in fields:
            said = value.get(field)
            if said is None:
                if not nullable:
                    raise NotFitting("it is missing, or null").within(field)
                row[name] = None
                continue
            try:
                row[name] = inner(said)
            except NotFitting as wrong:
                raise wrong.within(field) from None
        return row

    return read


def _list_reading(inner: Reading) -> Reading:
    def read(value: object) -> RowValue:
        if not isinstance(value, list):
            raise not_a("array", value)
        return each_row(inner, cast("list[object]", value))

    return read


def _map_reading(inner: Reading) -> Reading:
    def read(value: object) -> RowValue:
        if not isinstance(value, dict):
            raise not_a("object", value)
        return entries_row(inner, cast("Mapping[str, object]", value).items())

    return read


def decimal_reading(precision: int, scale: int) -> Reading:
    kind = f"number of {precision - scale} digits with {scale} behind the point"

    def read(value: object) -> RowValue:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise not_a("number", value)
        return decimal_value(
            Decimal(repr(value)) if isinstance(value, float) else Decimal(value),
            precision,
            scale,
            kind,
        )

    return read


def decimal_value(number: Decimal, precision: int, scale: int, kind: str) -> Decimal:
    """Return the number, with no more zeros at its end than the column has places. Raises
    NotFitting if it has more digits than the column."""
    if not number.is_finite():
        raise not_a(kind, str(number))
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise not_a(kind, str(number))
    zeros = next((nth for nth, digit in enumerate(reversed(digits)) if digit), len(digits))
    if not any(digits):
        return Decimal(0)
    if -(exponent + zeros) > scale or len(digits) + exponent > precision - scale:
        raise not_a(kind, str(number))
    if -exponent > scale:  # Arrow counts these zeros as digits
        return Decimal((sign, digits[: len(digits) - zeros], exponent + zeros))
    return number


def _boolean(value: object) -> RowValue:
    if not isinstance(value, bool):
        raise not_a("boolean", value)
    return value


def _integer_within(
    least: int, most: int, bits: int, whole: Callable[[float | Decimal], int]
) -> Reading:
    """Return a reader of integers; `whole` makes one of a number that was written otherwise."""

    def read(value: object) -> RowValue:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise not_a("integer", value)
        if not isinstance(value, int):
            value = whole(value)
        if not least <= value <= most:
            raise NotFitting(f"{cut(str(value))} needs more than {bits} bits")
        return value

    return read


def _digits(value: float | Decimal) -> int:
    """Return an integer that was written with a point or an exponent. Raises Rounded for a double,
    which may not be the number that was written, and NotFitting."""
    if isinstance(value, float):
        raise Rounded
    return _whole(value)


def _whole(value: float | Decimal) -> int:
    """Return an integer that was written with a point or an exponent. Raises NotFitting."""
    if isinstance(value, Decimal) and value.adjusted() > 40:
        raise not_a("integer of a column", str(value))
    if not math.isfinite(value) or value != int(value):
        raise not_a("integer", value)
    return int(value)


def _double(value: object) -> RowValue:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise not_a("number", value)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found) or math.isnan(found):
        raise NotFitting("the number is too large for a double")
    return found


def _string(value: object) -> RowValue:
    if not isinstance(value, str):
        raise not_a("string", value)
    return value


def _binary(value: object) -> RowValue:
    if not isinstance(value, str):
        raise not_a("string in base64", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise not_a("base64", value) from None


def _date(value: object) -> RowValue:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise not_a("date (2026-08-01)", value)
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise not_a("date (2026-08-01)", value) from None


def _timestamp(value: object) -> RowValue:
    kind = "date-time (2026-08-01T10:00:00Z)"
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise not_a(kind, value)
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise not_a(kind, value) from None


def json_text(value: object) -> str:
    """Return the compact JSON of a value without a column type; its numbers are integers and
    doubles. Raises NotFitting."""
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise NotFitting(f"it can't be written as JSON: {error}") from None


def _plain(value: object) -> object:
    match value:
        case Decimal():
            return float(value)
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
    raise TypeError(f"{quoted(value)} has no form in JSON")


SCALARS: Final[Mapping[Scalar, Reading]] = {
    Scalar.BOOLEAN: _boolean,
    Scalar.INTEGER: _integer_within(INTEGER_LEAST, INTEGER_MOST, 32, _whole),
    Scalar.LONG: _integer_within(LONG_LEAST, LONG_MOST, 64, _whole),
    Scalar.FLOAT: _double,
    Scalar.DOUBLE: _double,
    Scalar.STRING: _string,
    Scalar.BINARY: _binary,
    Scalar.DATE: _date,
    Scalar.TIMESTAMP: _timestamp,
    Scalar.JSON: json_text,
}
#: Reads JSON that was parsed with doubles: raises Rounded for an integer with a point or exponent.
DOUBLES: Final[Mapping[Scalar, Reading]] = {
    **SCALARS,
    Scalar.INTEGER: _integer_within(INTEGER_LEAST, INTEGER_MOST, 32, _digits),
    Scalar.LONG: _integer_within(LONG_LEAST, LONG_MOST, 64, _digits),
}
