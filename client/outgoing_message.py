"""Messages that an application makes, and their bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, cast
from uuid import UUID

from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_codes import Kind, descriptor
from distributary.pipeline.codec.amqp_types import Map, Symbol, Timestamp, Value
from distributary.pipeline.codec.amqp_writer import compound, write
from distributary.pipeline.codec.raw_values import NULL, TRUE, list_of
from distributary.pipeline.codec.sections import Typed
from distributary.pipeline.errors import InvalidRequest

#: Types of a property or a body. Bytes are a data section; everything else is an AMQP value.
Plain: TypeAlias = (
    "str | bytes | bool | int | float | datetime | UUID | Typed | Sequence[Plain] "
    "| Mapping[str, Plain] | None"
)

_PRIORITY = 4
_TTL_MS_MAX = 2**32 - 1
_PROPERTIES, _DATA = descriptor(Kind.PROPERTIES), descriptor(Kind.DATA)
_VALUE, _HEADER = descriptor(Kind.VALUE), descriptor(Kind.HEADER)
_APPLICATION_PROPERTIES = descriptor(Kind.APPLICATION_PROPERTIES)
_ANNOTATIONS = descriptor(Kind.MESSAGE_ANNOTATIONS)
_DURABLE = _HEADER + list_of([TRUE])
_LIST8, _STR8 = codes.LISTS[0].to_bytes(), codes.STR8.to_bytes()
_PLAIN_HEADERS = {True: _DURABLE, False: b""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to publish; only a body is needed.

    `durable`: the message outlasts the broker's process. `ttl` and `delay` are seconds; no consumer
    gets the message before `delay` is over. `id` is made where none is given, so that a broker that
    looks for duplicates recognizes a message that is sent again. `group`: messages of one group go
    to one consumer at a time. Numbers in properties are longs and doubles, unless `Typed`.
    """

    body: Plain = None
    properties: Mapping[str, Plain] = field(default_factory=dict)
    id: str | None = None
    subject: str | None = None
    correlation_id: str | UUID | int | bytes | None = None
    reply_to: str | None = None
    to: str | None = None
    content_type: str | None = None
    group: str | None = None
    priority: int = _PRIORITY
    ttl: float | None = None
    delay: float | None = None
    durable: bool = True
    annotations: Mapping[str, Plain] = field(default_factory=dict)

    def answering(
        self, made_id: str, reply_to: str | None, correlation_id: str | UUID | int | bytes | None
    ) -> "Message":
        """Return this message as a request with this id (`reply_to` is given), or as an answer."""
        if reply_to is not None:
            return replace(self, id=made_id, reply_to=reply_to)
        return replace(self, correlation_id=correlation_id)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A whole message as AMQP's sections, for example `ReceivedMessage.data`. It is sent unchanged,
    and gets no id."""

    data: bytes


#: Content of a publish: a body alone, a message, or its bytes.
Content: TypeAlias = "Plain | Message | Encoded"


def encoded_body(body: Plain, made_id: str) -> bytes:
    """Return the bytes of a message that has only a body and an id. Raises InvalidRequest."""
    if not isinstance(body, bytes | str):
        return encoded(Message(body=body), made_id)
    identifier = made_id.encode()
    size = len(identifier)
    head = (_PROPERTIES, _LIST8, (size + 3).to_bytes(), b"\1", _STR8, size.to_bytes(), identifier)
    try:
        return b"".join((_DURABLE, *head, *_body(body)))
    except (ValueError, OverflowError) as error:
        raise _unwritten(error) from None


def encoded(message: Message, made_id: str) -> bytes:
    """Return the bytes of a message, with this id if it has none. Raises InvalidRequest."""
    try:
        return _encoded(message, made_id)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _unwritten(error) from None


def _unwritten(error: Exception) -> InvalidRequest:
    return InvalidRequest(f"the message can't be written: {error}")


def _encoded(message: Message, made_id: str) -> bytes:
    parts = [_header(message)]
    if message.annotations or message.delay is not None:
        parts.append(_ANNOTATIONS + _annotations(message))
    parts.append(_properties(message, made_id))
    if message.properties:
        parts.append(_APPLICATION_PROPERTIES + _application_properties(message.properties))
    return b"".join((*parts, *_body(message.body)))


def _body(body: Plain) -> tuple[bytes, ...]:
    if isinstance(body, bytes | bytearray | memoryview):
        size = len(body)
        form = codes.BINARIES[size > 0xFF].to_bytes()
        return (_DATA, form, size.to_bytes(1 if size <= 0xFF else 4, "big"), bytes(body))
    return (_VALUE, _write(body))


def _header(message: Message) -> bytes:
    if message.priority == _PRIORITY and message.ttl is None:
        return _PLAIN_HEADERS[message.durable]
    if not 0 <= message.priority <= 9:
        raise InvalidRequest(f"a priority is a number from 0 to 9, not {message.priority}")
    ttl: Typed | None = None
    if message.ttl is not None:
        ttl = Typed("uint", _milliseconds("ttl", message.ttl, _TTL_MS_MAX))
    fields = [write(message.durable), write(Typed("ubyte", message.priority)), write(ttl)]
    return _HEADER + list_of(fields)


def _milliseconds(name: str, seconds: float, most: int) -> int:
    found = round(seconds * 1_000)
    if not 1 <= found <= most:
        raise InvalidRequest(f"{name} is {most / 1_000:g} s at most and at least 1 ms, not "
                             f"{seconds} s")  # fmt: skip
    return found


def _annotations(message: Message) -> bytes:
    said = dict(message.annotations)
    if message.delay is not None:
        delay = _milliseconds("delay", message.delay, 2**53)
        said["x-opt-delivery-delay"] = Typed("long", delay)
    pairs = [part for key, one in said.items() for part in (write(Symbol(key)), _write(one))]
    return compound(codes.MAPS, pairs)


def _properties(message: Message, made_id: str) -> bytes:
    message_id = write(message.id or made_id)
    later = (message.to, message.subject, message.reply_to, message.correlation_id)
    kind, group = message.content_type, message.group
    if later == (None, None, None, None) and kind is None and group is None:
        return _PROPERTIES + compound(codes.LISTS, (message_id,))
    correlation = message.correlation_id
    if isinstance(correlation, int):
        correlation = Typed("ulong", correlation)  # type: ignore[assignment]
    fields = [message_id, NULL, *(write(one) for one in later[:3]), write(correlation)]
    fields.append(write(None if kind is None else Symbol(kind)))
    return _PROPERTIES + list_of([*fields, NULL, NULL, NULL, write(group)])


def _application_properties(properties: Mapping[str, Plain]) -> bytes:
    """Values are simple ones: AMQP 1.0, 3.2.5 excludes lists, maps and arrays, and clients in other
    languages can't read them."""
    for name, value in properties.items():
        if isinstance(value, Mapping | list | tuple) and not isinstance(value, Typed):
            raise InvalidRequest(
                f"property '{name}' is a {type(value).__name__}: properties are texts, numbers, "
                "truth values, bytes, times or UUIDs; what has parts goes into the body"
            )
    return _map(properties)


def _map(pairs: Mapping[str, Plain]) -> bytes:
    return compound(
        codes.MAPS, [part for key, one in pairs.items() for part in (_key(key), _write(one))]
    )


def _key(key: object) -> bytes:
    if not isinstance(key, str):
        raise InvalidRequest(f"names in properties and maps are texts: {key!r} is none")
    return write(key)


def _write(value: Plain) -> bytes:
    match value:
        case Mapping():
            return _map(value)
        case str() | Typed():
            return write(value)
        case bytes() | bytearray() | memoryview():
            return write(bytes(value))
        case datetime():
            return write(Timestamp(round(value.timestamp() * 1_000)))
        case Sequence():
            elements = cast("Sequence[Plain]", value)  # a Typed was above
            return compound(codes.LISTS, [_write(one) for one in elements])
        case _:
            return write(value)  # ValueError where it can't be written


def plain(value: Value) -> object:
    """Return a value with maps as dicts, everything else as it was read."""
    if isinstance(value, Map):
        return {_hashable(key): plain(one) for key, one in value.pairs}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def _hashable(key: Value) -> object:
    return key if isinstance(key, str | int | float | bytes | UUID | None) else repr(key)
