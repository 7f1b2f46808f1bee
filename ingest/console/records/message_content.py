"""A message in words: its headers, properties and body, decoded as far as they are shown.

Whatever the bytes are, something is shown: a message that can't be decoded is bytes with an error.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias
from uuid import UUID

from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.pipeline.codec.amqp_types import (
    Decimal,
    DecodeError,
    Described,
    Map,
    Symbol,
    Timestamp,
    Value,
)
from distributary.pipeline.codec.rendering import identifier
from distributary.pipeline.codec.sections import Message, decode

#: Bytes in a line of hexadecimal.
HEX_LINE: Final = 16
#: Levels of a value that are shown; deeper values are counted.
DEPTH_MAX: Final = 32
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that has no parts, as text; `kind` is its type."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A list or a map: its values by name, and how much `more` isn't shown."""

    kind: str
    items: "tuple[tuple[str, Node], ...]"
    more: int = 0


#: A value to be shown, folded or not.
Node: TypeAlias = Leaf | Branch


class BodyKind(StrEnum):
    """How a body is shown."""

    NONE = "none"
    TEXT = "text"
    TREE = "tree"  #: JSON, or a value of AMQP with parts
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Body:
    """`says` is what it is in the words of AMQP; `size` its bytes, all of them, also where `text`
    (or lines of hexadecimal) show fewer: then it is `cut`."""

    kind: BodyKind
    says: str
    size: int
    text: str = ""
    tree: Node | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """All sections, in the order of AMQP; each a list of names and values, empty if it has none.
    `error` says why the message can't be decoded: then the body is all of its bytes."""

    header: tuple[tuple[str, Node], ...]
    annotations: tuple[tuple[str, Node], ...]
    properties: tuple[tuple[str, Node], ...]
    application: tuple[tuple[str, Node], ...]
    footer: tuple[tuple[str, Node], ...]
    body: Body
    error: str = ""

    def said(self, name: str) -> str:
        """A standard property as text; empty if the message has none."""
        found = (node for key, node in self.properties if key == name)
        node = next(found, None)
        return node.text if isinstance(node, Leaf) else ""


@dataclass(slots=True)
class _Room:
    """How many values may still be shown."""

    left: int


def content_of(data: bytes, limits: RecordLimits) -> Content:
    """The content of a message's bytes."""
    try:
        message = decode(data)
    except DecodeError as error:
        return Content((), (), (), (), (), _bytes(data, "undecoded", limits), str(error))
    room = _Room(limits.body_nodes_max)
    header = message.header
    said: list[tuple[str, Value]] = [("durable", header.durable), ("priority", header.priority)]
    said += [("ttl", header.ttl), ("first-acquirer", header.first_acquirer or None)]
    said += [("delivery-count", header.delivery_count or None)]
    properties = message.properties
    names = properties.__slots__
    application = [(name, one) for name, one in message.application_properties.items()]
    return Content(
        tuple((name, _node(value, room)) for name, value in said if value is not None),
        _pairs(message.message_annotations, room),
        tuple(
            (name.replace("_", "-"), _property(name, getattr(properties, name), room))
            for name in names
            if getattr(properties, name) is not None
        ),
        tuple((name, _typed(one.type, _node(one.value, room))) for name, one in application),
        _pairs(message.footer, room),
        _body(message, room, limits),
    )


def _property(name: str, value: Value, room: _Room) -> Node:
    if name in ("message_id", "correlation_id") and isinstance(value, str | int | UUID | bytes):
        return Leaf("id", identifier(value) or "")
    if name == "user_id" and isinstance(value, bytes):
        return Leaf("user", value.decode(errors="replace"))
    return _node(value, room)


def _pairs(of: Map, room: _Room) -> tuple[tuple[str, Node], ...]:
    return tuple((_name(key), _node(value, room)) for key, value in of.pairs)


def _typed(kind: str, node: Node) -> Node:
    return Leaf(kind, node.text) if isinstance(node, Leaf) else node


def body_of(
    value: "str | bytes | None", says: str, content_type: str, limits: RecordLimits
) -> Body:
    """A body of which the text or the bytes alone are known."""
    room = _Room(limits.body_nodes_max)
    if value is None:
        return Body(BodyKind.NONE, "no body", 0)
    if isinstance(value, str):
        return _text(value, len(value.encode()), says, content_type, room, limits)
    return _data(value, content_type, says, room, limits)


def _body(message: Message, room: _Room, limits: RecordLimits) -> Body:
    kind, value = message.body.kind, message.body.value
    content_type = str(message.properties.content_type or "")
    match value:
        case _ if kind == "none":
            return Body(BodyKind.NONE, "no body", 0)
        case bytes():
            says = "data" if kind == "data" else "binary value"
            return _data(value, content_type, says, room, limits)
        case str():
            return _text(value, len(value.encode()), "text value", content_type, room, limits)
        case list() | Map():
            says = "sequence" if kind == "sequence" else f"{_word(value)} value"
            return Body(BodyKind.TREE, says, 0, tree=_node(value, room), cut=room.left < 0)
        case _:
            node = _node(value, room)
            text = node.text if isinstance(node, Leaf) else ""
            return Body(BodyKind.TEXT, f"{_word(value)} value", len(text), text)


def _data(value: bytes, content_type: str, says: str, room: _Room, limits: RecordLimits) -> Body:
    """Bytes are text where they are UTF-8 without control characters."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _bytes(value, says, limits)
    if any(ord(one) < 32 and one not in "\t\n\r" for one in text[: limits.body_bytes_max]):
        return _bytes(value, says, limits)
    return _text(text, len(value), says, content_type, room, limits)


def _text(
    text: str, size: int, says: str, content_type: str, room: _Room, limits: RecordLimits
) -> Body:
    """JSON becomes a tree, also without a content type that says so, if all of it may be shown."""
    cut = len(text) > limits.body_bytes_max
    looks = text.lstrip()[:1] in ("{", "[") or "json" in content_type
    if looks and not cut:
        try:
            tree = _json(json.loads(text), room, 0)
        except (ValueError, RecursionError):
            pass
        else:
            return Body(BodyKind.TREE, f"{says}, JSON", size, text, tree, cut=room.left < 0)
    return Body(BodyKind.TEXT, says, size, text[: limits.body_bytes_max], cut=cut)


def _bytes(value: bytes, says: str, limits: RecordLimits) -> Body:
    """A quarter of the bytes that may be shown as text: a byte takes four characters."""
    shown = value[: limits.body_bytes_max // 4]
    lines = (hex_line(at, shown[at : at + HEX_LINE]) for at in range(0, len(shown), HEX_LINE))
    cut = len(shown) < len(value)
    return Body(BodyKind.BYTES, says, len(value), "\n".join(lines), cut=cut)


def hex_line(at: int, some: bytes) -> str:
    """One line: its offset, up to HEX_LINE bytes, and those of them that are letters."""
    letters = "".join(chr(one) if 32 <= one < 127 else "." for one in some)
    return f"{at:06x}  {some.hex(' '):<{3 * HEX_LINE - 1}}  {letters}"


def _json(value: object, room: _Room, depth: int) -> Node:
    match value:
        case dict():
            return _branch("map", [(str(key), one) for key, one in value.items()], room, depth)
        case list():
            return _branch("list", [(str(n), one) for n, one in enumerate(value)], room, depth)
        case str():
            room.left -= 1
            return Leaf("string", value)
        case bool() | None:
            room.left -= 1
            return Leaf("null" if value is None else "boolean", json.dumps(value))
        case _:
            room.left -= 1
            return Leaf("number", json.dumps(value))


def _branch(kind: str, pairs: Iterable[tuple[str, object]], room: _Room, depth: int) -> Branch:
    room.left -= 1
    items, more = list[tuple[str, Node]](), 0
    for name, one in pairs:
        if room.left <= 0 or depth >= DEPTH_MAX:
            more += 1
            room.left = min(room.left, -1)
        else:
            items.append((name, _json(one, room, depth + 1)))
    return Branch(kind, tuple(items), more)


def _node(value: Value, room: _Room, depth: int = 0) -> Node:
    """A value of AMQP."""
    match value:
        case Map():
            named = [(_name(key), one) for key, one in value.pairs]
        case list():
            named = [(str(nth), one) for nth, one in enumerate(value)]
        case Described():
            return _node(value.value, room, depth)
        case _:
            room.left -= 1
            return Leaf(_word(value), _plain(value))
    room.left -= 1
    items, more = list[tuple[str, Node]](), 0
    for name, one in named:
        if room.left <= 0 or depth >= DEPTH_MAX:
            more += 1
            room.left = min(room.left, -1)
        else:
            items.append((name, _node(one, room, depth + 1)))
    return Branch(_word(value), tuple(items), more)


def _name(key: Value) -> str:
    return str(key) if isinstance(key, str | int) else _plain(key)


def _plain(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Timestamp():
            return _time(int(value))
        case bytes():
            return value.hex(" ")
        case Decimal():
            return value.raw.hex(" ")
        case _:
            return str(value)


def _time(milliseconds: int) -> str:
    try:
        at = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


#: The words of types; the first that fits counts.
_WORDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (Timestamp, "timestamp"),
    (int, "integer"),
    (float, "float"),
    (Symbol, "symbol"),
    (str, "string"),
    (bytes, "binary"),
    (UUID, "uuid"),
    (Decimal, "decimal"),
    (Map, "map"),
    (list, "list"),
)


def _word(value: Value) -> str:
    """The type of a value in a word."""
    return next((word for kind, word in _WORDS if isinstance(value, kind)), "null")
