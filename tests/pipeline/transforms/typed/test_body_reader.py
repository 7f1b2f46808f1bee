"""Bodies in columns are equal to bodies read one by one, for all bodies and both readers."""

import json
import os
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from proton import Message
from pyspark.sql.types import StructType

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.formats.json_structs import json_decode
from distributary.pipeline.schemas.formats.row_reader import RowReader, row_reader
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.transforms.materialize.messages import decoded_bodies
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.typed.body_reader import Bodies, BodyReader
from distributary.pipeline.transforms.typed.topic_tables import widest
from distributary.pipeline.transforms.typed.typed_columns import of_rows

#: `make soak MODELS=typed` asks for more, round by round.
EXAMPLES = int(os.environ.get("TYPED_EVOLUTIONS", "60"))
#: A schema of a field, and texts of JSON of which some fit.
FIELDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"type": "integer"}, ["1", "-9223372036854775808", "9223372036854775807", "0"]),
    ({"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, ["1", "8", "0", "9"]),
    ({"type": "integer", "minimum": 1.5}, ["1", "2"]),
    ({"type": "number"}, ["0.1", "1e300", "9007199254740993", "5e-324", "1e400", "-0.0"]),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 3}, ["0", "3", "3.0000000000000004"]),
    ({"type": "number", "multipleOf": 0.01}, ["0.01", "0.001", "12.5"]),
    ({"type": "boolean"}, ["true", "false"]),
    ({"type": "string"}, ['"a"', '""', '"Zürich"', '"\\ud83d\\ude00"', '"\\u0000"']),
    ({"type": "string", "minLength": 1, "maxLength": 2}, ['""', '"\\ud83d\\ude00a"', '"abc"']),
    ({"type": "string", "enum": ["x", "y"]}, ['"x"', '"z"']),
    ({"type": ["string", "null"]}, ['"a"', "null"]),
    ({"type": ["integer", "null"], "minimum": 3}, ["3", "null", "2"]),
    ({"type": "string", "format": "date"}, ['"2026-08-01"', '"2026-02-30"', '"2024-02-29"']),
    (
        {"type": "string", "format": "date-time"},
        [
            *('"2026-08-01T10:00:00Z"', '"2026-08-01T10:00:00.123456+05:30"'),
            *('"2026-08-01T10:00:00.1234567Z"', '"2026-02-30T10:00:00Z"', '"1000-01-01T00:00:00Z"'),
            *('"2026-08-01 10:00:00Z"', '"2026-08-01T23:59:60Z"', '"2026-08-01t10:00:00z"'),
        ],
    ),
    ({"type": "string", "format": "email"}, ['"a@b.c"', '"a"']),
    ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1,2]", "[null]", "[1.0]"]),
    ({"type": "array", "items": {"type": ["string", "null"]}}, ['["a",null]']),
    (
        {"type": "array", "items": {"type": "string", "format": "date"}},
        ['["2026-08-01"]', '["2026-02-30"]'],
    ),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, ['{"a":1,"a":2}', "{}"]),
    (
        {
            "type": ["object", "null"],
            "properties": {"a b": {"type": "number"}, "c": {"type": "string"}},
            "required": ["c"],
            "additionalProperties": False,
        },
        ['{"c":"x"}', '{"a b":1,"c":"y"}', '{"a b":1}', '{"c":"x","d":1}', "null"],
    ),
    ({"type": "string", "contentEncoding": "base64"}, ['"AAEC"', '"?"']),
    ({"const": 1}, ["1", "2"]),
]
ODD = ["null", "1.0", "1e2", "true", '"1"', "NaN", "01", "1.", '"\\ud800"', '"\\x"', "[", "{}"]
NAMES = ("a", "b c", "d", "e")


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    said: dict[str, Any] = {
        "type": "object",
        "properties": {name: draw(st.sampled_from(FIELDS))[0] for name in names},
        "required": draw(st.lists(st.sampled_from(names), min_size=1, unique=True)),
    }
    more = draw(st.sampled_from([{}, {}, {"additionalProperties": False}, {"minProperties": 1}]))
    draft = draw(st.sampled_from([{}, {"$schema": "http://json-schema.org/draft-04/schema#"}]))
    return {**draft, **said, **more}


@st.composite
def bodies(draw: st.DrawFn, said: dict[str, Any]) -> bytes:
    """Most fit: a field's text comes from those of its kind."""
    parts = []
    for name, node in said["properties"].items():
        (own,) = [texts for kind, texts in FIELDS if kind == node]
        how = draw(st.sampled_from(["own"] * 12 + ["no", "no", "odd", "twice"]))
        texts = {"own": own, "no": [], "odd": ODD, "twice": own}[how]
        times = 2 if how == "twice" else 1
        parts += [f"{json.dumps(name)}: {draw(st.sampled_from(texts))}" for _ in texts[:1] * times]
    parts += draw(st.sampled_from([[]] * 9 + [['"z": {"y": [1]}']]))
    text = f"{{{', '.join(parts)}}}".encode()
    spoil = draw(st.sampled_from([b""] * 12 + [b" \n", b"x", b"\xff", b"{}"]))
    return text + spoil


def packed(messages: list[bytes]) -> Bodies:
    kind = topic_log_schema.ROWS["message"]
    names = [name for name in kind.names if name in (*COPIED, "message")]
    at = datetime(2026, 11, 25, tzinfo=UTC)
    row = {"topic": "t", "day": date(2026, 11, 25), "published_at": at, "priority": 4, "group": 1}
    rows = [
        row | {"sequence": nth, "durable": True, "message": one} for nth, one in enumerate(messages)
    ]
    log = pa.RecordBatch.from_pylist(rows, schema=pa.schema([kind.field(one) for one in names]))
    return Bodies.of(log, decoded_bodies(log), np.arange(len(messages)))


def reader_of(said: dict[str, Any]) -> RowReader:
    return row_reader(SchemaVersion("t", 1, Format.JSON, json.dumps(said)))


def compare(said: dict[str, Any], messages: list[bytes]) -> None:
    reader = reader_of(said)
    spark = StructType.fromJson(spark_json(reader.layout.columns))
    kinds = [
        (one.name, arrow_schema(StructType([one])).field(0).type)
        for one in widest(spark).fields  # type: ignore[attr-defined]
    ]
    found = BodyReader(reader).read(packed(messages), kinds)
    wanted = [reader.read(one) for one in messages]
    assert found.odd == [(at, one) for at, one in enumerate(wanted) if isinstance(one, Misfit)]
    rows = [(at, one) for at, one in enumerate(wanted) if not isinstance(one, Misfit)]
    assert found.fitting.tolist() == [at for at, _ in rows]
    for (name, _), have, want in zip(
        kinds, found.columns, of_rows([one for _, one in rows], kinds), strict=True
    ):
        assert have.type == want.type
        assert repr(have.to_pylist()) == repr(want.to_pylist()), name


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_whoever_reads_a_body_reads_the_same(data: st.DataObject) -> None:
    said = data.draw(schemas())
    try:
        reader_of(said)
    except InvalidRequest:  # another draft has no such word
        assume(False)
    some = data.draw(st.lists(bodies(said), min_size=1, max_size=8))
    messages = []
    for body in some:
        form = data.draw(st.sampled_from(["bytes"] * 6 + ["text", "encoded", "value"]))
        text: object = body.decode(errors="replace") if form == "text" else body
        message = Message(body=text, inferred=form != "value")
        if form == "encoded":
            message.content_encoding = "gzip"
        messages.append(message.encode())
    compare(said, messages)


@pytest.mark.parametrize("nth", range(len(FIELDS)))
def test_every_kind_of_field(nth: int) -> None:
    node, texts = FIELDS[nth]
    said = {"type": "object", "properties": {"a": node}}
    some = [f'{{"a": {text}}}'.encode() for text in (*texts, *ODD)]
    compare(said, [Message(body=body, inferred=True).encode() for body in some])


def test_odd_ones_among_thousands() -> None:
    """Times that the fast way doesn't read, days that there aren't, bodies that aren't plain and
    misfits, in columns of their own, at their places among more than are taken together."""
    said = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": ["string", "null"], "format": "date"},
            "within": {"type": "object", "properties": {"on": {"type": "string"}}},
        },
    }
    at = ["2026-08-01T10:00:00Z", "2026-08-01T10:00:00.1234567Z", "2026-02-30T10:00:00Z", "now"]
    day = ["2024-02-29", None, "2026-02-29", "2026-2-9"]
    odd = {7: (1, 0), 499: (0, 2), 500: (2, 2), 501: (3, 0), 777: (1, 3), 1_000: (0, 3)}
    messages = []
    for nth in range(1_203):
        time, date_ = odd.get(nth, (0, nth % 2))
        row: dict[str, Any] = {"id": nth, "at": at[time], "day": day[date_]}
        if nth % 3:
            row["within"] = {"on": f"{nth}"} if nth % 5 else {}
        message = Message(body=json.dumps(row).encode(), inferred=True)
        if nth in (3, 1_100):
            message.content_encoding = "gzip"
        messages.append(message.encode())
    compare(said, messages)


def test_the_fast_way_reads_what_is_usual() -> None:
    """Ten fields as many topics have them; without it the test above would compare one way with
    itself."""
    said = {
        "type": "object",
        "description": "an order",
        "properties": {f"f{nth}": FIELDS[nth][0] for nth in (0, 1, 3, 6, 7, 8, 9, 10, 12, 13)},
        "required": ["f0", "f3"],
        "additionalProperties": True,
    }
    reader = reader_of(said)
    decode = json_decode(reader.schema, reader.layout)
    assert decode is not None
    assert decode(b'{"f0": 1, "f3": 2, "f13": "2026-08-01T10:00:00Z"}')
    said["properties"]["f1"] = {"type": "string", "pattern": "x"}
    reader = reader_of(said)
    assert json_decode(reader.schema, reader.layout) is None
