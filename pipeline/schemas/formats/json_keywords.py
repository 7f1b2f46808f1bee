"""Keywords of a JSON Schema that are most likely misspelt.

JSON Schema ignores unknown keywords (2020-12, Core, 4.3.1), so `"tipe": "object"` would allow every
body without a warning. An unknown keyword that is nearly one of the vocabularies is reported when a
version is set. Others are notes, as are those that begin with `x-`.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from distributary.pipeline.schemas.typed_row import pointer

#: Keywords whose value is a schema, a list of schemas, or schemas by names.
_SCHEMA: Final = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"),
        *("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
        *("allOf", "anyOf", "oneOf", "prefixItems"),
    }
)
_BY_NAME: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
#: All keywords of drafts 4 to 2020-12, and those of OpenAPI and others.
KNOWN: Final = (
    _SCHEMA
    | _BY_NAME
    | {
        *("$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor"),
        *("$recursiveRef", "$ref", "$schema", "$vocabulary", "const", "contentEncoding"),
        *("contentMediaType", "default", "dependentRequired", "deprecated", "description", "enum"),
        *("examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "maxContains"),
        *("maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems"),
        *("minLength", "minProperties", "minimum", "multipleOf", "pattern", "readOnly", "required"),
        *("title", "type", "uniqueItems", "writeOnly"),
        *("discriminator", "example", "externalDocs", "nullable", "xml"),
    }
)
#: How alike two words must be, 0 to 1: a letter or two of a word differ.
_ALIKE: Final = 0.75


def misspelt(schema: object) -> str:
    """Return a sentence about the first misspelt keyword; empty if there is none."""
    for place, word in _keywords(schema, []):
        if word not in KNOWN and not word.startswith("x-"):
            near = get_close_matches(word, sorted(KNOWN), n=1, cutoff=_ALIKE)
            if near:
                where = pointer([*place, word])
                return f"{where} is no keyword of JSON Schema: is '{near[0]}' meant?"
    return ""


def _keywords(schema: object, place: list[str]) -> Iterator[tuple[list[str], str]]:
    """Return all keywords, each with the path to its schema. Names of properties, and values such
    as those of `enum`, are no keywords."""
    if not isinstance(schema, dict):
        return
    for word, value in schema.items():
        yield place, word
        inner = [*place, word]
        if word in _BY_NAME and isinstance(value, dict):
            for name, one in value.items():
                yield from _keywords(one, [*inner, name])
        elif word in _SCHEMA and isinstance(value, list):
            for nth, one in enumerate(value):
                yield from _keywords(one, [*inner, str(nth)])
        elif word in _SCHEMA:
            yield from _keywords(value, inner)
