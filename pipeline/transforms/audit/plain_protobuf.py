"""Bodies of Protobuf, read by the encoding alone (protobuf.dev, "Encoding"; `descriptor.proto`),
and by none of the code that makes typed rows.

A value that its column has as JSON, a duration and a field mask are UNJUDGED; so is a map with an
entry that Google's libraries read differently, and a message of an edition, as the edition's
features decide which fields have presence.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from distributary.pipeline.transforms.audit.plain_avro import UNJUDGED

_VARINT, _EIGHT, _BYTES, _GROUP, _GROUP_END, _FOUR = range(6)
_LABEL_REPEATED, _LABEL_REQUIRED = 3, 2
_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL = range(1, 9)
_STRING, _GROUP_TYPE, _MESSAGE, _BYTES_TYPE, _UINT32, _ENUM, _SFIXED32 = range(9, 16)
_SFIXED64, _SINT32, _SINT64 = range(16, 19)
#: Types of fixed width, with their forms in `struct`.
_FIXED: Final = {
    _DOUBLE: "<d",
    _FIXED64: "<Q",
    _SFIXED64: "<q",
    _FLOAT: "<f",
    _FIXED32: "<I",
    _SFIXED32: "<i",
}
_GOOGLE: Final = ".google.protobuf."
_FREE: Final = {f"{_GOOGLE}{one}" for one in ("Struct", "Value", "ListValue", "Any", "Empty")}
_UNTOLD: Final = {f"{_GOOGLE}Duration", f"{_GOOGLE}FieldMask"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: A field as it stands in the bytes: its number, its wire type, and a number, bytes or a group.
Wire = tuple[int, int, Any]


@dataclass(slots=True)
class _Field:
    """One field of a message, by `FieldDescriptorProto`."""

    name: str
    kind: int
    type_name: str
    repeated: bool
    required: bool
    present: bool  #: an absent field differs from one with the default
    oneof: int | None


@dataclass(slots=True)
class _Message:
    """A message's fields by their numbers, in their order."""

    name: str
    fields: dict[int, _Field] = field(default_factory=dict)
    is_map: bool = False


@dataclass(slots=True)
class _Enum:
    """An enum's names by number; a closed enum has no other numbers (proto2)."""

    names: dict[int, str]
    closed: bool


class ProtobufBodies:
    """Reads bodies that are one message of a descriptor set, which is base64."""

    def __init__(self, definition: str, message: str) -> None:
        self._messages: dict[str, _Message] = {}
        self._enums: dict[str, _Enum] = {}
        self._judged = True
        for _, _, file in _wires(base64.b64decode(definition)):
            self._file(file)
        self._message = self._messages[f".{message}"]

    def read(self, data: bytes) -> object:
        """The value of a body. Raises ValueError for bytes that are no such message."""
        return self._value(self._message, list(_wires(data)), ()) if self._judged else UNJUDGED

    # The descriptor set.

    def _file(self, data: bytes) -> None:
        said = list(_wires(data))
        package, syntax = _text(said, 2), _text(said, 12)
        self._judged &= syntax in ("", "proto2", "proto3")
        within = f".{package}" if package else ""
        for number, _, one in said:
            if number == 4:
                self._declared(one, within, syntax != "proto3")
            elif number == 5:
                self._enum(one, within, syntax != "proto3")

    def _declared(self, data: bytes, within: str, proto2: bool) -> None:
        said = list(_wires(data))
        found = _Message(f"{within}.{_text(said, 1)}")
        self._messages[found.name] = found
        for number, _, one in said:
            match number:
                case 2:
                    nth, made = _field(list(_wires(one)), proto2)
                    found.fields[nth] = made
                case 3:
                    self._declared(one, found.name, proto2)
                case 4:
                    self._enum(one, found.name, proto2)
                case 7:
                    found.is_map = any(n == 7 and value for n, _, value in _wires(one))

    def _enum(self, data: bytes, within: str, closed: bool) -> None:
        said, names = list(_wires(data)), dict[int, str]()
        for number, _, one in said:
            if number == 2:
                value = list(_wires(one))
                names.setdefault(_signed(_number(value, 2), 32), _text(value, 1))
        self._enums[f"{within}.{_text(said, 1)}"] = _Enum(names, closed)

    # A body.

    def _value(self, of: _Message, wires: Sequence[Wire], within: tuple[str, ...]) -> Any:
        if of.name == f"{_GOOGLE}Timestamp":
            seconds, nanos = _signed(_number(wires, 1), 64), _signed(_number(wires, 2), 32)
            return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1_000)
        if of.name in _FREE | _UNTOLD or of.name in within or not of.fields:
            return UNJUDGED
        here = (*within, of.name)
        values: dict[int, list[Any]] = {}
        for number, wire, value in wires:
            known = of.fields.get(number)
            if known is None:
                continue
            read = list(self._read(known, wire, value))
            if not read:
                continue
            if known.oneof is not None:
                for other, one in of.fields.items():
                    if one.oneof == known.oneof and other != number:
                        values.pop(other, None)
            values.setdefault(number, []).extend(read)
        if of.name.startswith(_GOOGLE) and of.name.endswith("Value"):  # a wrapper
            return self._of_field(of.fields[1], values.get(1, []), here)
        return {
            one.name: self._of_field(one, values.get(number, []), here)
            for number, one in of.fields.items()
        }

    def _read(self, of: _Field, wire: int, value: Any) -> Iterator[Any]:
        """The values of one field in the bytes: several if they are packed, none if the wire type
        isn't the field's. A message's value is its own fields."""
        packed = wire == _BYTES and of.repeated
        if of.kind == _GROUP_TYPE:
            yield from [value] if wire == _GROUP else []
        elif of.kind in _LONG:
            yield from [_LONG[of.kind](value)] if wire == _BYTES else []
        elif of.kind in _FIXED:
            form = _FIXED[of.kind]
            if packed or wire == (_EIGHT if struct.calcsize(form) == 8 else _FOUR):
                yield from (one for (one,) in struct.iter_unpack(form, value))
        elif wire == _VARINT:
            yield from self._scalar(of, value)
        elif packed:
            at = 0
            while at < len(value):
                one, at = _varint(value, at)
                yield from self._scalar(of, one)

    def _scalar(self, of: _Field, value: int) -> Iterator[Any]:
        match of.kind:
            case _ if of.kind == _BOOL:
                yield value != 0
            case _ if of.kind == _INT64:
                yield _signed(value, 64)
            case _ if of.kind == _INT32:
                yield _signed(value, 32)
            case _ if of.kind == _UINT32:
                yield value & 0xFFFF_FFFF
            case _ if of.kind in (_SINT32, _SINT64):
                bits = 32 if of.kind == _SINT32 else 64
                value &= 2**bits - 1
                yield (value >> 1) ^ -(value & 1)
            case _ if of.kind == _ENUM:
                known, number = self._enums[of.type_name], _signed(value, 32)
                if number in known.names or not known.closed:
                    yield known.names.get(number, str(number))
            case _:
                yield value

    def _of_field(self, of: _Field, values: list[Any], within: tuple[str, ...]) -> Any:
        message = self._messages.get(of.type_name) if of.kind in (_MESSAGE, _GROUP_TYPE) else None
        if of.repeated and message is not None and message.is_map:
            return self._map(message, values, within)
        if of.repeated:
            return [one if message is None else self._value(message, one, within) for one in values]
        if message is not None:
            if not values:
                return self._value(message, [], within) if of.required else None
            return self._value(message, [wire for one in values for wire in one], within)
        return values[-1] if values else None if of.present else self._zero(of)

    def _map(self, of: _Message, entries: list[Any], within: tuple[str, ...]) -> Any:
        """A map by its entries. One whose value is no name of a closed enum isn't there. What an
        entry with other unknown fields is differs among Google's libraries: UNJUDGED."""
        found: dict[str, Any] = {}
        for wires in entries:
            read: dict[int, list[Any]] = {number: [] for number in of.fields}
            nameless = False
            for number, wire, value in wires:
                known = of.fields.get(number)
                said = [] if known is None else list(self._read(known, wire, value))
                if not said and (known is None or known.kind != _ENUM or wire != _VARINT):
                    return UNJUDGED
                nameless |= not said
                read[number].extend(said)
            if nameless and read[2]:
                return UNJUDGED
            if not nameless:
                key, value = (self._part(of.fields[nth], read[nth], within) for nth in (1, 2))
                found[str(key).lower() if isinstance(key, bool) else str(key)] = value
        return found

    def _part(self, of: _Field, values: list[Any], within: tuple[str, ...]) -> Any:
        """The key or the value of an entry, which is there in any case."""
        if of.kind == _MESSAGE:
            return self._of_field(of, values or [[]], within)
        return values[-1] if values else self._zero(of)

    def _zero(self, of: _Field) -> Any:
        match of.kind:
            case _ if of.kind == _STRING:
                return ""
            case _ if of.kind == _BYTES_TYPE:
                return b""
            case _ if of.kind == _BOOL:
                return False
            case _ if of.kind == _ENUM:
                return next(iter(self._enums[of.type_name].names.values()))
            case _ if of.kind in (_DOUBLE, _FLOAT):
                return 0.0
        return 0


#: Readers of the types that have a length.
_LONG: Final[Mapping[int, Callable[[bytes], Any]]] = {
    _MESSAGE: lambda data: list(_wires(data)),
    _STRING: bytes.decode,
    _BYTES_TYPE: bytes,
}


def _field(said: Sequence[Wire], proto2: bool) -> tuple[int, _Field]:
    label, kind = _number(said, 4), _number(said, 5)
    oneofs = [value for number, _, value in said if number == 9]
    optional = bool(_number(said, 17))
    repeated, required = label == _LABEL_REPEATED, label == _LABEL_REQUIRED
    is_message = kind in (_MESSAGE, _GROUP_TYPE)
    present = not repeated and not required and (proto2 or optional or bool(oneofs) or is_message)
    oneof = oneofs[0] if oneofs and not optional else None
    return _number(said, 3), _Field(
        _text(said, 1), kind, _text(said, 6), repeated, required, present, oneof
    )


def _wires(data: bytes, at: int = 0) -> Iterator[Wire]:
    """The fields of a message in their order."""
    while at < len(data):
        wire, at = _wire(data, at)
        if wire[1] == _GROUP_END:
            raise ValueError("a group ends that hasn't begun")
        yield wire


def _wire(data: bytes, at: int) -> tuple[Wire, int]:
    key, at = _varint(data, at)
    number, wire = key >> 3, key & 7
    match wire:
        case _ if wire == _VARINT:
            value, at = _varint(data, at)
            return (number, wire, value), at
        case _ if wire == _GROUP:
            inner = list[Wire]()
            while True:
                one, at = _wire(data, at)
                if one[1] == _GROUP_END:
                    return (number, wire, inner), at
                inner.append(one)
        case _ if wire == _GROUP_END:
            return (number, wire, None), at
        case _ if wire in (_EIGHT, _FOUR):
            size = 8 if wire == _EIGHT else 4
        case _ if wire == _BYTES:
            size, at = _varint(data, at)
        case _:
            raise ValueError(f"there is no wire type {wire}")
    if at + size > len(data):
        raise ValueError("the body is cut off")
    return (number, wire, data[at : at + size]), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value & 2**64 - 1, at
    raise ValueError("the body is cut off")


def _signed(value: int, bits: int) -> int:
    value &= 2**bits - 1
    return value - 2**bits if value >> bits - 1 else value


def _number(said: Sequence[Wire], number: int) -> int:
    return next((int(value) for nth, _, value in reversed(said) if nth == number), 0)


def _text(said: Sequence[Wire], number: int) -> str:
    return next((value.decode() for nth, _, value in reversed(said) if nth == number), "")
