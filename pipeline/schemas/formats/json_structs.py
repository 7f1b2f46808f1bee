"""Bodies of simple JSON Schemas, read and validated in one step by a decoder of msgspec.

Rule 1: a body that the decoder reads gives the same row as `JsonRows`. A body that it can't read
        may still fit, so `JsonRows` must decide: one with fields that the schema doesn't name, an
        integer written as 1.0, a time with more than six digits of a second.
Rule 2: a schema is simple if each of its keywords is in the tables below; no other schema has a
        decoder.
Rule 3: a date or time that is a column of its own is read as any text. The caller checks the whole
        column at once by `TIMES`: a pattern for each text takes twice as long as the rest of a
        body.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.column_types import (
    Column,
    ColumnType,
    ListOf,
    MapOf,
    RowLayout,
    Scalar,
    Struct,
)
from distributary.pipeline.schemas.json_columns import LONG_LEAST, LONG_MOST, parsed
from distributary.pipeline.schemas.schema_version import Format, Framing, SchemaVersion

#: Keywords that don't restrict values, and `type`.
_NOTES: Final = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly"}
    | {"writeOnly", "type"}
)
#: Drafts in which 1.0 is an integer; in draft 4 it isn't.
_DRAFTS: Final = ("draft/2020-12/", "draft/2019-09/", "draft-07/", "draft-06/")
#: Integers below it are exact as doubles.
_EXACT_MAX: Final = 2**53
#: Dates and times that validator, Python and Arrow read alike.
_DATE: Final = r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}"
_ZONE: Final = r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#: Patterns for the whole text.
TIMES: Final = {
    Scalar.DATE: _DATE,
    Scalar.TIMESTAMP: _DATE + r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?" + _ZONE,
}

_BOUNDS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
}
_LENGTHS: Final = {"minLength": "min_length", "maxLength": "max_length"}

Node: TypeAlias = dict[str, Any]
#: A body, or a struct within one: its fields stand in the order of the columns.
JsonStruct: TypeAlias = msgspec.Struct
#: Reads one body; raises one of UNREAD for a body that it can't read, and for None.
Decode: TypeAlias = Callable[[bytes | str | None], JsonStruct]
UNREAD: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError)


class _NotSimple(Exception):
    """A schema has a keyword that isn't in the tables."""


def json_decode(schema: SchemaVersion, layout: RowLayout) -> Decode | None:
    """Return the decoder of bodies by this version, None if it isn't simple. It makes a struct with
    the columns of `layout` in their order; dates and times are texts, inner structs are structs."""
    plain = schema.format is Format.JSON and schema.framing is Framing.PLAIN
    if not plain or schema.cloud_events or layout.whole:
        return None
    try:
        made = _struct(parsed(schema.definition), layout.columns, {"$schema"}, whole=True)
    except (_NotSimple, InvalidRequest):
        return None
    decoder: msgspec.json.Decoder[msgspec.Struct] = msgspec.json.Decoder(made)
    return cast("Decode", decoder.decode)


#: The values of a struct, in the order of its columns.
values: Final = msgspec.structs.astuple


def _words(node: object, *more: str) -> Node:
    """Return a node if all its keywords are among these and notes. Raises _NotSimple."""
    if not isinstance(node, dict) or not node.keys() <= _NOTES | set(more):
        raise _NotSimple
    return cast("Node", node)


def _struct(
    node: object,
    columns: tuple[Column, ...],
    more: AbstractSet[str] = frozenset(),
    *,
    whole: bool = False,
) -> type[msgspec.Struct]:
    """Return the struct of a whole body, or of an object within one."""
    said = _words(node, "properties", "required", "additionalProperties", *more)
    properties, required = said.get("properties"), said.get("required", [])
    draft = str(said.get("$schema", _DRAFTS[0]))
    if (
        not isinstance(properties, dict)
        or [one.field for one in columns] != list(properties)
        or not isinstance(required, list)
        or not set(map(str, required)) <= properties.keys()
        or not isinstance(said.get("additionalProperties", True), bool)
        or said.get("type", "object") != "object"
        or not any(one in draft for one in _DRAFTS)
    ):
        raise _NotSimple
    fields: list[Any] = []
    for nth, one in enumerate(columns):
        kind = _kind(properties[one.field], one.type, any_text=whole)
        there = one.field in required
        fields.append((f"f{nth}", kind) if there else (f"f{nth}", kind, None))
    names = {f"f{nth}": one.field for nth, one in enumerate(columns)}
    return msgspec.defstruct(
        "Body", fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False
    )


def _kind(node: object, kind: ColumnType, *, any_text: bool = False) -> Any:
    """Return the type that msgspec reads for a column: nullable if the schema says so. `any_text`:
    dates and times are any text."""
    said = node.get("type") if isinstance(node, dict) else None
    names = said if isinstance(said, list) else [said]
    found = _type(node, kind, str(names[0]), any_text=any_text)
    if len(names) == 1:
        return found
    if len(names) != 2 or names[1] != "null" or "enum" in cast("Node", node):
        raise _NotSimple
    return found | None


def _type(node: object, kind: ColumnType, name: str, *, any_text: bool) -> Any:
    match kind, name:
        case Scalar.BOOLEAN, "boolean":
            _words(node)
            return bool
        case Scalar.LONG, "integer":
            return _number(node, int)
        case Scalar.DOUBLE, "number":
            return _number(node, float)
        case ((Scalar.STRING | Scalar.DATE | Scalar.TIMESTAMP), "string"):
            return _text(node, kind, any_text=any_text)
        case ListOf(element), "array":
            said = _words(node, "items")
            return list[_kind(said.get("items"), element)]  # type: ignore[misc]
        case MapOf(value), "object":
            said = _words(node, "additionalProperties")
            return dict[str, _kind(said.get("additionalProperties"), value)]  # type: ignore[misc]
        case Struct(columns), "object":
            return _struct(node, columns)
    raise _NotSimple


def _number(node: object, kind: type[int] | type[float]) -> Any:
    """Return the type of a number with its bounds. Bounds are integers that doubles have exactly:
    rounding moves no value over them."""
    said = _words(node, *_BOUNDS)
    bounds = {_BOUNDS[word]: said[word] for word in _BOUNDS if word in said}
    for bound in bounds.values():
        if isinstance(bound, bool) or not isinstance(bound, int) or abs(bound) >= _EXACT_MAX:
            raise _NotSimple
    if kind is int:
        low, high = {"gt", "ge"} & bounds.keys(), {"lt", "le"} & bounds.keys()
        bounds |= {} if low else {"ge": LONG_LEAST}
        bounds |= {} if high else {"le": LONG_MOST}
    if {"gt", "ge"} <= bounds.keys() or {"lt", "le"} <= bounds.keys():  # msgspec takes only one
        raise _NotSimple
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind


def _text(node: object, kind: Scalar, *, any_text: bool) -> Any:
    said = _words(node, "enum", "minLength", "maxLength", "format")
    if kind is not Scalar.STRING:
        if said.keys() & {"enum", "minLength", "maxLength"}:
            raise _NotSimple
        return str if any_text else Annotated[str, msgspec.Meta(pattern=rf"\A{TIMES[kind]}\Z")]
    if "format" in said:  # the validator checks it, and it makes no column
        raise _NotSimple
    listed = said.get("enum")
    if listed is not None:
        if not isinstance(listed, list) or not listed or said.keys() & {"minLength", "maxLength"}:
            raise _NotSimple
        if not all(isinstance(one, str) for one in listed):
            raise _NotSimple
        return Literal[tuple(listed)]
    lengths = {_LENGTHS[word]: said[word] for word in _LENGTHS if word in said}
    if not all(type(one) is int and 0 <= one < _EXACT_MAX for one in lengths.values()):
        raise _NotSimple
    return Annotated[str, msgspec.Meta(**lengths)] if lengths else str
