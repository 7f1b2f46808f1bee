"""A message of a descriptor set as the text of one `.proto` file, for documents that need a text.

The text has all that affects bytes and names: the file compiled from it has the same messages,
fields, numbers, labels, defaults, enums and reserved names. Options other than `packed`, services,
extensions and comments are left out.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

#: Files that every compiler includes.
_GOOGLE: Final = "google/protobuf/"
_SYNTAXES: Final = {"": 2, "proto2": 2, "proto3": 3}
_GROUP: Final = FieldDescriptorProto.TYPE_GROUP
_TEXTS: Final = (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED
_REQUIRED: Final = FieldDescriptorProto.LABEL_REQUIRED


class ProtoFile(NamedTuple):
    """A `.proto` file: its syntax, 2 or 3, and its text."""

    syntax: int
    text: str


def proto_file(definition: str, message: str) -> ProtoFile | None:
    """Return the file that has the message. None if it can't be one text: it imports files other
    than Google's own, has groups or extensions, or is of an edition."""
    files = FileDescriptorSet.FromString(base64.b64decode(definition)).file
    found = next((one for one in files if message in _names(one)), None)
    if found is None or found.syntax not in _SYNTAXES or found.extension:
        return None
    if any(not name.startswith(_GOOGLE) for name in found.dependency):
        return None
    if any(_is_beyond(one) for one in found.message_type):
        return None
    return ProtoFile(_SYNTAXES[found.syntax], "\n".join(_file(found)) + "\n")


def _names(file: FileDescriptorProto) -> set[str]:
    def of(prefix: str, one: DescriptorProto) -> Iterator[str]:
        yield f"{prefix}{one.name}"
        for inner in one.nested_type:
            yield from of(f"{prefix}{one.name}.", inner)

    prefix = f"{file.package}." if file.package else ""
    return {name for one in file.message_type for name in of(prefix, one)}


def _is_beyond(message: DescriptorProto) -> bool:
    return bool(
        message.extension
        or message.extension_range
        or message.options.message_set_wire_format
        or any(field.type == _GROUP for field in message.field)
        or any(_is_beyond(inner) for inner in message.nested_type)
    )


def _file(file: FileDescriptorProto) -> Iterator[str]:
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    for name in file.dependency:
        yield f'import "{name}";'
    for one in file.enum_type:
        yield from _enum(one)
    for message in file.message_type:
        yield from _message(message, file.syntax == "proto3")


def _message(message: DescriptorProto, is_proto3: bool) -> Iterator[str]:
    yield f"message {message.name} {{"
    yield from _indented(_inside(message, is_proto3))
    yield "}"


def _inside(message: DescriptorProto, is_proto3: bool) -> Iterator[str]:
    for one in message.enum_type:
        yield from _enum(one)
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    for inner in message.nested_type:
        if inner.name not in entries:
            yield from _message(inner, is_proto3)
    begun: set[int] = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield _field(field, entries, _label(field, entries, is_proto3))
        elif field.oneof_index not in begun:
            begun.add(field.oneof_index)
            yield from _oneof(message, field.oneof_index, entries)
    ranges = [f"{one.start} to {one.end - 1}" for one in message.reserved_range]
    yield from _reserved(ranges, message.reserved_name)


def _oneof(
    message: DescriptorProto, index: int, entries: dict[str, DescriptorProto]
) -> Iterator[str]:
    inside = (one for one in message.field if one.HasField("oneof_index"))
    yield f"oneof {message.oneof_decl[index].name} {{"
    yield from _indented(_field(one, entries, "") for one in inside if one.oneof_index == index)
    yield "}"


def _label(
    field: FieldDescriptorProto, entries: dict[str, DescriptorProto], is_proto3: bool
) -> str:
    if field.label == _REPEATED:
        return "" if _entry(field, entries) else "repeated "
    if field.label == _REQUIRED:
        return "required "
    return "optional " if field.proto3_optional or not is_proto3 else ""


def _entry(
    field: FieldDescriptorProto, entries: dict[str, DescriptorProto]
) -> DescriptorProto | None:
    """Return the entry of a map, if the field is one."""
    name = field.type_name.rpartition(".")[2]
    is_map = field.label == _REPEATED and field.type == FieldDescriptorProto.TYPE_MESSAGE
    return entries.get(name) if is_map else None


def _field(field: FieldDescriptorProto, entries: dict[str, DescriptorProto], label: str) -> str:
    entry = _entry(field, entries)
    kind = _kind(field) if entry is None else f"map<{', '.join(map(_kind, entry.field))}>"
    options = []
    if field.HasField("default_value"):
        options.append(f"default = {_default(field)}")
    if field.options.HasField("packed"):
        options.append(f"packed = {str(field.options.packed).lower()}")
    if field.json_name and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    said = f" [{', '.join(options)}]" if options else ""
    return f"{label}{kind} {field.name} = {field.number}{said};"


def _kind(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _default(field: FieldDescriptorProto) -> str:
    """Return the default as the language writes it: a descriptor escapes bytes, but no texts."""
    if field.type == FieldDescriptorProto.TYPE_BYTES:
        return f'"{field.default_value}"'
    return _quoted(field.default_value) if field.type in _TEXTS else field.default_value


def _json_name(name: str) -> str:
    """Return the default name of a field in JSON (protoc's ToJsonName)."""
    first, *others = name.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in others)


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield "  option allow_alias = true;"
    yield from (f"  {one.name} = {one.number};" for one in enum.value)
    ranges = [f"{one.start} to {one.end}" for one in enum.reserved_range]
    yield from _indented(_reserved(ranges, enum.reserved_name))
    yield "}"


def _reserved(ranges: list[str], names: Iterable[str]) -> Iterator[str]:
    if ranges:
        yield f"reserved {', '.join(ranges)};"
    if quoted := ", ".join(map(_quoted, names)):
        yield f"reserved {quoted};"


def _quoted(text: str) -> str:
    escaped = "".join(
        one
        if one.isprintable() and one not in '"\\' and ord(one) < 128
        else "".join(f"\\{byte:03o}" for byte in one.encode())
        for one in text
    )
    return f'"{escaped}"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
