"""Schemas as an AsyncAPI document: it is one by AsyncAPI's own JSON Schema, and says what was
set."""

import base64
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc
from node_program import install, node_missing

from distributary.pipeline.schemas.documents.async_api import About, ProtoSource, document
from distributary.pipeline.schemas.formats.proto_source import proto_file
from distributary.pipeline.schemas.schema_version import Format, Framing, SchemaVersion

ROOT = Path(__file__).resolve().parents[3]
ABOUT = About("amqps://broker.example:5671", "Shop", "2.1.0")
ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "lines": {"type": "array", "items": {"$ref": "#"}}},
}
READING = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
#: All that the language of descriptors can say of bytes and names.
PROTO2 = r"""
syntax = "proto2";
package shop.v1;
import "google/protobuf/timestamp.proto";
enum Kind { option allow_alias = true; A = 0; B = 1; C = 1; reserved 7 to 9; reserved "D"; }
message Order {
  message Line { required int32 n = 1; optional sint64 m = 2; }
  enum State { NEW = 0; PAID = -5; }
  required string id = 1 [json_name = "orderId"];
  optional string note = 2 [default = "a \"b\" \\ \n \303\244"];
  optional bytes raw = 3 [default = "\000\377x"];
  optional double nan = 4 [default = nan];
  optional Kind kind = 5 [default = B];
  repeated uint64 many = 6 [packed = true];
  oneof way { string by = 7; Line line = 8; }
  map<string, Line> lines = 9;
  optional .google.protobuf.Timestamp at = 10;
  optional bool yes = 11 [default = true];
  reserved 20, 30 to 40;
  reserved "old", "older";
}
message Other { optional Order.State state = 1; }
"""
PROTO3 = """
syntax = "proto3";
message M {
  string plain = 1;
  optional string some_present = 2;
  repeated fixed32 numbers = 3;
  repeated int32 apart = 6 [packed = false];
  oneof either { M inner = 4; bytes other = 5; }
}
"""


def compiled(text: str, folder: Path) -> FileDescriptorSet:
    (folder / "a.proto").write_text(text)
    google = resources.files("grpc_tools") / "_proto"
    words = [f"-I{folder}", f"-I{google}", f"--descriptor_set_out={folder}/a.desc"]
    assert protoc.main(["protoc", *words, "a.proto"]) == 0, text
    return FileDescriptorSet.FromString((folder / "a.desc").read_bytes())


def encoded(files: FileDescriptorSet) -> str:
    return base64.b64encode(files.SerializeToString()).decode()


@pytest.mark.parametrize(("text", "message"), [(PROTO2, "shop.v1.Order.Line"), (PROTO3, "M")])
def test_a_descriptor_becomes_the_text_that_it_was_made_of(
    text: str, message: str, tmp_path: Path
) -> None:
    """Compiled again it is the same descriptor, byte for byte."""
    before = compiled(text, tmp_path)
    made = proto_file(encoded(before), message)
    assert made is not None
    assert compiled(made.text, tmp_path) == before
    assert made.syntax == (2 if "proto2" in text else 3)


@pytest.mark.parametrize(
    "beyond",
    [
        'syntax = "proto2"; message M { extensions 4 to 9; }',
        'syntax = "proto2"; message M { optional group G = 1 { optional int32 n = 1; } }',
        'edition = "2023"; message M { string a = 1; }',
    ],
)
def test_what_a_text_can_not_say_has_none(beyond: str, tmp_path: Path) -> None:
    definition = encoded(compiled(beyond, tmp_path))
    assert proto_file(definition, "M") is None
    schema = SchemaVersion("m", 1, Format.PROTOBUF, definition, "M")
    made: Any = document(ABOUT, [], [schema], {})
    assert made["components"]["messages"]["m"]["payload"] == {
        "schemaFormat": "application/vnd.google.protobuf.descriptor-set;encoding=base64",
        "schema": definition,
    }


def shop(folder: Path) -> Any:
    """A document with every format, a queue, patterns, and names that no key may have."""
    definition = encoded(compiled(PROTO2, folder))
    made = proto_file(definition, "shop.v1.Order")
    assert made is not None
    schemas = [
        SchemaVersion("orders", 3, Format.JSON, json.dumps(ORDER), cloud_events=True),
        SchemaVersion("sensors.*", 1, Format.AVRO, json.dumps(READING), framing=Framing.CONFLUENT),
        SchemaVersion("queue://work", 1, Format.PROTOBUF, definition, "shop.v1.Order"),
    ]
    topics = ["queue://work", "sensors.roof", "sensors.?", "müll/a", "m ll a", "plain"]
    return document(ABOUT, topics, schemas, {"queue://work": ProtoSource(*made)})


def test_the_document_is_valid_by_async_apis_own_schema(tmp_path: Path) -> None:
    if missing := node_missing():
        pytest.skip(missing)
    place = ROOT / "build" / "asyncapi"
    install(Path(__file__).parent / "asyncapi", place)
    text = (place / "node_modules/@asyncapi/specs/schemas/3.0.0.json").read_text()
    checker = jsonschema_rs.validator_for(json.loads(text))
    made = shop(tmp_path)
    assert [error.message for error in checker.iter_errors(made)] == []
    made["channels"]["orders"]["adress"] = made["channels"]["orders"].pop("address")
    assert not checker.is_valid(made)


def test_topics_are_channels_and_schemas_messages(tmp_path: Path) -> None:
    made = shop(tmp_path)
    assert made["servers"] == {
        "gateway": {"host": "broker.example:5671", "protocol": "amqps", "protocolVersion": "1.0"}
    }
    addresses = {key: one["address"] for key, one in made["channels"].items()}
    assert addresses == {
        "m_ll_a": "topic://m ll a",
        "m_ll_a_2": "topic://müll/a",
        "orders": "topic://orders",
        "plain": "topic://plain",
        "queue_work": "queue://work",
        "sensors.": "topic://sensors.{part1}",
        "sensors._2": "topic://sensors.{part1}",
        "sensors.roof": "topic://sensors.roof",
    }
    messages = {key: list(one.get("messages", {})) for key, one in made["channels"].items()}
    assert messages["sensors.roof"] == messages["sensors."] == ["sensors."]
    assert (messages["queue_work"], messages["plain"]) == (["queue_work"], [])
    payloads = {key: one["payload"] for key, one in made["components"]["messages"].items()}
    assert payloads["orders"]["schemaFormat"] == "application/schema+json;version=draft-07"
    root = "#/components/messages/orders/payload/schema"
    assert payloads["orders"]["schema"]["properties"]["lines"]["items"] == {"$ref": root}
    assert payloads["sensors."]["schema"] == READING
    assert payloads["queue_work"]["schemaFormat"].endswith("protobuf;version=2")
    headers = made["components"]["messages"]["orders"]["headers"]
    assert headers["required"][0] == "cloudEvents:id"


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "draft-04"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema"}, "draft-2019-09"),
        ({"$defs": {"a": {}}}, "draft-2020-12"),
        ({"properties": {"a": {"minContains": 2}}}, "draft-2020-12"),
        ({"definitions": {}}, "draft-07"),
        (True, "draft-07"),
    ],
)
def test_the_draft_is_the_one_that_counts(schema: object, draft: str) -> None:
    made: Any = document(ABOUT, [], [SchemaVersion("a", 1, Format.JSON, json.dumps(schema))], {})
    payload = made["components"]["messages"]["a"]["payload"]
    assert payload["schemaFormat"] == f"application/schema+json;version={draft}"
