"""Whether a version may follow another one, by the rules of their format.

JSON Schema: the reader must accept all bodies with the properties that the writer's schema names.
Other properties that an open schema allows don't count: publishers don't write them. jsonschema-rs
proves this; versions without a proof are refused (patterns that differ, recursion).
Avro: its schema resolution (`compatibility.avro_problems`).
Protobuf: its wire types, field by field number ("Updating A Message Type").
"""

import json
from collections.abc import Iterable
from typing import Any, Final, cast

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.compatibility import (
    DIRECTIONS,
    Direction,
    avro_problems,
    of_another_kind,
)
from distributary.pipeline.schemas.json_columns import parsed
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.schemas.typed_row import pointer

#: Reasons returned at most.
REASONS_MAX: Final = 10
#: Rules in one reason, and characters of each side's value, at most.
RULES_MAX: Final = 3
RULE_CHARACTERS_MAX: Final = 60
#: Keywords that have reasons of their own, or change nothing.
_ELSEWHERE: Final = frozenset(
    {"properties", "required", "title", "description", "examples", "default", "allOf", "$defs"}
)
Schema = dict[str, Any] | bool


def incompatible(old: SchemaVersion, new: SchemaVersion) -> list[str]:
    """Return why `new` may not follow `old` in the mode of `new`; empty if it may. `row_reader` has
    accepted both."""
    directions = DIRECTIONS[new.compatibility]
    if not directions:
        return []
    if why := of_another_kind(old, new):
        return [f"{why}: that is allowed with compatibility none alone"]
    found: list[str] = []
    for direction in sorted(directions):
        writer, reader = (old, new) if direction is Direction.NEW_READS_OLD else (new, old)
        found += [f"{direction}: {why}" for why in problems(writer, reader)]
    return found[:REASONS_MAX]


def problems(writer: SchemaVersion, reader: SchemaVersion) -> list[str]:
    """Return why the reader can't read all bodies of the writer; empty if it can."""
    match reader.format:
        case Format.AVRO:
            return avro_problems(writer.definition, reader.definition)
        case Format.JSON:
            return list(json_problems(_schema(writer), _schema(reader)))
        case Format.PROTOBUF:
            from distributary.pipeline.schemas.formats import protobuf_wire  # noqa: PLC0415

            return protobuf_wire.wire_problems(writer, reader)


def _schema(version: SchemaVersion) -> Schema:
    return cast("Schema", parsed(version.definition))


def json_problems(writer: Schema, reader: Schema) -> Iterable[str]:
    """Return the places where the reader refuses, or may refuse, bodies of the writer."""
    closes = "allOf" not in json.dumps(writer)
    written, read = _stated(writer, closed=closes), _stated(reader, closed=False)
    yield from _uncovered(written, read, (), (written, read))


def _uncovered(
    writer: Any, reader: Any, at: tuple[str, ...], roots: tuple[Schema, Schema]
) -> Iterable[str]:
    if _covers(_within(reader, roots[1]), _within(writer, roots[0])):
        return
    found = False
    if isinstance(writer, dict) and isinstance(reader, dict):
        written, read = writer.get("properties", {}), reader.get("properties", {})
        for name in sorted(set(reader.get("required", ())) - set(writer.get("required", ()))):
            found = True
            yield f"{pointer([*at, name])} is required, and may be missing"
        for name in sorted(written):
            if name in read:
                inner = list(_uncovered(written[name], read[name], (*at, name), roots))
            elif reader.get("additionalProperties", True) is False:
                inner = [f"{pointer([*at, name])} isn't allowed by the reader's schema"]
            else:
                inner = []
            found = found or bool(inner)
            yield from inner
    if not found:
        place = pointer(list(at)) or "the body"
        yield f"{place} may be what the reader's schema refuses{_differing(writer, reader)}"


def _differing(writer: Any, reader: Any) -> str:
    """Return the first rules that differ between both sides."""
    if not isinstance(writer, dict) or not isinstance(reader, dict):
        return ""
    words = [
        word
        for word in sorted({*writer, *reader} - _ELSEWHERE)
        if writer.get(word) != reader.get(word)
    ]
    said = [
        f"{word} {_short(writer.get(word))} is written, {_short(reader.get(word))} is read"
        for word in words[:RULES_MAX]
    ]
    return f": {'; '.join(said)}" if said else ""


def _short(value: object) -> str:
    text = "(none)" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= RULE_CHARACTERS_MAX else f"{text[:RULE_CHARACTERS_MAX]}..."


def _within(part: Any, root: Schema) -> Any:
    """Return a part of a schema with the definitions that it may refer to."""
    if not isinstance(part, dict) or not isinstance(root, dict):
        return part
    kept = {key: root[key] for key in ("$defs", "definitions", "$schema") if key in root}
    return {**kept, **part}


def _covers(reader: Any, writer: Any) -> bool:
    import jsonschema_rs  # noqa: PLC0415

    try:
        made = [
            jsonschema_rs.canonicalize(one, validate_formats=True, offline=True)
            for one in (reader, writer)
        ]
        return made[0].covers(made[1]) == jsonschema_rs.canonical.Containment.YES
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidRequest(f"the schemas can't be compared: {error}") from None


#: Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE = frozenset({"items", "additionalProperties", "contains", "not", "if", "then", "else"})
_MANY = frozenset({"anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties"})
#: Pattern of a text in base64.
_BASE64 = "^[A-Za-z0-9+/]*={0,2}$"
_SAYS_MORE = frozenset({"additionalProperties", "unevaluatedProperties", "patternProperties"})


def _stated(node: Any, *, closed: bool) -> Any:
    """Add the rules of rows to a schema: a text in base64 has only its characters. `closed`:
    objects have only the properties that they name."""
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            made[key] = {name: _stated(one, closed=closed) for name, one in value.items()}
        elif key in _MANY and isinstance(value, list):
            made[key] = [_stated(one, closed=closed) for one in value]
        elif key in _ONE:
            made[key] = _stated(value, closed=closed)
        else:
            made[key] = value
    if made.get("contentEncoding") == "base64":
        made["allOf"] = [*made.get("allOf", ()), {"pattern": _BASE64}]
    if closed and isinstance(node.get("properties"), dict) and not _SAYS_MORE & node.keys():
        made["additionalProperties"] = False
    return made
