"""Keywords of a JSON Schema that are nearly one are told; notes, names and values aren't."""

import pytest

from distributary.pipeline.schemas.formats.json_keywords import KNOWN, misspelt


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"tipe": "object"}, "/tipe is no keyword of JSON Schema: is 'type' meant?"),
        ({"properties": {"a": {"requird": []}}}, "/properties/a/requird"),
        ({"items": {"enumm": [1]}}, "/items/enumm"),
        ({"anyOf": [True, {"patern": "a"}]}, "/anyOf/1/patern"),
        ({"$defs": {"x/y": {"minimun": 1}}}, "/$defs/x~1y/minimun"),
    ],
)
def test_what_is_told(schema: object, sentence: str) -> None:
    assert misspelt(schema).startswith(sentence)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {word: {} for word in KNOWN},
        {"x-type": 1, "javaType": "long", "connect.name": "a", "units": "m"},
        {"properties": {"tipe": {}, "requird": {}}, "required": ["requird"]},
        {"enum": [{"tipe": 1}], "const": {"tipe": 1}, "default": {"tipe": 1}},
        {"dependencies": {"a": ["tipe"], "b": {"type": "object"}}},
    ],
)
def test_what_is_not(schema: object) -> None:
    assert misspelt(schema) == ""
