"""Random schemas and random rows: what a format writes of a row is read as that row; and a version
that may follow reads every row that the one before it allows."""

import base64
import io
import json
import string
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, message_factory
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distributary.pipeline.codec.amqp_types import Map
from distributary.pipeline.codec.sections import Body
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.body_content import BodyContent
from distributary.pipeline.schemas.formats.protobuf_rows import message_of, pool_of
from distributary.pipeline.schemas.formats.row_reader import RowReader, row_reader
from distributary.pipeline.schemas.formats.version_check import problems
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=3)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
#: A schema and a strategy of its values: as they are written, and as they stand in a row.
Kind = tuple[Any, "st.SearchStrategy[tuple[Any, Any]]"]


def same(values: "st.SearchStrategy[Any]") -> "st.SearchStrategy[tuple[Any, Any]]":
    return values.map(lambda one: (one, one))


DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
CENTS = st.decimals(-(10**20), 10**20, places=2)
JSON_LEAVES: list[Kind] = [
    ({"type": "integer"}, same(LONGS)),
    ({"type": "number"}, same(DOUBLES)),
    ({"type": "boolean"}, same(st.booleans())),
    ({"type": "string"}, same(TEXTS)),
    ({"type": "string", "format": "date"}, st.dates().map(lambda one: (one.isoformat(), one))),
    (
        {"type": "string", "format": "date-time"},
        TIMES.map(lambda one: (one.isoformat(), one)),
    ),
    (
        {"type": "string", "contentEncoding": "base64"},
        st.binary(max_size=9).map(lambda one: (base64.b64encode(one).decode(), one)),
    ),
]


def listed(inner: "st.SearchStrategy[tuple[Any, Any]]") -> "st.SearchStrategy[tuple[Any, Any]]":
    return st.lists(inner, max_size=3).map(
        lambda some: ([a for a, _ in some], [b for _, b in some])
    )


def mapped(inner: "st.SearchStrategy[tuple[Any, Any]]") -> "st.SearchStrategy[tuple[Any, Any]]":
    return st.dictionaries(TEXTS, inner, max_size=3).map(
        lambda some: ({k: a for k, (a, _) in some.items()}, {k: b for k, (_, b) in some.items()})
    )


@st.composite
def values_of(draw: st.DrawFn, fields: dict[str, tuple[Kind, bool]]) -> tuple[Any, Any]:
    """An object: what isn't required may be missing, and is null in the row."""
    written: dict[str, Any] = {}
    row: dict[str, Any] = {}
    for name, ((_, inner), required) in fields.items():
        if required or draw(st.booleans()):
            written[name], row[name] = draw(inner)
        else:
            row[name] = None
    return written, row


@st.composite
def json_objects(draw: st.DrawFn, depth: int = 2) -> Kind:
    kinds = st.sampled_from(JSON_LEAVES)
    if depth:
        inner = json_objects(depth - 1)
        kinds = st.one_of(
            kinds,
            inner,
            kinds.map(lambda one: ({"type": "array", "items": one[0]}, listed(one[1]))),
            kinds.map(
                lambda one: ({"type": "object", "additionalProperties": one[0]}, mapped(one[1]))
            ),
        )
    fields = draw(st.dictionaries(NAMES, st.tuples(kinds, st.booleans()), min_size=1, max_size=4))
    said = {
        "type": "object",
        "properties": {name: kind[0] for name, (kind, _) in fields.items()},
        "required": [name for name, (_, required) in fields.items() if required],
    }
    if draw(st.booleans()):
        said["additionalProperties"] = False
    return said, values_of(fields)


def of(format_: Format, definition: str, **more: Any) -> SchemaVersion:
    return SchemaVersion("orders", 1, format_, definition, **more)


def read(reader: RowReader, value: object, kind: Any = "data") -> Any:
    return reader.read_content(BodyContent(Body(kind, value), "", "", {}))  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.data(), json_objects())
def test_json_is_read_as_it_was_written(data: st.DataObject, kind: Kind) -> None:
    reader = row_reader(of(Format.JSON, json.dumps(kind[0])))
    written, row = data.draw(kind[1])
    body = json.dumps(written, ensure_ascii=data.draw(st.booleans()))
    assert read(reader, body.encode()) == row
    assert read(reader, body, "value") == row


def as_amqp(value: Any) -> Any:
    match value:
        case dict():
            return Map(tuple((key, as_amqp(one)) for key, one in value.items()))
        case list():
            return [as_amqp(one) for one in value]
    return value


@settings(max_examples=80, deadline=None)
@given(st.data(), json_objects())
def test_a_map_of_amqp_is_read_as_json(data: st.DataObject, kind: Kind) -> None:
    written, row = data.draw(kind[1])
    reader = row_reader(of(Format.JSON, json.dumps(kind[0])))
    assert read(reader, as_amqp(written), "value") == row


@given(CENTS)
def test_decimals_keep_their_digits(cents: Decimal) -> None:
    said = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.01}}}
    row = read(row_reader(of(Format.JSON, json.dumps(said))), f'{{"a": {cents}}}'.encode())
    assert row == {"a": cents}


AVRO_LEAVES: list[Kind] = [
    ("boolean", same(st.booleans())),
    ("int", same(st.integers(-(2**31), 2**31 - 1))),
    ("long", same(LONGS)),
    ("double", same(DOUBLES)),
    ("float", same(st.floats(width=32, allow_nan=False))),
    ("string", same(TEXTS)),
    ("bytes", same(st.binary(max_size=9))),
    ({"type": "int", "logicalType": "date"}, same(st.dates(date(1900, 1, 1)))),
    ({"type": "long", "logicalType": "timestamp-micros"}, same(TIMES)),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 24, "scale": 2},
        same(CENTS),
    ),
]


@st.composite
def avro_records(draw: st.DrawFn, depth: int = 2, name: str = "R") -> Kind:
    kinds = st.sampled_from(AVRO_LEAVES)
    if depth:
        kinds = st.one_of(
            kinds,
            kinds.map(lambda one: ({"type": "array", "items": one[0]}, listed(one[1]))),
            kinds.map(lambda one: ({"type": "map", "values": one[0]}, mapped(one[1]))),
        )
    drawn = draw(st.dictionaries(NAMES, st.tuples(kinds, st.booleans()), min_size=1, max_size=4))
    if depth and draw(st.booleans()):
        drawn["inner"] = (draw(avro_records(depth - 1, f"{name}x")), draw(st.booleans()))
    fields = [
        {"name": field, "type": kind[0] if required else ["null", kind[0]]}
        for field, (kind, required) in drawn.items()
    ]
    return {"type": "record", "name": name, "fields": fields}, values_of(drawn)


def avro_bytes(said: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(said), value)
    return file.getvalue()


@settings(max_examples=150, deadline=None)
@given(st.data(), avro_records())
def test_avro_is_read_as_it_was_written(data: st.DataObject, kind: Kind) -> None:
    written, row = data.draw(kind[1])
    reader = row_reader(of(Format.AVRO, json.dumps(kind[0])))
    body = avro_bytes(kind[0], written)
    assert read(reader, body) == row
    assert isinstance(read(reader, body + b"\0"), Misfit)


def test_a_default_is_a_value_of_its_type() -> None:
    """For a field that the writer's schema lacks the value is the reader's default: of bytes a
    text, of times numbers."""
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    cents = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "bytes"}]}
    more: list[tuple[Any, Any, Any]] = [
        ("bytes", "\u00ff", b"\xff"),
        (millis, 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (cents, "\u0005", Decimal("0.05")),
        (inner, {"b": "\u00fe"}, {"b": b"\xfe"}),
        (["null", "bytes"], None, None),
        ({"type": "array", "items": "double"}, [1], [1.0]),
    ]
    fields = [
        {"name": f"f{nth}", "type": kind, "default": said}
        for nth, (kind, said, _) in enumerate(more)
    ]
    new = {**old, "fields": [*old["fields"], *fields]}  # type: ignore[misc]
    versions = [
        of(Format.AVRO, json.dumps(said), registry_id=name)
        for name, said in (("1", old), ("2", new))
    ]
    content = BodyContent(Body("data", avro_bytes(old, {"a": 7})), "avro/binary+1", "", {})
    row = row_reader(versions[1], versions).read_content(content)
    assert row == {"a": 7, **{f"f{nth}": value for nth, (*_, value) in enumerate(more)}}


_F = descriptor_pb2.FieldDescriptorProto
PROTOBUF_LEAVES: list[Kind] = [
    (_F.TYPE_BOOL, same(st.booleans())),
    (_F.TYPE_INT32, same(st.integers(-(2**31), 2**31 - 1))),
    (_F.TYPE_SINT64, same(LONGS)),
    (_F.TYPE_UINT64, st.integers(0, 2**64 - 1).map(lambda one: (one, Decimal(one)))),
    (_F.TYPE_DOUBLE, same(DOUBLES)),
    (_F.TYPE_STRING, same(TEXTS)),
    (_F.TYPE_BYTES, same(st.binary(max_size=9))),
]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(st.tuples(st.sampled_from(PROTOBUF_LEAVES), st.booleans()), max_size=5))
def test_protobuf_is_read_as_it_was_written(
    data: st.DataObject, fields: list[tuple[Kind, bool]]
) -> None:
    """proto2: what isn't set is null."""
    assume(fields)
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto2")
    message = file.message_type.add(name="M")
    for nth, ((kind, _), repeated) in enumerate(fields, start=1):
        label = _F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL
        message.field.add(name=f"f{nth}", number=nth, type=kind, label=label)
    definition = base64.b64encode(
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    ).decode()
    made = message_factory.GetMessageClass(message_of(pool_of(definition), "p.M"))()
    row: dict[str, Any] = {}
    for nth, ((_, inner), repeated) in enumerate(fields, start=1):
        if repeated:
            written, row[f"f{nth}"] = data.draw(listed(inner))
            getattr(made, f"f{nth}").extend(written)
        elif data.draw(st.booleans()):
            written, row[f"f{nth}"] = data.draw(inner)
            setattr(made, f"f{nth}", written)
        else:
            row[f"f{nth}"] = None
    reader = row_reader(of(Format.PROTOBUF, definition, message="p.M"))
    assert read(reader, made.SerializeToString()) == row


def changed_json(data: st.DataObject, said: Any) -> Any:
    """The schema with a field more, less, optional or of another type."""
    new = json.loads(json.dumps(said))
    names = sorted(new["properties"])
    name = data.draw(st.sampled_from(names))
    match data.draw(st.sampled_from(["drop", "optional", "required", "other", "more"])):
        case "drop":
            del new["properties"][name]
            new["required"] = [one for one in new["required"] if one != name]
        case "optional":
            new["required"] = [one for one in new["required"] if one != name]
        case "required":
            new["required"] = sorted({*new["required"], name})
        case "other":
            new["properties"][name] = data.draw(st.sampled_from(JSON_LEAVES))[0]
        case _:
            new["properties"]["more"] = {"type": "integer"}
    return new


@settings(max_examples=200, deadline=None)
@given(st.data(), json_objects(depth=1))
def test_a_json_schema_that_may_follow_reads_all_rows_before(
    data: st.DataObject, kind: Kind
) -> None:
    new = changed_json(data, kind[0])
    old_version, new_version = (
        of(Format.JSON, json.dumps(kind[0])),
        of(Format.JSON, json.dumps(new)),
    )
    try:
        reader = row_reader(new_version)
    except InvalidRequest:
        return
    if problems(old_version, new_version):
        return
    written, _ = data.draw(kind[1])
    found = read(reader, json.dumps(written).encode())
    assert not isinstance(found, Misfit), (kind[0], new, written, found)


@settings(max_examples=200, deadline=None)
@given(st.data(), avro_records(depth=1))
def test_an_avro_schema_that_may_follow_reads_all_rows_before(
    data: st.DataObject, kind: Kind
) -> None:
    """And one that may not is refused by Avro's own library for some schema of these changes."""
    new = json.loads(json.dumps(kind[0]))
    field = data.draw(st.sampled_from(new["fields"]))
    match data.draw(st.sampled_from(["drop", "other", "more", "default"])):
        case "drop":
            new["fields"].remove(field)
        case "other":
            field["type"] = data.draw(st.sampled_from(AVRO_LEAVES))[0]
        case "more":
            new["fields"].append({"name": "more", "type": "long"})
        case _:
            new["fields"].append({"name": "more", "type": "long", "default": 7})
    assume(new["fields"])
    if problems(of(Format.AVRO, json.dumps(kind[0])), of(Format.AVRO, json.dumps(new))):
        return
    written, _ = data.draw(kind[1])
    body = avro_bytes(kind[0], written)
    fastavro.schemaless_reader(
        io.BytesIO(body), fastavro.parse_schema(kind[0]), fastavro.parse_schema(new)
    )
