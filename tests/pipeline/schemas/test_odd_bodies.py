"""Odd bodies: each is a row with values of its columns' types, or a misfit, never an error."""

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2
from pyspark.sql.types import StructType

from distributary.pipeline.codec.amqp_types import Map
from distributary.pipeline.codec.sections import Body
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.body_content import STRUCTURED, BodyContent
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.formats.row_reader import RowReader, row_reader
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit
from distributary.pipeline.transforms.audit.plain_avro import AvroBodies
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.typed.topic_tables import widest
from distributary.pipeline.transforms.typed.typed_columns import of_rows

#: Beyond the exponents of Python's decimals.
HUGE, TINY = "1e99999999999999999999", "1e-99999999999999999999"


def as_columns(reader: RowReader, body: bytes, content_type: str = "") -> Any:
    """The row as its typed table has it, or the misfit."""
    row = reader.read_content(BodyContent(Body("data", body), content_type, "", {}))
    if isinstance(row, Misfit):
        return row
    kind = widest(StructType.fromJson(dict(spark_json(reader.layout.columns))))
    kinds = [(one.name, one.type) for one in arrow_schema(kind)]  # type: ignore[arg-type]
    columns = of_rows([row], kinds)
    return {name: one[0].as_py() for (name, _), one in zip(kinds, columns, strict=True)}


def json_reader(*, cloud_events: bool = False, **properties: Any) -> RowReader:
    definition = json.dumps({"type": "object", "properties": properties})
    return row_reader(
        SchemaVersion("orders", 1, Format.JSON, definition, cloud_events=cloud_events)
    )


CENTS = {"type": "number", "multipleOf": 0.01}


@pytest.mark.parametrize("number", [HUGE, TINY, f"-{HUGE}"])
def test_an_exponent_beyond_all_decimals_is_a_misfit(number: str) -> None:
    found = as_columns(json_reader(a=CENTS, b={"type": "number"}), f'{{"b": {number}}}'.encode())
    assert isinstance(found, Misfit)
    event = f'{{"id":"1","source":"s","type":"t","specversion":"1.0","data":{{}},"x":{number}}}'
    found = as_columns(json_reader(cloud_events=True, a={}), event.encode(), STRUCTURED)
    assert isinstance(found, Misfit)


@pytest.mark.parametrize("number", ["1." + "0" * 60, "1" + "0" * 60 + "e-60", "-0." + "0" * 99])
def test_zeros_behind_a_decimal_are_no_digits_of_it(number: str) -> None:
    found = as_columns(json_reader(a=CENTS), f'{{"a": {number}}}'.encode())
    assert found == {"a": Decimal(number)}


#: Integers with a point or an exponent, more digits than a double has: None is a misfit.
INTEGERS: list[tuple[str, int | None]] = [
    ("9007199254740993.0", 2**53 + 1),
    ("-123456789012345678.0e0", -123456789012345678),
    ("9.223372036854775807e18", 2**63 - 1),
    ("9223372036854775808.0", None),
    ("1.00000000000000000001", None),
    ("1e18", 10**18),
    ("7.0", 7),
]


@pytest.mark.parametrize(("number", "value"), INTEGERS)
@pytest.mark.parametrize("text", ['{"a": %s}', '{"b": [{"c": %s}]}'])
def test_an_integer_with_a_point_is_never_rounded(
    number: str, value: int | None, text: str
) -> None:
    whole = {"type": "integer"}
    inner = {"type": "array", "items": {"type": "object", "properties": {"c": whole}}}
    found = as_columns(json_reader(a=whole, b=inner), (text % number).encode())
    if value is None:
        assert isinstance(found, Misfit)
    else:
        assert found in ({"a": value, "b": None}, {"a": None, "b": [{"c": value}]})


def test_a_double_of_amqp_is_an_integer_as_it_is() -> None:
    body = Body("value", Map((("a", 7.0),)))
    found = json_reader(a={"type": "integer"}).read_content(BodyContent(body, "", "", {}))
    assert found == {"a": 7}


def test_a_null_attribute_of_an_event_is_one_that_it_does_not_have() -> None:
    event = {"id": "1", "source": "s", "type": "t", "specversion": "1.0", "data": {}}
    reader = json_reader(cloud_events=True, a={})
    without = as_columns(reader, json.dumps(event).encode(), STRUCTURED)
    null = as_columns(reader, json.dumps(event | {"datacontenttype": None}).encode(), STRUCTURED)
    assert null == without


# Avro.


def record(kind: Any, **more: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]}


def avro_reader(reads: Any, written: Any) -> RowReader:
    """A reader of bodies with the registry id 7, which another version has written."""
    versions = [
        SchemaVersion("orders", nth, Format.AVRO, json.dumps(one), registry_id=str(nth))
        for nth, one in ((7, written), (8, reads))
    ]
    return row_reader(versions[1], versions)


def long_bytes(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def varint(left: int) -> bytes:
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
#: A version, the one that wrote, a body, and the value: None is a misfit.
CHANGES: list[tuple[Any, Any, bytes, Any]] = [
    ("long", MILLIS, long_bytes(5), None),
    (MILLIS, "long", long_bytes(5), None),
    ("bytes", DECIMAL, b"\x02\x05", None),
    (DECIMAL, "bytes", b"\x02\x05", None),
    ("int", {"type": "int", "logicalType": "date"}, long_bytes(5), None),
    ({"type": "int", "logicalType": "date"}, "int", long_bytes(5), date(1970, 1, 6)),
    ({"type": "int", "logicalType": "date"}, "int", long_bytes(2**31 - 1), None),
    ("double", "long", long_bytes(5), 5.0),
    ("bytes", "string", b"\x04ab", b"ab"),
]


@pytest.mark.parametrize(("reads", "written", "body", "value"), CHANGES)
def test_a_value_of_another_logical_type_is_read_right_or_a_misfit(
    reads: Any, written: Any, body: bytes, value: Any
) -> None:
    reader = avro_reader(record(reads), record(written))
    found = as_columns(reader, body, "avro/binary+7")
    assert isinstance(found, Misfit) if value is None else found == {"a": value}


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("long", 2**63),
        ("bytes", "Ā"),
        ({"type": "int", "logicalType": "date"}, 2**31 - 1),
        ({"type": "array", "items": "double"}, [10**400]),
    ],
)
def test_a_default_that_its_column_does_not_take_is_a_misfit(kind: Any, default: Any) -> None:
    fields = [{"name": "a", "type": kind, "default": default}, {"name": "b", "type": "int"}]
    reads = {"type": "record", "name": "R", "fields": fields}
    written = {"type": "record", "name": "R", "fields": fields[1:]}
    assert isinstance(as_columns(avro_reader(reads, written), b"\x02", "avro/binary+7"), Misfit)


def test_a_default_that_is_no_number_of_any_column_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no Avro schema"):
        avro_reader(record("double", default=10**400), record("double"))


def test_half_a_surrogate_pair_in_a_definition_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        avro_reader(record("string", default="\ud800"), record("string"))


NANOS = 1_785_578_400_123_456_789


@pytest.mark.parametrize(
    ("logical", "value"),
    [
        ("timestamp-nanos", datetime(2026, 8, 1, 10, 0, 0, 123456, UTC)),
        ("local-timestamp-nanos", "2026-08-01T10:00:00.123456"),
    ],
)
def test_times_in_nanoseconds(logical: str, value: Any) -> None:
    """In a body and as a default; digits behind microseconds are cut off."""
    kind = {"type": "long", "logicalType": logical}
    written = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}
    own = avro_reader(record(kind), record(kind))
    later = avro_reader(
        {
            **written,
            "fields": [*written["fields"], {"name": "a", "type": kind, "default": NANOS}],
        },
        written,
    )
    assert as_columns(own, long_bytes(NANOS), "avro/binary+8") == {"a": value}
    assert as_columns(later, b"\x02", "avro/binary+7") == {"a": value, "b": 1}


def fields_of(**kinds: Any) -> Any:
    said = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return {"type": "record", "name": "R", "fields": said}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
#: A type and the bytes of no value of it.
NO_VALUES: list[tuple[Any, bytes]] = [
    ("long", b"\x80" * 10 + b"\x01"),
    ("long", b"\xff" * 9 + b"\x02"),
    ("string", b"\x82" + b"\x80" * 10 + b"\x00a"),
    ("string", b"\x01"),
    ("string", b"\x02\xff"),
    ("bytes", b"\xc8\x01abc"),
    ("double", b"ab"),
    (["null", "int"], b"\x01\x02"),
    (["null", "int"], b"\x04"),
    (ENUM, b"\x01"),
    (ENUM, b"\x04"),
    ({"type": "fixed", "name": "F", "size": 8}, b"ab"),
    ({"type": "array", "items": "float"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ({"type": "map", "values": "int"}, b"\x02\x02a"),
    ({"type": "int", "logicalType": "time-millis"}, long_bytes(-1)),
    ({"type": "int", "logicalType": "time-millis"}, long_bytes(86_400_000)),
    ({"type": "long", "logicalType": "time-micros"}, long_bytes(-1)),
    ({**DECIMAL, "precision": 40}, bytes([40]) + b"\x7f" * 20),
    ({**DECIMAL, "precision": 4}, b"\x04\x30\x39"),
    ({**DECIMAL, "precision": 38}, long_bytes(4_000_000) + b"\x7f" * 4_000_000),
]


@pytest.mark.parametrize(("kind", "data"), NO_VALUES)
def test_bytes_that_are_no_value_of_their_type_make_a_misfit(kind: Any, data: bytes) -> None:
    """Also where the reader's version doesn't have the field, and for the audit's own reader."""
    for body, writer in (
        (data + b"\x02", fields_of(a=kind, b="int")),
        (b"\x02" + data, fields_of(b="int", a=kind)),
    ):
        definition = json.dumps(writer)
        alone = row_reader(SchemaVersion("orders", 7, Format.AVRO, definition))
        assert isinstance(as_columns(alone, body), Misfit)
        later = avro_reader(fields_of(b="int"), writer)
        assert isinstance(as_columns(later, body, "avro/binary+7"), Misfit)
        with pytest.raises((ValueError, OverflowError)):
            AvroBodies(definition, {}).read(body, "")


#: A type, bytes, and their value.
UNUSUAL: list[tuple[Any, bytes, Any]] = [
    ("long", b"\x82" + b"\x80" * 8 + b"\x00", 1),
    ("long", b"\xff" * 9 + b"\x01", -(2**63)),
    ({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00", [1, 2]),
    ({**DECIMAL, "precision": 4}, b"\x04\xd8\xf1", Decimal("-99.99")),
    ({**DECIMAL, "precision": 4}, b"\x00", Decimal(0)),
    (
        {**DECIMAL, "precision": 38},
        b"\x20" + (10**37 + 5).to_bytes(16, "big"),
        Decimal(f"1{'0' * 34}0.05"),
    ),
    ({**DECIMAL, "precision": 40}, b"\x20" + (10**37 + 5).to_bytes(16, "big"), f"1{'0' * 34}0.05"),
]


@pytest.mark.parametrize(("kind", "data", "value"), UNUSUAL)
def test_unusual_bytes_of_a_value_are_read_by_both_readers(
    kind: Any, data: bytes, value: Any
) -> None:
    definition = json.dumps(fields_of(a=kind))
    own = row_reader(SchemaVersion("orders", 7, Format.AVRO, definition))
    assert as_columns(own, data) == {"a": value}
    assert AvroBodies(definition, {}).read(data, "") == {"a": value}


# Protobuf.


def with_any() -> RowReader:
    """A message `p.M` with a field `a` of any type."""
    files = descriptor_pb2.FileDescriptorSet()
    any_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="m.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/any.proto")
    kind = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    file.message_type.add(name="M").field.add(
        name="a", number=1, type=kind, type_name=".google.protobuf.Any", label=1
    )
    definition = b64encode(files.SerializeToString()).decode()
    return row_reader(SchemaVersion("orders", 1, Format.PROTOBUF, definition, message="p.M"))


def test_what_an_any_has_in_it_may_be_no_message_or_too_deep() -> None:
    def wrapped(value: bytes) -> bytes:
        return any_pb2.Any(type_url="t/google.protobuf.Any", value=value).SerializeToString()

    reader, body = with_any(), b""
    for _ in range(3_000):
        body = wrapped(body)
    for one in (wrapped(b"\xff\xff"), body):
        whole = b"\x0a" + varint(len(one)) + one
        assert isinstance(as_columns(reader, whole), Misfit)
