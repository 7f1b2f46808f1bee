"""Columns of typed tables, made of the values of many bodies at once.

`of_rows` takes rows of `RowReader`, `of_structs` structs of `json_structs`. Both make the same
columns of the same bodies.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distributary.pipeline.schemas.column_types import (
    Column,
    ColumnType,
    ListOf,
    MapOf,
    Scalar,
    Struct,
)
from distributary.pipeline.schemas.formats.json_structs import TIMES, JsonStruct
from distributary.pipeline.schemas.formats.json_structs import values as struct_values
from distributary.pipeline.schemas.typed_row import TypedRow

Array: TypeAlias = "pa.Array[Any]"

#: Tuples in memory at once. From 700 on Python's collector looks for cycles among them, which took
#: as long as making them.
TOGETHER: Final = 500


class NoTimes(Exception):
    """Texts of dates or times don't match TIMES; `odd` is a mask of the bodies with one."""

    def __init__(self, odd: NDArray[np.bool_]) -> None:
        super().__init__("a text is no date or time of those that are read at once")
        self.odd = odd


def of_rows(rows: Sequence[TypedRow], kinds: Sequence[tuple[str, pa.DataType]]) -> list[Array]:
    """The columns of these names and types."""
    return [_of_values([one[name] for one in rows], kind) for name, kind in kinds]


def _of_values(values: Sequence[object], kind: pa.DataType) -> Array:
    said = [_as_arrow(one, kind) for one in values] if _has_map(kind) else values
    return cast("Array", pa.array(said, kind))


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _as_arrow(value: Any, kind: pa.DataType) -> object:
    """A value with the dicts of its maps as pairs, at any depth."""
    if value is None:
        return None
    match kind:
        case pa.MapType():
            return [(key, _as_arrow(one, kind.item_type)) for key, one in value.items()]
        case pa.ListType():
            return [_as_arrow(one, kind.value_type) for one in value]
        case pa.StructType():
            return {one.name: _as_arrow(value.get(one.name), one.type) for one in kind}
    return value


def of_structs(
    structs: Sequence[JsonStruct],
    columns: Sequence[Column],
    kinds: Sequence[tuple[str, pa.DataType]],
) -> list[Array]:
    """The columns of these types. The structs' fields are in the order of `columns`, the layout's.
    Raises NoTimes, and ArrowInvalid for a day that doesn't exist."""
    values = _values(structs, columns)
    odd = np.zeros(len(structs), np.bool_)
    for nth, one in enumerate(columns):
        if isinstance(one.type, Scalar) and one.type in TIMES:
            values[nth] = texts = pa.array(values[nth], pa.string())
            fits = pc.match_substring_regex(texts, rf"\A{TIMES[one.type]}\z").fill_null(True)
            odd |= ~np.asarray(fits)
    if odd.any():
        raise NoTimes(odd)
    return list(_fields(values, columns, dict(kinds)).values())


def _values(structs: Sequence[JsonStruct | None], columns: Sequence[Column]) -> list[Any]:
    """The values of each column, in the structs' order; None where a struct is None."""
    nothing = (None,) * len(columns)
    values: list[Any] = [[] for _ in columns]
    for begin in range(0, len(structs), TOGETHER):
        some = structs[begin : begin + TOGETHER]
        rows = (nothing if one is None else struct_values(one) for one in some)
        for column, more in zip(values, zip(*rows, strict=True), strict=True):
            column.extend(more)
    return values


def _fields(
    values: Sequence[Any], columns: Sequence[Column], kinds: Mapping[str, pa.DataType]
) -> dict[str, Array]:
    """The columns by name: another version may have them in another order, or have other ones."""
    return {
        one.name: _of_struct_values(some, one.type, kinds[one.name])
        for one, some in zip(columns, values, strict=True)
    }


def _of_struct_values(values: Sequence[Any], said: ColumnType, kind: pa.DataType) -> Array:
    if pa.types.is_temporal(kind):
        return cast("Array", pa.array(values, pa.string()).cast(kind))
    match said, kind:
        case Struct(columns), pa.StructType():
            there = pa.array([one is None for one in values], pa.bool_())
            fields = list(kind)
            inner = _values(values, columns)
            made = _fields(inner, columns, {one.name: one.type for one in fields})
            arrays = [made.get(one.name, pa.nulls(len(values), one.type)) for one in fields]
            return cast("Array", pa.StructArray.from_arrays(arrays, fields=fields, mask=there))
        case ListOf(element), pa.ListType():
            return _list(values, element, kind)
        case MapOf(value), pa.MapType():
            return _map(values, value, kind)
    return cast("Array", pa.array(values, kind))


def _list(
    values: Sequence[list[Any] | None], element: ColumnType, kind: "pa.ListType[Any]"
) -> Array:
    flat = [one for some in values if some for one in some]
    elements = _of_struct_values(flat, element, kind.value_type)
    made = pa.ListArray.from_arrays(_offsets(values), elements, type=kind)
    return cast("Array", made)


def _map(
    values: Sequence[dict[str, Any] | None], value: ColumnType, kind: "pa.MapType[Any, Any, Any]"
) -> Array:
    keys = pa.array([one for some in values if some for one in some], kind.key_type)
    flat = [one for some in values if some for one in some.values()]
    items = _of_struct_values(flat, value, kind.item_type)
    made = cast("Any", pa.MapArray).from_arrays(_offsets(values), keys, items, type=kind)
    return cast("Array", made)


def _offsets(values: Sequence[Any]) -> Any:
    """The offset of each value's beginning, null for None; then the offset of the end."""
    offsets: list[int | None] = []
    at = 0
    for one in values:
        offsets.append(None if one is None else at)
        at += len(one or ())
    return pa.array([*offsets, at], pa.int32())
