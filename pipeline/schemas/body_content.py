"""The parts of a message that a schema reads: its body, its envelope and its framing.

Rule 1: an AMQP string is the text of a body, a binary (data or value) its bytes. Maps, lists and
        other values, such as JMS' map and stream messages, are read as JSON values.
Rule 2: CloudEvents come by the AMQP binding (1.0.2): in binary mode attributes are application
        properties that begin with `cloudEvents:` or `cloudEvents_`; in structured mode the content
        type is `application/cloudevents+json`, and attributes and data are in the body.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from distributary.pipeline.codec.amqp_types import DECODE_LIMITS, DecodeError, DecodeLimits, Value
from distributary.pipeline.codec.sections import Body, Typed, decode
from distributary.pipeline.schemas.amqp_instance import amqp_instance
from distributary.pipeline.schemas.json_values import Instance, json_instance
from distributary.pipeline.schemas.schema_version import Format, Framing
from distributary.pipeline.schemas.typed_row import NotFitting

#: Prefixes of CloudEvents' attributes among the application properties.
CLOUD_EVENTS: Final = ("cloudEvents:", "cloudEvents_")
STRUCTURED: Final = "application/cloudevents+json"
#: Azure's Schema Registry: the id of the writer's schema is in the content type.
AZURE: Final = "avro/binary+"

_MAGIC, _FRAME_BYTES = 0, 5
_VARINT_BYTES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A body already parsed as JSON, with decimals: the data of a structured CloudEvent."""

    instance: Instance


@dataclass(frozen=True, slots=True)
class BodyContent:
    """The content of a message. `attributes` are those of a CloudEvent, by their names without the
    prefix."""

    body: Body | JsonBody
    content_type: str
    content_encoding: str
    attributes: Mapping[str, Value]


def content_of(message: bytes, limits: DecodeLimits = DECODE_LIMITS) -> BodyContent:
    """Decode the content of a whole AMQP message. Raises NotFitting for bytes that are none."""
    try:
        found = decode(message, limits)
    except DecodeError as error:
        raise NotFitting(f"the message can't be decoded: {error}") from None
    return BodyContent(
        body=found.body,
        content_type=found.properties.content_type or "",
        content_encoding=found.properties.content_encoding or "",
        attributes=_attributes(found.application_properties),
    )


def _attributes(properties: Mapping[str, Typed]) -> dict[str, Value]:
    return {
        name[len(prefix) :]: typed.value
        for name, typed in properties.items()
        for prefix in CLOUD_EVENTS
        if name.startswith(prefix)
    }


def body_bytes(content: BodyContent) -> bytes:
    """Return the bytes of a body in a binary format. Raises NotFitting if it has no bytes."""
    if content.content_encoding:
        raise NotFitting(f"a body in content-encoding {content.content_encoding} isn't read")
    match content.body:
        case JsonBody():
            raise NotFitting("the data of the event is JSON, not bytes")
        case Body("none"):
            raise NotFitting("the message has no body")
        case Body(kind, value):
            if isinstance(value, bytes):
                return value
            raise NotFitting(f"the body is AMQP's {kind}, not bytes")


def json_body(content: BodyContent, framing: Framing, *, exact: bool) -> Instance:
    """Return a body of any kind as JSON; `exact`: numbers with a point are decimals. Raises
    NotFitting."""
    if content.content_encoding:
        raise NotFitting(f"a body in content-encoding {content.content_encoding} isn't read")
    match content.body:
        case JsonBody(instance):
            return instance
        case Body("none"):
            raise NotFitting("the message has no body")
        case Body(_, bytes() as data):
            return json_instance(unframed(data, framing, Format.JSON).data, exact=exact)
        case Body(_, str() as text):
            return json_instance(text, exact=exact)
        case Body(_, value):
            return amqp_instance(value)


@dataclass(frozen=True, slots=True)
class Framed:
    """A body without its frame, and the id of the writer's schema; empty if the frame has none."""

    data: bytes
    registry_id: str = ""


def unframed(
    data: bytes,
    framing: Framing,
    of: Format,
    content_type: str = "",
) -> Framed:
    """Remove the frame of a body. Raises NotFitting for an incomplete frame."""
    if framing is Framing.PLAIN:
        azure = content_type.startswith(AZURE)
        return Framed(data, content_type.removeprefix(AZURE) if azure else "")
    if len(data) < _FRAME_BYTES or data[0] != _MAGIC:
        raise NotFitting("the body doesn't begin with Confluent's frame (a zero byte, 4 of an id)")
    registry_id = str(int.from_bytes(data[1:_FRAME_BYTES], "big"))
    start = _after_indexes(data) if of is Format.PROTOBUF else _FRAME_BYTES
    return Framed(data[start:], registry_id)


def _after_indexes(data: bytes) -> int:
    """Return the start of a Protobuf message: behind a count, and as many indexes, as zigzag
    varints."""
    count, at = _varint(data, _FRAME_BYTES)
    for _ in range(count >> 1):
        _, at = _varint(data, at)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for nth in range(_VARINT_BYTES_MAX):
        if at + nth >= len(data):
            break
        value |= (data[at + nth] & 127) << 7 * nth
        if data[at + nth] < 128:
            return value, at + nth + 1
    raise NotFitting("the body's frame isn't whole: the indexes of its message are cut off")
