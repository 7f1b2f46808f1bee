"""Typed tables over drawn evolutions of a schema, against a plain parser."""

import json
import os
from collections import Counter
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message
from pyspark.sql.types import LongType, StringType, StructField, StructType

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.json_columns import json_columns
from distributary.pipeline.schemas.schema_text import DROPPED, text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.transforms.audit.plain_bodies import BodyFormat
from distributary.pipeline.transforms.audit.plain_values import Version
from distributary.pipeline.transforms.materialize.messages import decoded_bodies
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME, folder_name
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent, joined, topic_tables
from distributary.pipeline.transforms.typed.typed_rows import TypedRows

#: `make soak MODELS=typed` asks for more, round by round.
EVOLUTIONS = int(os.environ.get("TYPED_EVOLUTIONS", "100"))
TYPES = {"boolean": bool, "integer": int, "number": float, "string": str}
VALUES: dict[str, st.SearchStrategy[object]] = {
    "boolean": st.booleans(),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=8),
}
FIELDS = ("a", "b", "c", "d")
schemas = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(sorted(TYPES)), min_size=1)
bodies = st.dictionaries(
    st.sampled_from(FIELDS), st.one_of(*VALUES.values(), st.none()), max_size=4
)


def event(topic: str, version: int, floor: int, said: dict[str, str]) -> SchemaEvent:
    definition = json.dumps(
        {"type": "object", "properties": {name: {"type": kind} for name, kind in said.items()}}
    )
    schema = SchemaVersion(topic, version, Format.JSON, definition)
    return SchemaEvent.of(
        topic, floor, text_of(schema, json.dumps(spark_json(json_columns(definition).columns)))
    )


def log_rows(said: list[tuple[str, bytes]]) -> pa.RecordBatch:
    """Rows of topic_log, one message each."""
    kind = topic_log_schema.ROWS["message"]
    names = [name for name in kind.names if name in (*COPIED, "message")]
    at = datetime(2026, 11, 25, tzinfo=UTC)
    rows = [
        {
            "sequence": nth,
            "topic": topic,
            "day": date(2026, 11, 25),
            "published_at": at,
            "durable": True,
            "priority": 4,
            "group": nth // 3,
            "message": Message(id=f"m{nth}", body=body, inferred=True).encode(),
        }
        for nth, (topic, body) in enumerate(said)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema([kind.field(one) for one in names]))


def fits(body: dict[str, object], said: dict[str, str]) -> bool:
    """Whether a body fits the schema, by a plain reader."""
    for name, kind in said.items():
        if name not in body:
            continue
        value = body[name]
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
        if kind == "integer" and whole:
            continue
        of = (int, float) if kind == "number" else TYPES[kind]
        if not isinstance(value, of) or (isinstance(value, bool) and kind != "boolean"):
            return False
    return True


def as_column(value: object, kind: str) -> object:
    """The column's value of a fitting value: of a number the nearest double."""
    return float(value) if kind == "number" and isinstance(value, int) else value


@settings(max_examples=EVOLUTIONS, deadline=None)
@given(st.lists(st.one_of(schemas, st.none()), min_size=1, max_size=5), st.data())
def test_each_message_is_in_one_table_with_its_values(
    evolution: list[dict[str, str] | None], data: st.DataObject
) -> None:
    """For any series of versions a message is read by the version in force, and is in the columns
    of that version alone."""
    floors = sorted(data.draw(st.integers(0, 12)) for _ in evolution)
    events = [
        SchemaEvent.of("orders", floor, DROPPED)
        if said is None
        else event("orders", version, floor, said)
        for version, (floor, said) in enumerate(zip(floors, evolution, strict=True), 1)
    ]
    messages = [data.draw(bodies) for _ in range(12)]
    log = log_rows([("orders", json.dumps(body).encode()) for body in messages])
    parts = list(TypedRows(events).made(log, decoded_bodies(log)))
    seen: Counter[int] = Counter()
    for part in parts:
        key = "sequence" if part.name == REJECTED_NAME else "_sequence"
        for row in part.rows.to_pylist():
            seen[row[key]] += 1
            in_force = [one for one in range(len(events)) if floors[one] <= row[key]][-1]
            said, body = evolution[in_force], messages[row[key]]
            assert said is not None
            assert fits(body, said) == (part.name != REJECTED_NAME)
            if part.name == REJECTED_NAME:
                assert row["reason"]
                assert row["schema_version"] == in_force + 1
                continue
            assert row["_message_id"] == f"m{row[key]}"
            assert row["_schema_version"] == in_force + 1
            own = {name: value for name, value in row.items() if name[0] != "_"}
            wanted = {name: as_column(body.get(name), kind) for name, kind in said.items()}
            assert {name: own.get(name) for name in said} == wanted
            assert all(value is None for name, value in own.items() if name not in said)
    owed = [
        nth
        for nth in range(12)
        if (before := [one for one in range(len(events)) if floors[one] <= nth])
        and evolution[before[-1]] is not None
    ]
    assert seen == Counter(owed)


@settings(max_examples=EVOLUTIONS, deadline=None)
@given(st.lists(schemas, min_size=1, max_size=6))
def test_tables_only_grow(evolution: list[dict[str, str]]) -> None:
    """A table has the columns of each of its versions, and no version changes what stood before."""
    before: dict[str, StructType] = {}
    for count in range(1, len(evolution) + 1):
        events = [event("orders", n, n, said) for n, said in enumerate(evolution[:count], 1)]
        now = topic_tables(events, "orders")
        for name, kind in before.items():
            assert now.tables[name].fields[: len(kind)] == kind.fields
        before = now.tables
        for reign in now.reigns:
            assert reign.schema is not None
            assert {own for _, own in reign.names} <= set(now.tables[reign.table].names)


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("flights.ua", "flights.ua"),
        ("orders.v2", "orders~2ev2"),
        ("queue://orders", "queue~3a~2f~2forders"),
        ("_orders", "~5forders"),
        ("../x", "~2e.~2fx"),
        ("a~b", "a~7eb"),
    ],
)
def test_a_topic_as_a_folder(topic: str, name: str) -> None:
    assert folder_name(topic) == name


@given(st.lists(st.text(min_size=1, max_size=200), unique=True, max_size=20))
def test_no_two_topics_share_a_folder(topics: list[str]) -> None:
    """Nor does any lead out of it."""
    topics = [one for one in topics if one.isprintable()]
    names = [folder_name(one) for one in topics]
    assert len(set(names)) == len(names)
    assert not any("/" in one or one in (".", "..") for one in names)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (("a", StringType(), {}), ("b", LongType(), {}), 2),
        (("a", StringType(), {}), ("a", StringType(), {}), 1),
        (("a", StringType(), {}), ("a", LongType(), {}), None),
        (("a", StringType(), {}), ("A", StringType(), {}), None),
        (("a", StringType(), {}), ("a", StringType(), {"json": True}), None),
    ],
)
def test_what_one_table_can_hold(one: tuple, other: tuple, both: int | None) -> None:  # type: ignore[type-arg]
    first, second = (
        StructType([StructField(name, kind, metadata=said)]) for name, kind, said in (one, other)
    )
    found = joined(first, second)
    assert (None if found is None else len(found)) == both  # type: ignore[arg-type]


KINDS = {"a": "integer", "b": "integer", "c": "string", "d": "boolean"}
inner = st.lists(st.sampled_from(FIELDS), unique=True, min_size=1)


def drawn_value(data: st.DataObject, kind: str) -> object:
    return data.draw(VALUES[kind])


@settings(max_examples=EVOLUTIONS, deadline=None)
@given(st.lists(inner, min_size=1, max_size=4), st.booleans(), st.data())
def test_fields_within_go_by_their_names(
    evolution: list[list[str]], simple: bool, data: st.DataObject
) -> None:
    """In structs, lists and maps of later versions fields come in another order, and some come and
    go: each value lies in the field of its name. So it is for bodies of simple schemas, and for
    those that are read one by one."""
    events, log = [], []
    for version, names in enumerate(evolution, 1):
        fields = {name: {"type": KINDS[name]} for name in names}
        of_fields = {"type": "object", "properties": fields}
        if not simple:
            of_fields["minProperties"] = 0
        said = {
            "x": of_fields,
            "l": {"type": "array", "items": of_fields},
            "m": {"type": "object", "additionalProperties": of_fields},
        }
        definition = json.dumps({"type": "object", "properties": said})
        schema = SchemaVersion("orders", version, Format.JSON, definition)
        columns = json.dumps(spark_json(json_columns(definition).columns))
        events.append(SchemaEvent.of("orders", len(log), text_of(schema, columns)))
        one = {name: drawn_value(data, KINDS[name]) for name in names}
        log.append({"x": one, "l": [one, {}], "m": {"k": one}})
    made = log_rows([("orders", json.dumps(body).encode()) for body in log])
    parts = list(TypedRows(events).made(made, decoded_bodies(made)))
    assert {part.name for part in parts} == {f"topics/{folder_name('orders', 1)}"}
    known = {name for names in evolution for name in names}
    rows = {row["_sequence"]: row for part in parts for row in part.rows.to_pylist()}
    nothing = dict.fromkeys(known)
    assert len(rows) == len(log)
    for sequence, body in enumerate(log):
        wanted = {**nothing, **body["x"]}
        row = rows[sequence]
        assert row["x"] == wanted
        assert row["l"] == [wanted, nothing]
        assert dict(row["m"]) == {"k": wanted}


def test_fields_that_are_called_as_columns_of_ours_have_columns() -> None:
    """Also beside fields that are called as those; the audit finds each, by its own rule."""
    said = dict.fromkeys(["_sequence", "_sequence_", "_Message_Id"], "integer")
    events = [event("orders", 1, 0, said)]
    made = log_rows([("orders", json.dumps(dict(zip(said, range(3), strict=True))).encode())])
    [part] = TypedRows(events).made(made, decoded_bodies(made))
    [row] = part.rows.to_pylist()
    columns = {"_sequence__": 0, "_sequence_": 1, "_Message_Id_": 2}
    assert {name: row[name] for name in columns} == columns
    judged = Version.of(0, None, events[0].columns, judged=True, bodies=BodyFormat("json"))
    assert judged.columns is not None
    assert list(judged.columns) == list(columns)
