"""Topics and their schemas as one AsyncAPI document (AsyncAPI 3.0.0).

Rule 1: a schema is a message, named by its topic or pattern; a topic is a channel, which has the
        message of the schema that counts for it (`schema_choice.chosen`).
Rule 2: a payload is the definition as it was set. Only references within a JSON Schema are written
        anew: there they begin at the document's root.
Rule 3: the same topics and schemas make the same document.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast
from urllib.parse import urlsplit

from distributary.pipeline.distinct_names import distinct
from distributary.pipeline.model.address import Kind, kind_of_topic
from distributary.pipeline.schemas.cloud_events import OPTIONAL, REQUIRED
from distributary.pipeline.schemas.schema_choice import chosen
from distributary.pipeline.schemas.schema_version import Format, Framing, SchemaVersion

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
Object: TypeAlias = dict[str, Json]

ASYNC_API: Final = "3.0.0"
#: AMQP's own version, beside `protocol`: without it the word means AMQP 0-9-1.
PROTOCOL_VERSION: Final = "1.0"
#: AsyncAPI 3.0.0, section "Multi Format Schema Object". What it has no word for keeps its own.
AVRO: Final = "application/vnd.apache.avro+json;version=1.9.0"
PROTOBUF: Final = "application/vnd.google.protobuf;version={}"
DESCRIPTOR_SET: Final = "application/vnd.google.protobuf.descriptor-set;encoding=base64"
JSON_SCHEMA: Final = "application/schema+json;version={}"
#: Content types of bodies.
CONTENT_TYPES: Final = {
    Format.JSON: "application/json",
    Format.AVRO: "avro/binary",
    Format.PROTOBUF: "application/x-protobuf",
}
#: Keywords of JSON Schema newer than draft 7, which is AsyncAPI's own.
_LATER_WORDS: Final = re.compile(
    r'"(\$defs|\$anchor|\$dynamic\w+|\$recursive\w+|\$vocabulary|prefixItems|dependentSchemas'
    r'|dependentRequired|unevaluated\w+|minContains|maxContains)":'
)
_DRAFT: Final = re.compile(r"json-schema\.org/draft[-/]([\w-]+)/schema")
#: Characters that no key of a component may have (AsyncAPI 3.0.0, "Components Object").
_NOT_IN_KEYS: Final = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class About:
    """General data of the document. `server` is a gateway's URL, such as
    `amqps://broker.example:5671`."""

    server: str
    title: str
    version: str


@dataclass(frozen=True, slots=True)
class ProtoSource:
    """The `.proto` file of a Protobuf schema, and its syntax."""

    syntax: int
    text: str


def document(
    about: About,
    topics: Iterable[str],
    schemas: Sequence[SchemaVersion],
    sources: Mapping[str, ProtoSource],
) -> Object:
    """Return the document. `topics` are given as the log names them; a topic without a schema is a
    channel without messages. `sources` are those of Protobuf schemas, by topic; a schema without
    a source has its descriptor set as payload."""
    patterns = {one.topic: one for one in schemas}
    names = sorted({*topics, *patterns})
    keys = _keys(names)
    channels: Object = {}
    for name in names:
        of = name if name in patterns else chosen(patterns, name)
        channels[keys[name]] = _channel(name, None if of is None else keys[of])
    messages: Object = {
        keys[one.topic]: _message(one, keys[one.topic], sources.get(one.topic))
        for one in sorted(schemas, key=lambda one: one.topic)
    }
    return {
        "asyncapi": ASYNC_API,
        "info": {"title": about.title, "version": about.version},
        "servers": {"gateway": _server(about.server)},
        "channels": channels,
        "components": {"messages": messages},
    }


def _server(url: str) -> Object:
    parts = urlsplit(url)
    return {
        "host": parts.netloc.rpartition("@")[2],
        "protocol": parts.scheme,
        "protocolVersion": PROTOCOL_VERSION,
    }


def _keys(names: Sequence[str]) -> dict[str, str]:
    """Return a key for each name, of the characters that a key may have."""
    return distinct((name, _NOT_IN_KEYS.sub("_", name).strip("_") or "topic") for name in names)


def _channel(name: str, message: str | None) -> Object:
    """Return the channel of a topic, queue or pattern; each wildcard is a parameter of the
    address."""
    parts = re.split(r"([*?])", name)
    parameters: Object = {}
    address = "topic://" if kind_of_topic(name) is Kind.TOPIC else ""
    for part in parts:
        if part in ("*", "?"):
            parameter = f"part{len(parameters) + 1}"
            says = "any characters" if part == "*" else "one character"
            parameters[parameter] = {"description": says}
            address += f"{{{parameter}}}"
        else:
            address += part
    channel: Object = {"address": address}
    if parameters:
        channel |= {"parameters": parameters}
    if message is not None:
        channel |= {"messages": {message: {"$ref": f"#/components/messages/{message}"}}}
    return channel


def _message(schema: SchemaVersion, key: str, source: ProtoSource | None) -> Object:
    message: Object = {
        "name": schema.message or schema.topic,
        "contentType": CONTENT_TYPES[schema.format],
        "payload": _payload(schema, key, source),
        "x-distributary": {
            "topic": schema.topic,
            "version": schema.version,
            "compatibility": schema.compatibility.value,
            "validate": schema.validation.value,
            "framing": schema.framing.value,
            "registryId": schema.registry_id,
            "cloudEvents": schema.cloud_events,
        },
    }
    if schema.framing is Framing.CONFLUENT:
        message["description"] = "Bodies begin with Confluent's frame: a zero and an id."
    if schema.cloud_events:
        # CloudEvents' AMQP binding 1.0.2, section 3.1.3.1: application properties.
        message["headers"] = {
            "type": "object",
            "required": [f"cloudEvents:{name}" for name in REQUIRED],
            "properties": {
                f"cloudEvents:{name}": {"type": "string"}
                for name in (*REQUIRED, *OPTIONAL)
                if name != "datacontenttype"  # it is the message's content type
            },
        }
    return message


def _payload(schema: SchemaVersion, key: str, source: ProtoSource | None) -> Object:
    match schema.format:
        case Format.JSON:
            said = cast("Json", json.loads(schema.definition))
            place = f"#/components/messages/{key}/payload/schema"
            return {"schemaFormat": _json_format(said), "schema": _rooted(said, place)}
        case Format.AVRO:
            return {"schemaFormat": AVRO, "schema": cast("Json", json.loads(schema.definition))}
        case Format.PROTOBUF:
            if source is None:
                return {"schemaFormat": DESCRIPTOR_SET, "schema": schema.definition}
            return {"schemaFormat": PROTOBUF.format(source.syntax), "schema": source.text}


def _json_format(schema: Json) -> str:
    """Return the draft that the schema names; else AsyncAPI's own, unless a keyword is newer."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(named, str) and (found := _DRAFT.search(named)):
        return JSON_SCHEMA.format(f"draft-{found[1]}")
    later = _LATER_WORDS.search(json.dumps(schema))
    return JSON_SCHEMA.format("draft-2020-12" if later else "draft-07")


def _rooted(schema: Json, place: str) -> Json:
    """Return the schema with its references from the document's root. A schema with an `$id` is a
    document of its own, and isn't changed."""
    match schema:
        case {"$id": str()} | {"id": str()}:
            return schema
        case dict():
            return {
                name: f"{place}{one[1:]}"
                if name == "$ref" and isinstance(one, str) and (one == "#" or one.startswith("#/"))
                else _rooted(one, place)
                for name, one in schema.items()
            }
        case list():
            return [_rooted(one, place) for one in schema]
    return schema
