"""Bodies of simple JSON Schemas, read and validated in one step by a decoder of msgspec.

Rule 1: what it reads, `JsonRows` would read as the same row. What it doesn't read, it says nothing
        of: a body with other fields than the schema's, an integer that is written as 1.0, a time
        with more than six digits of a second are fine for `JsonRows`.
Rule 2: a schema is simple if each of its words is in the tables below. One more, and it has none.
Rule 3: dates and times that are columns of their own are any text here. Whoever makes the columns
        looks at all of them at once (TIMES): a pattern for each text alone takes twice what all
        else of a body does.
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

#: Words that say nothing of values.
_NOTES: Final = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly"}
    | {"writeOnly", "type"}
)
#: Drafts in which 1.0 is an integer; draft 4 is another one.
_DRAFTS: Final = ("draft/2020-12/", "draft/2019-09/", "draft-07/", "draft-06/")
#: Integers up to here are doubles without a digit lost.
_EXACT_MAX: Final = 2**53
#: Dates and times of which validator, Python and Arrow have one opinion.
_DATE: Final = r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}"
_ZONE: Final = r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#: As patterns for the whole of a text.
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
#: Reads one body; raises one of UNREAD for what it says nothing of, as for None.
Decode: TypeAlias = Callable[[bytes | str | None], JsonStruct]
UNREAD: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError)


class _NotSimple(Exception):
    """A schema has a word that isn't in the tables."""


def json_decode(schema: SchemaVersion, layout: RowLayout) -> Decode | None:
    """What reads bodies by this version, if it is a simple one: to a struct with the columns of
    `layout` in their order. Dates and times are texts in it, structs within are structs."""
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
    """What a node says, if it has no other words than these and notes."""
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
    """Of a whole body, or of what is within one."""
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
    """What msgspec is to read for a column: it takes null where the schema does, and `any_text` for
    a date or a time."""
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
    """With its bounds; a double's are such that rounding carries no value over them."""
    said = _words(node, *_BOUNDS)
    bounds = {_BOUNDS[word]: said[word] for word in _BOUNDS if word in said}
    for bound in bounds.values():
        if isinstance(bound, bool) or not isinstance(bound, int) or abs(bound) >= _EXACT_MAX:
            raise _NotSimple
    if kind is int:
        low, high = {"gt", "ge"} & bounds.keys(), {"lt", "le"} & bounds.keys()
        bounds |= {} if low else {"ge": LONG_LEAST}
        bounds |= {} if high else {"le": LONG_MOST}
    if {"gt", "ge"} <= bounds.keys() or {"lt", "le"} <= bounds.keys():  # msgspec has one of them
        raise _NotSimple
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind


def _text(node: object, kind: Scalar, *, any_text: bool) -> Any:
    said = _words(node, "enum", "minLength", "maxLength", "format")
    if kind is not Scalar.STRING:
        if said.keys() & {"enum", "minLength", "maxLength"}:
            raise _NotSimple
        return str if any_text else Annotated[str, msgspec.Meta(pattern=rf"\A{TIMES[kind]}\Z")]
    if "format" in said:  # what the validator looks at, and no column
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
