"""The literal table of changes: what a version may change in which mode, by format. The guide has
it, too."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from distributary.pipeline.schemas.formats.version_check import incompatible
from distributary.pipeline.schemas.schema_version import Compatibility, Format, SchemaVersion

_F = descriptor_pb2.FieldDescriptorProto
INT, S = {"type": "integer"}, {"type": "string"}


def thing(properties: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> str:
    said = {"type": "object", "properties": properties, "required": list(required), **more}
    return json.dumps(said)


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def message(*fields: tuple[str, int, int, int]) -> str:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto2")
    made = file.message_type.add(name="M")
    for name, number, type_, label in fields:
        made.field.add(name=name, number=number, type=type_, label=label)
    data = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return base64.b64encode(data).decode()


ID = ("id", 1, _F.TYPE_INT32, _F.LABEL_REQUIRED)
J, A, P = Format.JSON, Format.AVRO, Format.PROTOBUF
#: Format, the change, the old and the new definition, backward, forward.
TABLE: list[tuple[Format, str, str, str, bool, bool]] = [
    (J, "an optional property more", thing({"a": INT}), thing({"a": INT, "b": S}), True, True),
    (J, "a required one more", thing({"a": INT}), thing({"a": INT, "b": S}, ("b",)), False, True),
    (J, "an optional one less", thing({"a": INT, "b": S}), thing({"a": INT}), True, True),
    (J, "a required one less", thing({"a": INT, "b": S}, ("b",)), thing({"a": INT}), True, False),
    (J, "one becomes required", thing({"a": INT}), thing({"a": INT}, ("a",)), False, True),
    (J, "a wider type", thing({"a": INT}), thing({"a": {"type": "number"}}), True, False),
    (J, "null too", thing({"a": INT}), thing({"a": {"type": ["integer", "null"]}}), True, False),
    (J, "another type", thing({"a": INT}), thing({"a": S}), False, False),
    (
        *(J, "an enum with more values"),
        *(thing({"a": {"enum": ["x"]}}), thing({"a": {"enum": ["x", "y"]}}), True, False),
    ),
    (
        *(J, "a property more where the old one is closed"),
        *(thing({"a": INT}, additionalProperties=False), thing({"a": INT, "b": S}), True, False),
    ),
    (
        *(J, "a date where a text was"),
        *(thing({"a": S}), thing({"a": {"type": "string", "format": "date"}}), False, True),
    ),
    (
        *(J, "base64 where a text was"),
        *(thing({"a": S}), thing({"a": {**S, "contentEncoding": "base64"}}), False, True),
    ),
    (
        *(A, "a field with a default more"),
        *(record(field("a", "int")), record(field("a", "int"), field("b", "int", default=0))),
        *(True, True),
    ),
    (
        *(A, "a field without a default more"),
        *(record(field("a", "int")), record(field("a", "int"), field("b", "int")), False, True),
    ),
    (
        *(A, "a field without a default less"),
        *(record(field("a", "int"), field("b", "int")), record(field("a", "int")), True, False),
    ),
    (A, "a promotion", record(field("a", "int")), record(field("a", "long")), True, False),
    (A, "null too", record(field("a", "int")), record(field("a", ["null", "int"])), True, False),
    (A, "another type", record(field("a", "int")), record(field("a", "string")), False, False),
    (
        *(A, "an enum with more symbols"),
        *(record(field("a", enum("X"))), record(field("a", enum("X", "Y"))), True, False),
    ),
    (
        *(A, "the same, and the old one has a default"),
        record(field("a", enum("X", default="X"))),
        record(field("a", enum("X", "Y", default="X"))),
        *(True, True),
    ),
    (
        *(A, "a field under an alias"),
        *(record(field("a", "int")), record(field("b", "int", aliases=["a"])), True, False),
    ),
    (
        *(P, "an optional field more"),
        *(message(ID), message(ID, ("b", 2, _F.TYPE_STRING, _F.LABEL_OPTIONAL)), True, True),
    ),
    (
        *(P, "a required field more"),
        *(message(ID), message(ID, ("b", 2, _F.TYPE_STRING, _F.LABEL_REQUIRED)), False, True),
    ),
    (
        *(P, "another name"),
        *(message(ID), message(("key", 1, _F.TYPE_INT32, _F.LABEL_REQUIRED)), True, True),
    ),
    (
        *(P, "a wider type"),
        *(message(ID), message(("id", 1, _F.TYPE_INT64, _F.LABEL_REQUIRED)), True, False),
    ),
    (
        *(P, "another wire form"),
        *(message(ID), message(("id", 1, _F.TYPE_STRING, _F.LABEL_REQUIRED)), False, False),
    ),
    (
        *(P, "repeated"),
        message(("a", 1, _F.TYPE_INT32, _F.LABEL_OPTIONAL)),
        message(("a", 1, _F.TYPE_INT32, _F.LABEL_REPEATED)),
        *(False, False),
    ),
]


@pytest.mark.parametrize("row", TABLE, ids=[f"{row[0]} {row[1]}" for row in TABLE])
def test_each_change_in_each_mode(row: tuple[Format, str, str, str, bool, bool]) -> None:
    of, _, old, new, backward, forward = row
    name = "p.M" if of is P else ""
    allowed = {
        Compatibility.NONE: True,
        Compatibility.BACKWARD: backward,
        Compatibility.FORWARD: forward,
        Compatibility.FULL: backward and forward,
    }
    for mode, may in allowed.items():
        before = SchemaVersion("orders", 1, of, old, name)
        after = SchemaVersion("orders", 2, of, new, name, mode)
        assert (not incompatible(before, after)) == may, (mode, incompatible(before, after))
