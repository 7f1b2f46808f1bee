"""The audit's own parser and the reader of typed rows are two programs that say the same; and it
sees a value that isn't the body's."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from distributary.pipeline.codec.sections import Body
from distributary.pipeline.schemas.body_content import BodyContent
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.formats.row_reader import row_reader
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.transforms.audit.plain_bodies import BodyFormat
from distributary.pipeline.transforms.audit.plain_values import (
    BYTES,
    CONTENT_TYPE,
    TEXT,
    Version,
    differences,
)
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema

STRUCT = {"type": "object", "properties": {"x y": {"type": "integer"}, "z": {"type": "string"}}}
NUMBERS = {"type": "array", "items": {"type": "number", "multipleOf": 0.1}}
#: A schema of a field, a text of JSON, its value in a row, and one that it isn't.
VALUES: list[tuple[dict[str, Any], str, object, object]] = [
    ({"type": "integer"}, "7", 7, 8),
    ({"type": "integer"}, "7.0", 7, None),
    ({"type": ["integer", "null"]}, "null", None, 0),
    (
        {"type": "integer", "maximum": 10**30},
        "12345678901234567890",
        Decimal(12345678901234567890),
        Decimal(1),
    ),
    ({"type": "number"}, "0.1", 0.1, 0.1000001),
    ({"type": "number"}, "3", 3.0, 4.0),
    ({"type": "number", "multipleOf": 0.01}, "2.50", Decimal("2.5"), Decimal("2.51")),
    ({"type": "boolean"}, "true", True, False),
    ({"type": "string"}, '"Z\\u00fcrich"', "Zürich", "Zurich"),
    ({"type": "string", "format": "date"}, '"2026-08-01"', "2026-08-01", "2026-08-02"),
    ({"type": "string", "contentEncoding": "base64"}, '"AAEC"', b"\0\1\2", b"\0\1"),
    ({"type": ["string", "integer"]}, "5", "5", '"5"'),
    ({"type": "object"}, '{"b": 1.50, "a": [2]}', '{"a":[2],"b":1.5}', '{"b":1.5}'),
    (STRUCT, '{"x y": 1, "w": 2}', {"x_y": 1, "z": None}, {"x_y": 1, "z": "a"}),
    (NUMBERS, "[0.1, 2]", [Decimal("0.1"), Decimal(2)], [Decimal("0.1")]),
    (
        {"type": "object", "additionalProperties": {"type": "boolean"}},
        '{"a": true}',
        [("a", True)],
        [("b", True)],
    ),
    (
        {"type": "string", "format": "date-time"},
        '"2026-08-01T10:00:00.1234567+02:00"',
        datetime(2026, 8, 1, 8, 0, 0, 123456, tzinfo=UTC),
        datetime(2026, 8, 1, 8, 0, 0, 123457, tzinfo=UTC),
    ),
]


def found(node: dict[str, Any], text: str, value: object) -> list[dict[str, object]]:
    """The audit's differences of a row with this value from a body with that text."""
    return found_in_body(
        {"type": "object", "properties": {"a": node}}, f'{{"a": {text}}}', value, column="a"
    )


def found_in_body(
    schema: dict[str, Any], text: str, value: object, *, column: str = "value", fits: bool = True
) -> list[dict[str, object]]:
    """The audit's differences of the one column of a whole body, which need not fit."""
    reader = row_reader(SchemaVersion("t", 1, Format.JSON, json.dumps(schema)))
    columns = json.dumps(spark_json(reader.layout.columns))
    body = text.encode()
    read = reader.read_content(BodyContent(Body("data", body), "", "", {}))
    assert isinstance(read, dict) is fits, read
    kind = arrow_schema(StructType.fromJson(json.loads(columns))).field(column).type
    cell = pa.array([value], pa.string() if kind == pa.date32() else kind).cast(kind)
    if pa.types.is_timestamp(kind):  # a session may have a zone that only Java knows
        cell = cell.cast(pa.timestamp("us", "UTC+3"))
    names = ["_sequence", column, TEXT, BYTES, CONTENT_TYPE]
    nothing = pa.array([None], pa.string())
    cells = [pa.array([5]), cell, nothing, pa.array([body], pa.binary()), nothing]
    versions = [Version.of(0, None, columns, judged=True, bodies=BodyFormat("json"))]
    batch = pa.RecordBatch.from_arrays(cells, names=names)
    return [row for one in differences([batch], "t", "t", versions) for row in one.to_pylist()]


@pytest.mark.parametrize(("node", "text", "right", "wrong"), VALUES)
def test_a_value_is_the_bodys_or_it_is_named(
    node: dict[str, Any], text: str, right: object, wrong: object
) -> None:
    assert found(node, text, right) == []
    [said] = found(node, text, wrong)
    assert (said["sequence"], said["column"]) == (5, "a")


MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "text", "right", "wrong"),
    [
        (MAP, '{"value": 3, "b": 1}', [("value", 3), ("b", 1)], [("value", 3)]),
        ({}, '{"value": 3}', '{"value":3}', '{"value":4}'),
        ({"properties": {"value": MAP}}, '{"value": {"b": 1}}', [("b", 1)], [("b", 2)]),
        ({"properties": {"value": {"type": "integer"}}}, "{}", None, 1),
    ],
)
def test_a_whole_body_may_have_a_member_that_is_called_as_its_column(
    schema: dict[str, Any], text: str, right: object, wrong: object
) -> None:
    assert found_in_body(schema, text, right) == []
    [said] = found_in_body(schema, text, wrong)
    assert said["column"] == "value"


@pytest.mark.parametrize(
    ("node", "text", "value"),
    [
        ({"type": "string", "format": "date"}, '"x"', "2026-08-01"),
        ({"type": "string", "format": "date-time"}, "5", datetime(2026, 8, 1, tzinfo=UTC)),
        ({"type": "string", "contentEncoding": "base64"}, '"?"', b"a"),
        (MAP, "5", [("a", 1)]),
        ({"type": "array", "items": {"type": "integer"}}, "5", [1]),
        ({"type": "object", "properties": {"b": {"type": "integer"}}}, "5", {"b": 1}),
    ],
)
def test_a_body_that_does_not_fit_is_named_where_it_has_a_row(
    node: dict[str, Any], text: str, value: object
) -> None:
    schema = {"type": "object", "properties": {"a": node}}
    [said] = found_in_body(schema, f'{{"a": {text}}}', value, column="a", fits=False)
    assert said["column"] == "a"


def test_a_number_beyond_all_decimals_is_the_nearest_double() -> None:
    assert found({"type": "number"}, "1e-99999999999999999999", 0.0) == []


def test_a_column_of_another_version_is_null() -> None:
    """And bodies of versions that aren't judged are passed over."""
    columns = json.dumps({"type": "struct", "fields": []})
    names = ["_sequence", "a", TEXT, BYTES, CONTENT_TYPE]
    bodies = [pa.array(["{}", "{}"]), pa.nulls(2, pa.binary()), pa.nulls(2, pa.string())]
    batch = pa.RecordBatch.from_arrays([pa.array([1, 9]), pa.array([1, 1]), *bodies], names=names)
    versions = [
        Version.of(0, 5, columns, judged=True, bodies=BodyFormat("json")),
        Version.of(5, None, "", judged=False, bodies=BodyFormat("json")),
    ]
    rows = [row for one in differences([batch], "t", "t", versions) for row in one.to_pylist()]
    assert [(row["sequence"], row["column"], row["value"]) for row in rows] == [(1, "a", "1")]
