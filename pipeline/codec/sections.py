"""The sections of a whole AMQP 1.0 message (part 3, section 2): found, and decoded.

Rule 1: a message is a series of sections in the specification's order; `walk` finds them without
        decoding any.
Rule 2: bytes that aren't a message raise DecodeError, and nothing else.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from distributary.pipeline.codec.amqp_codes import (
    DESCRIBED,
    LIST0,
    LIST32,
    LISTS,
    MAP32,
    MAPS,
    NULL,
    SECTION_SYMBOLS,
    SMALLULONG,
    STR8,
    TYPE_NAMES,
    Kind,
)
from distributary.pipeline.codec.amqp_types import (
    DECODE_LIMITS,
    READERS,
    DecodeBudget,
    DecodeError,
    DecodeLimits,
    Map,
    Symbol,
    Timestamp,
    Value,
    closed,
    compound,
    read,
    skip,
)
from distributary.pipeline.codec.buffers import Bytes

__all__ = [
    "Body",
    "DecodeError",
    "Header",
    "Identifier",
    "Kind",
    "Message",
    "Properties",
    "Section",
    "Typed",
    "application_properties",
    "decode",
    "header",
    "typed_map",
    "walk",
]


KINDS: dict[int, Kind] = {int(kind): kind for kind in Kind}
BODY = frozenset({Kind.DATA, Kind.SEQUENCE, Kind.VALUE})
REPEATABLE = frozenset({Kind.DATA, Kind.SEQUENCE})

Identifier: TypeAlias = str | int | UUID | bytes
#: Reads the key at a place of a map: its name, and where it ends.
ReadName: TypeAlias = Callable[[bytes, int, DecodeBudget], tuple[str | None, int]]


class Section(NamedTuple):
    """The place of a section: its value's constructor is at `start`, the next section at `stop`."""

    kind: Kind
    start: int
    stop: int


class Typed(NamedTuple):
    """A value with the name of its AMQP type, which JMS and selectors need."""

    type: str
    value: Value


@dataclass(frozen=True, slots=True)
class Header:
    """The header section, with the specification's defaults."""

    durable: bool = False
    priority: int = 4
    ttl: int | None = None  #: milliseconds
    first_acquirer: bool = False
    delivery_count: int = 0


@dataclass(frozen=True, slots=True)
class Properties:
    """The standard properties; None where absent."""

    message_id: Identifier | None = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: Identifier | None = None
    content_type: Symbol | None = None
    content_encoding: Symbol | None = None
    absolute_expiry_time: Timestamp | None = None
    creation_time: Timestamp | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """The body. `value` is the joined bytes of all data sections, the joined elements of all
    sequence sections, or the one value."""

    kind: Literal["data", "sequence", "value", "none"]
    value: Value


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message, decoded."""

    header: Header
    delivery_annotations: Map
    message_annotations: Map
    properties: Properties
    application_properties: dict[str, Typed]
    body: Body
    footer: Map


_IDENTIFIER = frozenset({"ulong", "uuid", "binary", "string", "null"})
_STRING = frozenset({"string", "null"})
_SYMBOL = frozenset({"symbol", "null"})
_BINARY = frozenset({"binary", "null"})
_TIMESTAMP = frozenset({"timestamp", "null"})
_UINT = frozenset({"uint", "null"})
_BOOLEAN = frozenset({"boolean", "null"})
_UBYTE = frozenset({"ubyte", "null"})

#: Field -> the types that it may have, in the fields' order on the wire.
HEADER_FIELDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("durable", _BOOLEAN),
    ("priority", _UBYTE),
    ("ttl", _UINT),
    ("first_acquirer", _BOOLEAN),
    ("delivery_count", _UINT),
)
PROPERTIES_FIELDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("message_id", _IDENTIFIER),
    ("user_id", _BINARY),
    ("to", _STRING),
    ("subject", _STRING),
    ("reply_to", _STRING),
    ("correlation_id", _IDENTIFIER),
    ("content_type", _SYMBOL),
    ("content_encoding", _SYMBOL),
    ("absolute_expiry_time", _TIMESTAMP),
    ("creation_time", _TIMESTAMP),
    ("group_id", _STRING),
    ("group_sequence", _UINT),
    ("reply_to_group_id", _STRING),
)


def walk(data: bytes) -> Iterator[Section]:
    """Yield the sections of a message, none decoded. A message of 16 MiB may have three million of
    them: callers take only those that they need. Raises DecodeError."""
    try:
        yield from _walk(data)
    except _NOT_AMQP as error:
        raise _told(error, data) from error


def application_properties(data: Bytes) -> dict[str, Typed]:
    """Return the application properties; other sections aren't decoded. Raises DecodeError."""
    data = bytes(data)
    try:
        for section in _walk(data):
            if section.kind is Kind.APPLICATION_PROPERTIES:
                return typed_map(data, section, DecodeBudget(len(data)), _name)
            if section.kind > Kind.APPLICATION_PROPERTIES:
                break
    except _NOT_AMQP as error:
        raise _told(error, data) from error
    return {}


def header(data: bytes, section: Section) -> Header:
    """Decode a header section. Raises DecodeError."""
    try:
        said = _fields(data, section, HEADER_FIELDS, DecodeBudget(section.stop - section.start))
        return Header(**said)  # type: ignore[arg-type]
    except _NOT_AMQP as error:
        raise _told(error, data) from error


def decode(data: Bytes, limits: DecodeLimits = DECODE_LIMITS) -> Message:
    """Decode a whole message; each of its sections counts as a value. Raises DecodeError."""
    try:
        return _decode(bytes(data), DecodeBudget(len(data), limits))
    except _NOT_AMQP as error:
        raise _told(error, data) from error


#: Constructor -> the type's name and its reader: one look-up in the innermost loop.
TYPED_READERS = {code: (TYPE_NAMES[code], reader) for code, reader in READERS.items()}

#: Exceptions of reading bytes that aren't AMQP, besides DecodeError.
_NOT_AMQP = (IndexError, struct.error, UnicodeDecodeError)


def _told(error: Exception, data: Bytes) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"text that isn't {error.encoding}: {error.reason}")
    return DecodeError(f"the message ends within a value, after {len(data)} bytes")


def _walk(data: bytes) -> Iterator[Section]:
    at, size, last, body = 0, len(data), None, None
    while at < size:
        kind, start = _descriptor(data, at)
        if last is not None and (kind < last or (kind == last and kind not in REPEATABLE)):
            raise DecodeError(f"section {kind.name} after {last.name} at byte {at}")
        if kind in BODY:
            if body not in (None, kind):
                raise DecodeError(f"section {kind.name} in a body of {last} at byte {at}")
            body = kind
        last, at = kind, skip(data, start)
        yield Section(kind, start, at)


def _descriptor(data: bytes, at: int) -> tuple[Kind, int]:
    """Return the kind of the section at `at`, and where its value starts."""
    if data[at] != DESCRIBED:
        raise DecodeError(f"no section at byte {at}, but 0x{data[at]:02x}")
    if data[at + 1] == SMALLULONG:  # the usual form
        descriptor: Value = data[at + 2]
        start = at + 3
    else:
        descriptor, start = read(data, at + 1)
    if isinstance(descriptor, Symbol):
        kind = SECTION_SYMBOLS.get(descriptor)
    else:
        kind = KINDS.get(descriptor) if isinstance(descriptor, int) else None
    if kind is None:
        shown = f"'{descriptor[:64]}'" if isinstance(descriptor, str) else "of another type"
        shown = str(descriptor) if isinstance(descriptor, int) else shown
        raise DecodeError(f"unknown section {shown} at byte {at}")
    return kind, start


def _decode(data: bytes, budget: DecodeBudget) -> Message:
    head, properties, typed = Header(), Properties(), dict[str, Typed]()
    maps: dict[Kind, Map] = {}
    parts: list[tuple[Kind, Value]] = []
    for section in _walk(data):
        budget.spend(1, section.start)
        match section.kind:
            case Kind.HEADER:
                head = header(data, section)
            case Kind.PROPERTIES:
                said = _fields(data, section, PROPERTIES_FIELDS, budget)
                properties = Properties(**said)  # type: ignore[arg-type]
            case Kind.APPLICATION_PROPERTIES:
                typed = typed_map(data, section, budget, _name)
            case Kind.DATA | Kind.SEQUENCE | Kind.VALUE:
                parts.append((section.kind, _part(data, section, budget)))
            case _:
                maps[section.kind] = _plain_map(data, section, budget)
    return Message(
        header=head,
        delivery_annotations=maps.get(Kind.DELIVERY_ANNOTATIONS, Map()),
        message_annotations=maps.get(Kind.MESSAGE_ANNOTATIONS, Map()),
        properties=properties,
        application_properties=typed,
        body=_body(parts),
        footer=maps.get(Kind.FOOTER, Map()),
    )


def _fields(
    data: bytes,
    section: Section,
    fields: tuple[tuple[str, frozenset[str]], ...],
    budget: DecodeBudget,
) -> dict[str, Value]:
    """Return the fields of a list section that aren't null. Raises DecodeError for a wrong type."""
    code, at = data[section.start], section.start + 1
    if code == LIST0:
        return {}
    if code not in LISTS:
        raise DecodeError(f"section {section.kind.name} is no list at byte {section.start}")
    at, stop, count = compound(data, at, wide=code == LIST32)
    found: dict[str, Value] = {}
    for name, types in fields[:count]:
        if data[at] == NULL:
            at += 1
            continue
        if (type_name := TYPE_NAMES.get(data[at], "unknown")) not in types:
            raise DecodeError(f"{section.kind.name}.{name} is of type {type_name} at byte {at}")
        found[name], at = read(data, at, budget)
    if count > len(fields):
        raise DecodeError(f"section {section.kind.name} has {count} fields")
    closed(at, stop)
    return found


def _map_elements(data: bytes, section: Section) -> tuple[int, int, int]:
    code = data[section.start]
    if code not in MAPS:
        raise DecodeError(f"section {section.kind.name} is no map at byte {section.start}")
    at, stop, count = compound(data, section.start + 1, wide=code == MAP32)
    if count % 2:
        raise DecodeError(f"section {section.kind.name} has a key without a value")
    return at, stop, count // 2


def typed_map(
    data: bytes, section: Section, budget: DecodeBudget, named: ReadName
) -> dict[str, Typed]:
    """Return a map section's values by name; pairs whose key `named` reads as None are left out."""
    at, stop, count = _map_elements(data, section)
    budget.spend(2 * count, at)
    found: dict[str, Typed] = {}
    for _ in range(count):
        name, at = named(data, at, budget)
        kind, reader = TYPED_READERS.get(data[at], (None, None))
        if kind is None or reader is None:
            raise DecodeError(f"unknown constructor 0x{data[at]:02x} at byte {at}")
        value, at = reader(data, at + 1, budget)
        if name is not None:
            found[name] = Typed(kind, value)
    closed(at, stop)
    return found


def _name(data: bytes, at: int, _budget: DecodeBudget) -> tuple[str | None, int]:
    """Read the key at `at` of a map whose keys are strings, nearly always short ones."""
    if data[at] == STR8 and (stop := at + 2 + data[at + 1]) <= len(data):
        return data[at + 2 : stop].decode(), stop
    if TYPE_NAMES.get(data[at]) != "string":
        raise DecodeError(f"the name of an application property is no string at byte {at}")
    name, at = read(data, at)
    return str(name), at


def _plain_map(data: bytes, section: Section, budget: DecodeBudget) -> Map:
    _map_elements(data, section)
    value, _ = read(data, section.start, budget)
    return value if isinstance(value, Map) else Map()


def _part(data: bytes, section: Section, budget: DecodeBudget) -> Value:
    value, _ = read(data, section.start, budget)
    if section.kind is Kind.DATA and not isinstance(value, bytes):
        raise DecodeError(f"a data section that isn't binary at byte {section.start}")
    if section.kind is Kind.SEQUENCE and not isinstance(value, list):
        raise DecodeError(f"a sequence section that is no list at byte {section.start}")
    return value


def _body(parts: list[tuple[Kind, Value]]) -> Body:
    if not parts:
        return Body("none", None)
    match parts[0][0]:
        case Kind.DATA:
            return Body("data", b"".join(part for _, part in parts if isinstance(part, bytes)))
        case Kind.SEQUENCE:
            lists = [part for _, part in parts if isinstance(part, list)]
            return Body("sequence", [element for part in lists for element in part])
        case _:
            return Body("value", parts[0][1])
