"""Columns of typed tables, made of the values of many bodies at once.

`of_rows` takes rows as `RowReader` makes them, `of_structs` those of `json_structs`. Both make the
same of the same bodies.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, TypeAlias, cast

import pyarrow as pa

from distributary.pipeline.schemas.formats.json_structs import JsonStruct
from distributary.pipeline.schemas.formats.json_structs import values as struct_values
from distributary.pipeline.schemas.typed_row import TypedRow

Array: TypeAlias = "pa.Array[Any]"


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
    """Dicts of maps as pairs, however deep they are."""
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
    structs: Sequence[JsonStruct], kinds: Sequence[tuple[str, pa.DataType]]
) -> list[Array]:
    """The columns of these types: the fields in their order. Raises ArrowInvalid for a date or a
    time that there isn't."""
    return _fields(structs, [kind for _, kind in kinds])


def _fields(structs: Sequence[JsonStruct | None], kinds: Sequence[pa.DataType]) -> list[Array]:
    nothing = (None,) * len(kinds)
    rows = (nothing if one is None else struct_values(one) for one in structs)
    columns = zip(*rows, strict=True) if structs else repeat((), len(kinds))
    return [_of_struct_values(values, kind) for values, kind in zip(columns, kinds, strict=True)]


def _of_struct_values(values: Sequence[Any], kind: pa.DataType) -> Array:
    if pa.types.is_temporal(kind):
        return cast("Array", pa.array(values, pa.string()).cast(kind))
    match kind:
        case pa.StructType():
            there = pa.array([one is None for one in values], pa.bool_())
            fields = list(kind)
            columns = _fields(values, [one.type for one in fields])
            made = pa.StructArray.from_arrays(columns, fields=fields, mask=there)
            return cast("Array", made)
        case pa.ListType():
            return _list(values, kind)
        case pa.MapType():
            return _map(values, kind)
    return cast("Array", pa.array(values, kind))


def _list(values: Sequence[list[Any] | None], kind: "pa.ListType[Any]") -> Array:
    flat = [one for some in values if some for one in some]
    elements = _of_struct_values(flat, kind.value_type)
    made = pa.ListArray.from_arrays(_offsets(values), elements, type=kind)
    return cast("Array", made)


def _map(values: Sequence[dict[str, Any] | None], kind: "pa.MapType[Any, Any, Any]") -> Array:
    keys = pa.array([one for some in values if some for one in some], kind.key_type)
    flat = [one for some in values if some for one in some.values()]
    items = _of_struct_values(flat, kind.item_type)
    made = cast("Any", pa.MapArray).from_arrays(_offsets(values), keys, items, type=kind)
    return cast("Array", made)


def _offsets(values: Sequence[Any]) -> Any:
    """Where each begins, and where the last ends; null where there is none."""
    offsets: list[int | None] = []
    at = 0
    for one in values:
        offsets.append(None if one is None else at)
        at += len(one or ())
    return pa.array([*offsets, at], pa.int32())
