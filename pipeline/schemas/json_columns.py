"""JSON Schema as columns (drafts 4 to 2020-12).

| schema | column |
|---|---|
| `boolean`, `integer`, `number`, `string` | boolean, long, double, string |
| `integer` whose bounds leave 64 bits | decimal(38,0) |
| `number` with `multipleOf` 0.1, 0.01, ... | decimal(38,1), decimal(38,2), ... |
| `string` with `format` `date`, `date-time` | date, timestamp |
| `string` with `contentEncoding: base64` | binary |
| `object` with `properties` | struct; fields not `required` or that may be null are nullable |
| `object` with `additionalProperties` of a type, without `properties` | map |
| `array` with `items` of a type | list |
| `enum`, `const` without `type` | the type of their values, if it is one |
| `anyOf`, `oneOf` of one type and null | that type, nullable |
| `allOf`, `$ref` within the definition | the column of all of them merged |
| everything else: several types, tuples, free objects, recursion | the text of its JSON |

Patterns, lengths and conditions are checked by the validator; they change no column.
"""

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.column_types import (
    PRECISION_MAX,
    Column,
    ColumnType,
    DecimalOf,
    ListOf,
    MapOf,
    RowLayout,
    Scalar,
    Struct,
    column,
    distinct,
    layout,
)
from distributary.pipeline.schemas.schema_version import LIMITS, SchemaLimits

Node: TypeAlias = dict[str, object]

LONG_LEAST, LONG_MOST = -(2**63), 2**63 - 1
#: Digits behind the point by `multipleOf` at most; the other twenty are before it.
SCALE_MAX: Final = 18
#: Steps over references and parts of one definition at most: a small text can need billions.
WORK_MAX: Final = 20_000

_FORMATS: Final = {"date": Scalar.DATE, "date-time": Scalar.TIMESTAMP}
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class Found(NamedTuple):
    """The type of a place in a body, and whether the value may be null."""

    type: ColumnType
    nullable: bool


FREE: Final = Found(Scalar.JSON, nullable=True)


def json_columns(definition: str, limits: SchemaLimits = LIMITS) -> RowLayout:
    """Return the layout of the bodies that a JSON Schema describes. Raises InvalidRequest for text
    that is no JSON, names that would be one column, and schemas beyond the limits."""
    return layout(_Walk(parsed(definition), limits).found((), ()).type, limits)


def parsed(definition: str) -> object:
    """Parse a definition as JSON. Raises InvalidRequest, for half a surrogate pair, too: no column
    takes a text with it."""
    try:
        definition.encode()
        root: object = json.loads(definition)
        json.dumps(root, ensure_ascii=False).encode()
    except UnicodeError:
        raise InvalidRequest("the definition has half a surrogate pair") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the definition is no JSON: {error}") from None
    return root


class _Walk:
    """One definition, read from its root."""

    def __init__(self, root: object, limits: SchemaLimits) -> None:
        self._root, self._limits = root, limits
        self._work = WORK_MAX

    def found(self, where: tuple[str, ...], within: tuple[str, ...]) -> Found:
        """Return the type of the root; `where` and `within` are the path to it."""
        return self._found(self._root, where, within)

    def _found(self, node: object, where: tuple[str, ...], within: tuple[str, ...]) -> Found:
        """Return a node's type: `where` are the fields that lead to it, `within` the references."""
        if len(where) > self._limits.depth_max:
            return FREE
        whole = self._whole(node, within)
        if whole is None:
            return FREE
        said, within = whole
        return self._typed(said, where, within)

    def _whole(self, node: object, within: tuple[str, ...]) -> tuple[Node, tuple[str, ...]] | None:
        """Merge a node with its references and `allOf`; None if they can't be merged, or if the
        node is recursive."""
        self._spend()
        if not isinstance(node, dict):
            return None
        said = cast("Node", node)
        parts: list[object] = []
        if isinstance(reference := said.get("$ref"), str):
            if reference in within:
                return None
            within = (*within, reference)
            parts.append(self._referenced(reference))
        if isinstance(every := said.get("allOf"), list):
            parts += every
        own = {key: value for key, value in said.items() if key not in ("$ref", "allOf")}
        for part in parts:
            other = self._whole(part, within)
            if other is None:
                return None
            merged = _merged(own, other[0])
            if merged is None:
                return None
            own, within = merged, other[1]
        return own, within

    def _spend(self) -> None:
        self._work -= 1
        if self._work < 0:
            raise InvalidRequest(
                f"the schema takes more than {WORK_MAX} steps to read: it has too many references "
                "to what has references itself"
            )

    def _referenced(self, reference: str) -> object:
        """Return the node of a reference within the definition; None for other references."""
        if not reference.startswith("#"):
            return None
        at: object = self._root
        for step in unquote(reference[1:]).split("/")[1:] if reference != "#" else []:
            name = step.replace("~1", "/").replace("~0", "~")
            at = at.get(name) if isinstance(at, dict) else None
        return at if reference == "#" or reference.startswith("#/") else None

    def _typed(self, said: Node, where: tuple[str, ...], within: tuple[str, ...]) -> Found:
        kinds = _kinds(said)
        if kinds is None:
            return self._alternatives(said, where, within)
        nullable = "null" in kinds
        match sorted(kinds - {"null"}):
            case []:
                return Found(Scalar.JSON, nullable=True)
            case [kind]:
                pass
            case ["integer", "number"]:
                kind = "number"
            case _:
                return FREE
        found = self._of_kind(kind, said, where, within)
        return FREE if found is Scalar.JSON else Found(found, nullable)

    def _alternatives(self, said: Node, where: tuple[str, ...], within: tuple[str, ...]) -> Found:
        """Return the type of a node without its own one: the common type of its alternatives."""
        for word in _ALTERNATIVES:
            if isinstance(listed := said.get(word), list):
                nulls = [one for one in listed if _is_null(one)]
                found = {self._found(one, where, within) for one in listed if not _is_null(one)}
                types = {one.type for one in found}
                if len(types) != 1 or types == {Scalar.JSON}:
                    return FREE
                return Found(types.pop(), bool(nulls) or any(one.nullable for one in found))
        return FREE

    def _of_kind(
        self, kind: str, said: Node, where: tuple[str, ...], within: tuple[str, ...]
    ) -> ColumnType:
        match kind:
            case "boolean":
                return Scalar.BOOLEAN
            case "integer":
                return DecimalOf(PRECISION_MAX, 0) if _is_wide(said) else Scalar.LONG
            case "number":
                scale = _scale(said)
                return Scalar.DOUBLE if scale is None else DecimalOf(PRECISION_MAX, scale)
            case "string":
                if said.get("contentEncoding") == "base64":
                    return Scalar.BINARY
                return _FORMATS.get(str(said.get("format")), Scalar.STRING)
            case "array":
                return self._list(said, where, within)
            case "object":
                return self._object(said, where, within)
        return Scalar.JSON

    def _list(self, said: Node, where: tuple[str, ...], within: tuple[str, ...]) -> ColumnType:
        items = said.get("items")
        if not isinstance(items, dict) or "prefixItems" in said:
            return Scalar.JSON
        found = self._found(items, (*where, "*"), within)
        return ListOf(found.type, found.nullable)

    def _object(self, said: Node, where: tuple[str, ...], within: tuple[str, ...]) -> ColumnType:
        properties = said.get("properties")
        if isinstance(properties, dict) and properties:
            return self._struct(said, cast("Node", properties), where, within)
        more = said.get("additionalProperties")
        if not isinstance(more, dict) or said.get("patternProperties"):
            return Scalar.JSON
        found = self._found(more, (*where, "*"), within)
        return MapOf(found.type, found.nullable)

    def _struct(
        self, said: Node, properties: Node, where: tuple[str, ...], within: tuple[str, ...]
    ) -> ColumnType:
        listed = said.get("required")
        required = set(listed) if isinstance(listed, list) else set()
        columns: list[Column] = []
        for name, node in properties.items():
            if node is False:  # the property is forbidden
                continue
            found = self._found(node, (*where, name), within)
            nullable = found.nullable or name not in required
            says = node.get("description") if isinstance(node, dict) else None
            columns.append(column(name, found.type, nullable=nullable, comment=says))
        return Struct(distinct(columns, "/".join(where))) if columns else Scalar.JSON


def _is_null(node: object) -> bool:
    return isinstance(node, dict) and (node.get("type") == "null" or node.get("const", 0) is None)


def _kinds(said: Mapping[str, object]) -> frozenset[str] | None:
    """Return the types of a node; None if it has no `type`, `enum` or the like."""
    match said.get("type"):
        case str() as kind:
            kinds = {kind}
        case list() as listed:
            kinds = {str(one) for one in listed}
        case _:
            return _kinds_of_values(said)
    if isinstance(values := said.get("enum"), list) and None not in values:
        kinds.discard("null")
    return frozenset(kinds)


def _kinds_of_values(said: Mapping[str, object]) -> frozenset[str] | None:
    if "const" in said:
        return frozenset({type_of(said["const"])})
    if isinstance(values := said.get("enum"), list):
        return frozenset(map(type_of, values))
    if "properties" in said:  # other types are valid, too, but not meant
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in said else None


def type_of(value: object) -> str:
    """Return JSON Schema's name for the type of a parsed value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "number"


def _is_wide(said: Mapping[str, object]) -> bool:
    """Whether integers within the bounds may need more than 64 bits."""
    bounds = (said.get(word) for word in _BOUNDS)
    return any(
        not isinstance(bound, bool)
        and isinstance(bound, int | float)
        and not LONG_LEAST <= bound <= LONG_MOST
        for bound in bounds
    )


def _scale(said: Mapping[str, object]) -> int | None:
    """Return the digits behind the point, if `multipleOf` is a power of ten below 1."""
    step = said.get("multipleOf")
    if isinstance(step, bool) or not isinstance(step, float):
        return None
    try:
        parts = Decimal(repr(step)).normalize().as_tuple()
    except InvalidOperation:
        return None
    if parts.digits != (1,) or not isinstance(parts.exponent, int) or parts.sign:
        return None
    return -parts.exponent if 0 < -parts.exponent <= SCALE_MAX else None


def _merged(one: Node, other: Node) -> Node | None:
    """Merge two nodes; None if no single node has the same meaning for columns."""
    merged = {**other, **one}
    for word in ("properties", "required", "type"):
        if word in one and word in other and one[word] != other[word]:
            both = _both(word, one[word], other[word])
            if both is None:
                return None
            merged[word] = both
    clash = any(
        word in one and word in other and one[word] != other[word] for word in _ALTERNATIVES
    )
    return None if clash and _kinds(merged) is None else merged


def _both(word: str, one: object, other: object) -> object | None:
    if word == "required" and isinstance(one, list) and isinstance(other, list):
        return [*one, *other]
    if word == "properties" and isinstance(one, dict) and isinstance(other, dict):
        return {
            name: {"allOf": [one[name], other[name]]}
            if name in one and name in other
            else one.get(name, other.get(name))
            for name in {**one, **other}
        }
    if word == "type":
        kinds = [_with_integers(_kinds({"type": said}) or frozenset()) for said in (one, other)]
        common = kinds[0] & kinds[1]
        return sorted(common - {"integer"} if "number" in common else common) or None
    return None


def _with_integers(kinds: frozenset[str]) -> frozenset[str]:
    return kinds | {"integer"} if "number" in kinds else kinds
