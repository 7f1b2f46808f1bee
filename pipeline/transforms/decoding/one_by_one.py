"""Messages decoded one by one by `pipeline.codec.sections`, which knows all that AMQP allows.

This decoder defines the columns of `messages`, and decodes the messages that the walk can't.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from distributary.pipeline.codec.amqp_codes import Kind
from distributary.pipeline.codec.amqp_types import DECODE_LIMITS, Decimal, DecodeLimits, Map, Value
from distributary.pipeline.codec.annotations import annotations
from distributary.pipeline.codec.rendering import JSON_CHARS_MAX, JsonRoom, as_json, identifier
from distributary.pipeline.codec.sections import Body, DecodeError, Message, Typed, decode
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES

#: Milliseconds of the years 1 to 9999, which Spark's and Python's calendars have.
TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX = -62_135_596_800_000, 253_402_300_799_999

LONG_MAX = 2**63 - 1

TEXT_PREFIXES = ("text/", "application/json", "application/xml")

#: A column beside those of `messages`: whether the body is an AMQP string or binary that stands
#: unchanged in `body_text` or `body_bytes`, without a content-encoding.
PLAIN_BODY = "plain_body"


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Limits of a decoded message; a message beyond them gets an `error` instead."""

    decode: DecodeLimits = DECODE_LIMITS
    json_chars_max: int = JSON_CHARS_MAX


LIMITS = MessageLimits()


def decoded_one_by_one(
    messages: "pa.Array[Any]", limits: MessageLimits = LIMITS
) -> "dict[str, pa.Array[Any]]":
    """The columns of a binary array's messages by name."""
    columns = Columns()
    for data in cast("list[bytes | None]", messages.to_pylist()):
        if data is None:
            columns.add_error("the log has no bytes of this message", data)
            continue
        try:
            columns.add(
                decode(data, limits.decode),
                annotations(data, limits.decode),
                JsonRoom(limits.json_chars_max),
            )
        except DecodeError as error:
            columns.add_error(str(error), data)
    return columns.arrays()


@dataclass(slots=True)
class TypedMaps:
    """The maps of many messages, such as their application properties, column by column, in
    Arrow's layout of maps."""

    offsets: list[int | None] = field(default_factory=lambda: [0])
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    longs: list[int | None] = field(default_factory=list)
    doubles: list[float | None] = field(default_factory=list)
    booleans: list[bool | None] = field(default_factory=list)
    binaries: list[bytes | None] = field(default_factory=list)

    def add(self, found: dict[str, Typed], written: dict[str, str | None]) -> None:
        """Add a message's map; `written` are the texts of its values that `written_out` makes."""
        for name, (kind, value) in found.items():
            self.names.append(name)
            self.types.append(kind)
            self._add_value(value, written.get(name))
        self.offsets.append(len(self.names))

    def add_null(self) -> None:
        self.offsets[-1] = None  # to Arrow a map whose start is null is a null map
        self.offsets.append(len(self.names))

    def _add_value(self, value: Value, text: str | None) -> None:
        long, double, boolean, binary = None, None, None, None
        match value:
            case None:
                pass
            case bool():
                boolean = value
            case str():
                text = value
            case int() if value <= LONG_MAX:
                long = int(value)
            case float():
                double = value
            case bytes():
                binary = value
            case Decimal():
                binary = value.raw
            case _:
                pass
        self.texts.append(text)
        self.longs.append(long)
        self.doubles.append(double)
        self.booleans.append(boolean)
        self.binaries.append(binary)

    def array(self) -> "pa.Array[Any]":
        values = pa.StructArray.from_arrays(
            [
                pa.array(self.types, pa.string()),
                pa.array(self.texts, pa.string()),
                pa.array(self.longs, pa.int64()),
                pa.array(self.doubles, pa.float64()),
                pa.array(self.booleans, pa.bool_()),
                pa.array(self.binaries, pa.binary()),
            ],
            names=["type", "text", "long", "double", "boolean", "binary"],
        )
        offsets = cast("Any", pa.array(self.offsets, pa.int32()))
        names = cast("Any", pa.array(self.names, pa.string()))
        made: pa.Array[Any] = pa.MapArray.from_arrays(offsets, names, values)
        return made


@dataclass(slots=True)
class Columns:
    """The decoded columns of many messages; every list has one element per message."""

    message_id: list[str | None] = field(default_factory=list)
    correlation_id: list[str | None] = field(default_factory=list)
    subject: list[str | None] = field(default_factory=list)
    to: list[str | None] = field(default_factory=list)
    reply_to: list[str | None] = field(default_factory=list)
    content_type: list[str | None] = field(default_factory=list)
    group_id: list[str | None] = field(default_factory=list)
    creation_time: list[int | None] = field(default_factory=list)
    user_id: list[str | None] = field(default_factory=list)
    group_sequence: list[int | None] = field(default_factory=list)
    delivery_count: list[int | None] = field(default_factory=list)
    properties: TypedMaps = field(default_factory=TypedMaps)
    delivery_annotations: TypedMaps = field(default_factory=TypedMaps)
    message_annotations: TypedMaps = field(default_factory=TypedMaps)
    body_kind: list[str | None] = field(default_factory=list)
    body_text: list[str | None] = field(default_factory=list)
    body_bytes: list[bytes | None] = field(default_factory=list)
    error: list[str | None] = field(default_factory=list)
    message: list[bytes | None] = field(default_factory=list)
    plain_body: list[bool] = field(default_factory=list)

    def add(
        self, message: Message, annotated: dict[Kind, dict[str, Typed]], room: JsonRoom
    ) -> None:
        """Add a message. Raises DecodeError, and then has added nothing of it."""
        standard = message.properties
        text, binary = body_columns(message.body, standard.content_type, room)
        found = (
            message.application_properties,
            annotated[Kind.DELIVERY_ANNOTATIONS],
            annotated[Kind.MESSAGE_ANNOTATIONS],
        )
        written = [written_out(one, room) for one in found]
        for maps, one, texts in zip(self._maps().values(), found, written, strict=True):
            maps.add(one, texts)
        self.message_id.append(identifier(standard.message_id))
        self.correlation_id.append(identifier(standard.correlation_id))
        self.subject.append(standard.subject)
        self.to.append(standard.to)
        self.reply_to.append(standard.reply_to)
        self.content_type.append(standard.content_type)
        self.group_id.append(standard.group_id)
        self.creation_time.append(_microseconds(standard.creation_time))
        self.user_id.append(_user(standard.user_id))
        self.group_sequence.append(standard.group_sequence)
        self.delivery_count.append(message.header.delivery_count)
        self.body_kind.append(message.body.kind)
        self.body_text.append(text)
        self.body_bytes.append(binary)
        self.error.append(None)
        self.message.append(None)
        self.plain_body.append(
            type(message.body.value) in (bytes, str) and not standard.content_encoding
        )

    def add_error(self, error: str, data: bytes | None) -> None:
        for column in self._texts().values():
            column.append(None)
        self.creation_time.append(None)
        self.group_sequence.append(None)
        self.delivery_count.append(None)
        for maps in self._maps().values():
            maps.add_null()
        self.body_bytes.append(None)
        self.error[-1] = error
        self.message.append(data)
        self.plain_body.append(False)

    def arrays(self) -> "dict[str, pa.Array[Any]]":
        """Every column as an Arrow array, by name and in the order of MESSAGES; PLAIN_BODY last."""
        arrays: dict[str, pa.Array[Any]] = {
            name: pa.array(column, pa.string()) for name, column in self._texts().items()
        }
        arrays["creation_time"] = pa.array(self.creation_time, pa.timestamp("us", "UTC"))
        arrays["group_sequence"] = pa.array(self.group_sequence, pa.int64())
        arrays["delivery_count"] = pa.array(self.delivery_count, pa.int64())
        arrays |= {name: maps.array() for name, maps in self._maps().items()}
        arrays["body_bytes"] = pa.array(self.body_bytes, pa.binary())
        arrays["message"] = pa.array(self.message, pa.binary())
        made = {name: arrays[name] for name in MESSAGES.names if name in arrays}
        return made | {PLAIN_BODY: pa.array(self.plain_body, pa.bool_())}

    def _maps(self) -> dict[str, TypedMaps]:
        return {
            "properties": self.properties,
            "delivery_annotations": self.delivery_annotations,
            "message_annotations": self.message_annotations,
        }

    def _texts(self) -> dict[str, list[str | None]]:
        return {
            "message_id": self.message_id,
            "correlation_id": self.correlation_id,
            "subject": self.subject,
            "to": self.to,
            "reply_to": self.reply_to,
            "content_type": self.content_type,
            "group_id": self.group_id,
            "user_id": self.user_id,
            "body_kind": self.body_kind,
            "body_text": self.body_text,
            "error": self.error,
        }


def written_out(found: dict[str, Typed], room: JsonRoom) -> dict[str, str | None]:
    """The texts of a map's values that have no column of their own. Raises DecodeError."""
    return {name: as_text(value, room) for name, (_, value) in found.items() if _is_written(value)}


def _is_written(value: Value) -> bool:
    """Whether a typed value has no column of its own, and stands as text in `text`."""
    if isinstance(value, bool | str | float | bytes | Decimal | None):
        return False
    return not isinstance(value, int) or value > LONG_MAX


def body_columns(
    body: Body, content_type: str | None, room: JsonRoom
) -> tuple[str | None, bytes | None]:
    """Return the values of `body_text` and `body_bytes`. Raises DecodeError."""
    if body.kind == "none":
        return None, None
    if not isinstance(body.value, bytes):
        return as_text(body.value, room), None
    if (content_type or "").startswith(TEXT_PREFIXES):
        try:
            return body.value.decode(), body.value
        except UnicodeDecodeError:
            return None, body.value
    return None, body.value


def as_text(value: Value, room: JsonRoom) -> str | None:
    """A value of any type as a text. Raises DecodeError."""
    match value:
        case None:
            return None
        case str():
            return value
        case list() | Map():
            return as_json(value, room)
        case _:
            return as_json(value, room).strip('"')


def _user(user: bytes | None) -> str | None:
    try:
        return None if user is None else user.decode()
    except UnicodeDecodeError:
        return None


def _microseconds(milliseconds: int | None) -> int | None:
    if milliseconds is None or not TIMESTAMP_MS_MIN <= milliseconds <= TIMESTAMP_MS_MAX:
        return None
    return int(milliseconds) * 1000
