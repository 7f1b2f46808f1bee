"""The audit's own readers of Avro and Protobuf say what the readers of typed rows say, and name a
value that isn't the body's."""

import base64
import json
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from fastavro.utils import generate_many
from google.protobuf import (
    descriptor_pb2,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from pyspark.sql.types import StructType

from distributary.pipeline.codec.sections import Body
from distributary.pipeline.schemas.body_content import BodyContent
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.formats.protobuf_rows import message_of, pool_of
from distributary.pipeline.schemas.formats.row_reader import row_reader
from distributary.pipeline.schemas.schema_version import Format, Framing, SchemaVersion
from distributary.pipeline.transforms.audit.plain_bodies import BodyFormat
from distributary.pipeline.transforms.audit.plain_values import (
    BYTES,
    CONTENT_TYPE,
    TEXT,
    Version,
    differences,
)
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.typed.topic_tables import widest
from distributary.pipeline.transforms.typed.typed_columns import of_rows


@dataclass(frozen=True)
class Read:
    """A body as the product reads it, and what the audit needs to read it again."""

    version: SchemaVersion
    columns: str
    row: Mapping[str, Any]
    body: bytes
    content_type: str
    bodies: BodyFormat

    def named(self, **spoilt: object) -> list[str]:
        """The columns that differ, with these values instead of the row's."""
        kind = widest(StructType.fromJson(json.loads(self.columns)))
        assert isinstance(kind, StructType)
        kinds = [(one.name, one.type) for one in arrow_schema(kind)]
        cells = of_rows([{**self.row, **spoilt}], kinds)  # type: ignore[list-item]
        nothing = pa.array([None], pa.string())
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([5]),
                *cells,
                nothing,
                pa.array([self.body], pa.binary()),
                pa.array([self.content_type], pa.string()),
            ],
            names=["_sequence", *(name for name, _ in kinds), TEXT, BYTES, CONTENT_TYPE],
        )
        versions = [Version.of(0, None, self.columns, judged=True, bodies=self.bodies)]
        found = [row for one in differences([batch], "t", "t", versions) for row in one.to_pylist()]
        return [row["column"] for row in found]


def read(
    version: SchemaVersion,
    body: bytes,
    others: list[SchemaVersion] | None = None,
    content_type: str = "",
) -> Read:
    reader = row_reader(version, others or [])
    row = reader.read_content(BodyContent(Body("data", body), content_type, "", {}))
    assert isinstance(row, dict), row
    writers = [(one.registry_id, one.definition) for one in (*(others or ()), version)]
    bodies = BodyFormat(
        version.format.value,
        version.definition,
        version.message,
        version.framing is Framing.CONFLUENT,
        tuple(one for one in writers if one[0]),
    )
    columns = json.dumps(spark_json(reader.layout.columns))
    return Read(version, columns, row, body, content_type, bodies)


# Avro.


def record(**fields: object) -> dict[str, object]:
    said = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "namespace": "n", "fields": said}


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


def avro(said: object, **more: Any) -> SchemaVersion:
    return SchemaVersion("t", 1, Format.AVRO, json.dumps(said), **more)


def written(said: Any, value: object) -> bytes:
    file = BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(said), value)
    return file.getvalue()


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
NOON = datetime(2026, 8, 1, 12, 0, 0, 123456, tzinfo=UTC)
#: A type, a value as it is written, and a value of the row that isn't it.
AVRO_VALUES: list[tuple[object, object, object]] = [
    ("boolean", True, False),
    ("int", -7, 7),
    ("long", 2**63 - 1, 2**63 - 2),
    ("float", 1.5, 1.25),
    ("double", 0.1, 0.2),
    ("double", float("nan"), 1.0),
    ("string", "Zürich", "Zurich"),
    ("bytes", b"\0\1", b"\0"),
    ("null", None, "x"),
    (["null", "int"], None, 0),
    (["null", "int"], 4, None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "A"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ac"),
    ({"type": "array", "items": "long"}, [1, -2, 3], [1, -2]),
    ({"type": "map", "values": "double"}, {"a": 1.0}, {"b": 1.0}),
    (POINT, {"x": 3}, {"x": 4}),
    ({"type": "array", "items": POINT}, [{"x": 3}], [{"x": 4}]),
    (logical("int", "date"), date(2026, 8, 1), date(2026, 8, 2)),
    (logical("long", "timestamp-micros"), NOON, NOON + timedelta(microseconds=1)),
    (
        logical("long", "timestamp-millis"),
        NOON.replace(microsecond=123000),
        NOON.replace(microsecond=124000),
    ),
    (logical("long", "time-micros"), (NOON).time(), "12:00:00.123457"),
    (
        logical("long", "local-timestamp-micros"),
        NOON.replace(tzinfo=None),
        "2026-08-01T12:00:01",
    ),
    (logical("long", "local-timestamp-nanos"), 1_785_578_400_123_456_789, "2026-08-01T10:00:01"),
    (logical("long", "time-nanos"), 5, 6),
    (
        logical("bytes", "decimal", precision=10, scale=2),
        Decimal("-12.50"),
        Decimal("12.50"),
    ),
    (logical("bytes", "decimal", precision=50, scale=2), Decimal("-12.50"), "12.50"),
    (logical("string", "uuid"), UUID(int=7), str(UUID(int=8))),
]


@pytest.mark.parametrize(("kind", "value", "wrong"), AVRO_VALUES)
def test_a_value_of_avro_is_the_bodys_or_it_is_named(
    kind: object, value: object, wrong: object
) -> None:
    said = record(a=kind, b="int")
    found = read(avro(said), written(said, {"a": value, "b": 1}))
    assert found.named() == []
    assert found.named(a=wrong) == ["a"]
    assert found.named(b=2) == ["b"]


def test_random_avro_is_read_alike() -> None:
    """Without times: the library draws some that there aren't."""
    kinds = [
        kind
        for kind, *_ in AVRO_VALUES
        if kind != POINT and not (isinstance(kind, dict) and "logicalType" in kind)
    ]
    for seed in range(40):
        dice = random.Random(seed)
        said = record(**{f"f{nth}": kind for nth, kind in enumerate(dice.sample(kinds, 5))})
        for value in generate_many(fastavro.parse_schema(json.loads(json.dumps(said))), 3):
            found = read(avro(said), written(json.loads(json.dumps(said)), value))
            assert found.named() == [], (seed, value)


WRITER = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "gone", "type": POINT},
        {"name": "n", "type": "int"},
        {"name": "old", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "u", "type": ["null", "long"]},
    ],
}
READER = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "u", "type": ["null", "double"]},
        {"name": "new", "type": "string", "aliases": ["old"]},
        {"name": "n", "type": "double"},
        {
            "name": "e",
            "type": {"type": "enum", "name": "E", "symbols": ["A", "Z"], "default": "Z"},
        },
        {"name": "more", "type": {"type": "array", "items": "long"}, "default": [7]},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "sub", "type": {**POINT, "name": "Sub"}, "default": {"x": 9}},
        {"name": "day", "type": logical("int", "date"), "default": 2},
        {"name": "at", "type": logical("long", "timestamp-millis"), "default": 1_000},
        {
            "name": "sum",
            "type": logical("bytes", "decimal", precision=4, scale=2),
            "default": "\u0005",
        },
    ],
}


@pytest.mark.parametrize("how", ["confluent", "azure"])
def test_a_writers_schema_is_resolved(how: str) -> None:
    """The body names it by its id; wrong is what the reader's schema would make of these bytes."""
    framing = Framing.CONFLUENT if how == "confluent" else Framing.PLAIN
    old = avro(WRITER, framing=framing, registry_id="4")
    new = avro(READER, framing=framing, registry_id="5")
    value = {"gone": {"x": 1}, "n": 3, "old": "text", "e": "B", "u": 4}
    data = written(WRITER, value)
    body, content_type = data, "avro/binary+4"
    if how == "confluent":
        body, content_type = b"\0" + struct.pack(">I", 4) + data, ""
    found = read(new, body, [old], content_type)
    assert found.row == {
        "u": 4.0,
        "new": "text",
        "n": 3.0,
        "e": "Z",
        "more": [7],
        "raw": b"\xff",
        "sub": {"x": 9},
        "day": date(1970, 1, 3),
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "sum": Decimal("0.05"),
    }
    assert found.named() == []
    wrong = {"u": None, "new": "x", "n": 4.0, "e": "A", "more": [], "raw": b"", "sub": {"x": 8}}
    wrong |= {"day": date(1970, 1, 2), "at": NOON, "sum": Decimal("0.50")}
    for name, one in wrong.items():
        assert found.named(**{name: one}) == [name]


@pytest.mark.parametrize(
    ("written_as", "read_as", "value"),
    [
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), 5),
        (
            logical("bytes", "decimal", precision=9, scale=1),
            logical("bytes", "decimal", precision=9, scale=2),
            Decimal("0.5"),
        ),
    ],
)
def test_a_value_of_another_logical_type_is_not_judged(
    written_as: object, read_as: object, value: object
) -> None:
    """The rows have what its writer meant, which Avro's resolution doesn't speak of."""
    old, new = avro(record(a=written_as), registry_id="4"), avro(record(a=read_as), registry_id="5")
    found = read(new, written(record(a=written_as), {"a": value}), [old], "avro/binary+4")
    assert found.named() == []


@pytest.mark.parametrize("spoilt", [b"", b"\2", b"\0\0\0\0\4\2", b"\0\0\0\0\5\2\2\2\2"])
def test_bytes_that_are_no_such_body_are_named(spoilt: bytes) -> None:
    """A body that can't be read should have no row: the audit reports the row."""
    said = record(a="int", b="string")
    version = avro(said, framing=Framing.CONFLUENT, registry_id="5")
    found = read(version, b"\0\0\0\0\5" + written(said, {"a": 1, "b": "x"}))
    assert found.named() == []
    other = Read(found.version, found.columns, found.row, spoilt, "", found.bodies)
    assert other.named() == [""]


# Protobuf.

_F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "double": _F.TYPE_DOUBLE,
    "float": _F.TYPE_FLOAT,
    "int64": _F.TYPE_INT64,
    "uint64": _F.TYPE_UINT64,
    "int32": _F.TYPE_INT32,
    "fixed64": _F.TYPE_FIXED64,
    "fixed32": _F.TYPE_FIXED32,
    "bool": _F.TYPE_BOOL,
    "string": _F.TYPE_STRING,
    "bytes": _F.TYPE_BYTES,
    "uint32": _F.TYPE_UINT32,
    "sfixed32": _F.TYPE_SFIXED32,
    "sfixed64": _F.TYPE_SFIXED64,
    "sint32": _F.TYPE_SINT32,
    "sint64": _F.TYPE_SINT64,
}
VALUES: dict[str, list[object]] = {
    name: values
    for names, values in (
        (("double", "float"), [0.0, 1.5, -2.25, float("inf")]),
        (("int32", "sint32", "sfixed32"), [0, 1, -1, 2**31 - 1, -(2**31)]),
        (("int64", "sint64", "sfixed64"), [0, 1, -1, 2**63 - 1, -(2**63)]),
        (("uint32", "fixed32"), [0, 1, 2**32 - 1]),
        (("uint64", "fixed64"), [0, 1, 2**64 - 1]),
        (("bool",), [True, False]),
        (("string",), ["", "Zürich"]),
        (("bytes",), [b"", b"\0\xff"]),
    )
    for name in names
}


def descriptor_set(syntax: str) -> str:
    """A message with fields of all types: single, repeated, in a map, in a oneof, within others."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax=syntax)
    kinds = (timestamp_pb2, wrappers_pb2, duration_pb2, struct_pb2)
    file.dependency.extend(one.DESCRIPTOR.name for one in kinds)
    enum = file.enum_type.add(name="E")
    for number, name in ((0, "ZERO"), (2, "TWO"), (-3, "MINUS")):
        enum.value.add(name=name, number=number)
    message = file.message_type.add(name="M")
    inner = message.nested_type.add(name="Inner")
    inner.field.add(name="a", number=1, type=_F.TYPE_INT32, label=_F.LABEL_OPTIONAL)
    inner.field.add(name="many", number=2, type=_F.TYPE_STRING, label=_F.LABEL_REPEATED)
    number = 0

    def add(name: str, kind: Any, label: Any = _F.LABEL_OPTIONAL, **more: Any) -> None:
        nonlocal number
        number += 1
        message.field.add(name=name, number=number, type=kind, label=label, **more)

    message.oneof_decl.add(name="one")
    for name, kind in SCALARS.items():
        add(f"s_{name}", kind)
        add(f"r_{name}", kind, _F.LABEL_REPEATED)
    add("o_int", _F.TYPE_INT32, oneof_index=0)
    add("o_text", _F.TYPE_STRING, oneof_index=0)
    add("o_inner", _F.TYPE_MESSAGE, type_name=".p.M.Inner", oneof_index=0)
    add("s_enum", _F.TYPE_ENUM, type_name=".p.E")
    add("r_enum", _F.TYPE_ENUM, _F.LABEL_REPEATED, type_name=".p.E")
    add("s_inner", _F.TYPE_MESSAGE, type_name=".p.M.Inner")
    add("r_inner", _F.TYPE_MESSAGE, _F.LABEL_REPEATED, type_name=".p.M.Inner")
    add("at", _F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add("wrapped", _F.TYPE_MESSAGE, type_name=".google.protobuf.Int64Value")
    add("took", _F.TYPE_MESSAGE, type_name=".google.protobuf.Duration")
    add("free", _F.TYPE_MESSAGE, type_name=".google.protobuf.Struct")
    for name, key, value in (("m_int", "int32", "string"), ("m_bool", "bool", "double")):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=SCALARS[key], label=_F.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=SCALARS[value], label=_F.LABEL_OPTIONAL)
        add(name, _F.TYPE_MESSAGE, _F.LABEL_REPEATED, type_name=f".p.M.{entry.name}")
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(k.DESCRIPTOR.serialized_pb) for k in kinds
    ]
    found = descriptor_pb2.FileDescriptorSet(file=[*files, file])
    return base64.b64encode(found.SerializeToString()).decode()


def fill(message: Any, dice: random.Random) -> None:
    """Some of its fields."""
    for name, values in VALUES.items():
        if dice.random() < 0.6:
            setattr(message, f"s_{name}", dice.choice(values))
        getattr(message, f"r_{name}").extend(dice.choices(values, k=dice.randrange(3)))
    message.r_enum.extend(dice.choices([0, 2, -3], k=dice.randrange(3)))
    steps = [
        lambda: setattr(message, "o_int", dice.choice([0, 5])),
        lambda: setattr(message, "o_text", "x"),
        lambda: setattr(message.o_inner, "a", 4),
        lambda: setattr(message, "s_enum", 2),
        lambda: message.s_inner.many.extend(["a", ""]),
        lambda: message.r_inner.add(a=3),
        message.r_inner.add,
        lambda: message.at.FromDatetime(NOON),
        lambda: setattr(message.wrapped, "value", dice.choice([0, 9])),
        lambda: setattr(message.took, "seconds", 3),
        lambda: message.free.update({"a": 1}),
        lambda: message.m_int.update({-1: "a", 0: ""}),
        lambda: message.m_bool.update({True: 0.0, False: 1.5}),
    ]
    for step in dice.sample(steps, dice.randrange(len(steps))):
        step()


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_random_protobuf_is_read_alike(syntax: str) -> None:
    """With and without Confluent's frame; a value in any column that isn't the body's is named."""
    definition = descriptor_set(syntax)
    made = message_factory.GetMessageClass(message_of(pool_of(definition), "p.M"))
    for seed in range(60):
        dice = random.Random(seed)
        message = made()
        fill(message, dice)
        data = message.SerializeToString()
        if dice.random() < 0.3:  # what comes twice is merged, the last one counts
            other = made()
            fill(other, dice)
            data += other.SerializeToString()
        framing = dice.choice([Framing.PLAIN, Framing.CONFLUENT])
        version = SchemaVersion("t", 1, Format.PROTOBUF, definition, message="p.M", framing=framing)
        frame = dice.choice([b"\0", b"\2\0", b"\4\2\0"])
        body = b"\0\0\0\0\7" + frame + data if framing is Framing.CONFLUENT else data
        found = read(version, body)
        assert found.named() == [], seed
        for name, value in found.row.items():
            wrong = spoilt(value)
            if name not in ("took", "free") and wrong is not None:
                assert found.named(**{name: wrong}) == [name], (seed, name, value)


def spoilt(value: object) -> object:
    """Another value of its type; None where there is none at hand."""
    match value:
        case bool():
            return not value
        case int() | float() | Decimal():
            return type(value)(1) if value == 0 else type(value)(0)
        case str():
            return f"{value}x"
        case bytes():
            return value + b"x"
        case list():
            return [] if value else None
        case datetime():
            return value + timedelta(microseconds=1)
        case dict() if "many" in value:
            return {**value, "many": [*value["many"], "x"]}
        case dict():
            return {} if value else None
    return None


def test_groups_and_what_is_unknown_are_read_over() -> None:
    """A newer producer's fields, of every wire type; a group is a message of another form."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto2")
    message = file.message_type.add(name="M")
    group = message.nested_type.add(name="G")
    group.field.add(name="x", number=2, type=_F.TYPE_INT32, label=_F.LABEL_OPTIONAL)
    message.field.add(
        name="g", number=1, type=_F.TYPE_GROUP, label=_F.LABEL_OPTIONAL, type_name=".p.M.G"
    )
    found = descriptor_pb2.FileDescriptorSet(file=[file])
    definition = base64.b64encode(found.SerializeToString()).decode()
    version = SchemaVersion("t", 1, Format.PROTOBUF, definition, message="p.M")
    unknown = b"\x48\1" + b"\x49" + b"\1" * 8 + b"\x4a\1x" + b"\x4b\x48\1\x4c" + b"\x4d" + b"\1" * 4
    one = read(version, b"\x0b\x10\7" + unknown + b"\x0c" + unknown)
    assert one.row == {"g": {"x": 7}}
    assert one.named() == []
    assert one.named(g={"x": 8}) == ["g"]
    assert Read(version, one.columns, one.row, b"\x0b\x10\7", "", one.bodies).named() == [""]


def map_schema(syntax: str) -> str:
    """A message with maps of an enum, a text and a message."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax=syntax)
    enum = file.enum_type.add(name="E")
    for number, name in ((0, "ZERO"), (2, "TWO")):
        enum.value.add(name=name, number=number)
    message = file.message_type.add(name="M")
    inner = message.nested_type.add(name="Inner")
    inner.field.add(name="e", number=1, type=_F.TYPE_ENUM, type_name=".p.E", label=1)
    values = {
        "Enums": {"type": _F.TYPE_ENUM, "type_name": ".p.E"},
        "Texts": {"type": _F.TYPE_STRING},
        "Inners": {"type": _F.TYPE_MESSAGE, "type_name": ".p.M.Inner"},
    }
    for nth, (name, said) in enumerate(values.items()):
        entry = message.nested_type.add(name=f"{name}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_F.TYPE_INT32, label=1)
        entry.field.add(name="value", number=2, label=1, **said)
        made = {"type": _F.TYPE_MESSAGE, "type_name": f".p.M.{entry.name}"}
        message.field.add(name=name.lower(), number=nth + 1, label=3, **made)
    found = descriptor_pb2.FileDescriptorSet(file=[file])
    return base64.b64encode(found.SerializeToString()).decode()


def entry_of(field: int, entry: bytes) -> bytes:
    return bytes([field << 3 | 2, len(entry)]) + entry


#: Entries of map_schema's maps with the key 1.
ENTRIES = {
    "a value of the enum": entry_of(1, b"\x08\1\x10\2"),
    "no value": entry_of(1, b"\x08\1"),
    "a value that the enum lacks": entry_of(1, b"\x08\1\x10\7"),
    "one that it has behind it": entry_of(1, b"\x08\1\x10\7\x10\2"),
    "one that it has before it": entry_of(1, b"\x08\1\x10\2\x10\7"),
    "a value of another wire type": entry_of(1, b"\x08\1\x12\1a"),
    "a field that an entry lacks": entry_of(2, b"\x08\1\x12\1a\x18\5"),
    "a message with an unknown value": entry_of(3, b"\x08\1\x12\2\x08\7"),
    "the key twice": entry_of(1, b"\x08\1\x10\2") + entry_of(1, b"\x08\1\x10\7"),
}
#: Entries that all of Google's libraries read alike.
CLEAR = ("a value of the enum", "no value", "a value that the enum lacks", "the key twice")


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_entries_of_maps_are_read_alike(syntax: str, entry: str) -> None:
    """A right map isn't named, wherever libraries differ; of a clear entry a wrong one is."""
    version = SchemaVersion("t", 1, Format.PROTOBUF, map_schema(syntax), message="p.M")
    found = read(version, ENTRIES[entry])
    assert found.named() == [], found.row
    if entry in CLEAR:
        assert found.named(enums={"1": "wrong"}) == ["enums"]
