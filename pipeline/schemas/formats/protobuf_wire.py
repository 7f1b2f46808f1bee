"""Whether one version of a Protobuf message reads bodies of another one (Protobuf: "Updating A
Message Type").

| change | the reader |
|---|---|
| a field that it doesn't know | ignores it |
| a field that isn't written | uses the default, unless the field is required |
| the same number with a type of the same wire form | reads it |
| the same number with another wire form, or repeated and not | can't |
"""

from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from distributary.pipeline.schemas.formats.protobuf_rows import message_of, pool_of
from distributary.pipeline.schemas.schema_version import SchemaVersion
from distributary.pipeline.schemas.typed_row import pointer

#: Type as it is written -> types that read all of its values. An enum's numbers are an int32's.
_READ_BY: Final[dict[int, frozenset[int]]] = {
    FieldDescriptor.TYPE_BOOL: frozenset(
        {
            *(FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64),
            *(FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64),
        }
    ),
    FieldDescriptor.TYPE_INT32: frozenset({FieldDescriptor.TYPE_INT64}),
    FieldDescriptor.TYPE_UINT32: frozenset(
        {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64}
    ),
    FieldDescriptor.TYPE_SINT32: frozenset({FieldDescriptor.TYPE_SINT64}),
    FieldDescriptor.TYPE_ENUM: frozenset({FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64}),
    FieldDescriptor.TYPE_STRING: frozenset({FieldDescriptor.TYPE_BYTES}),
}


def wire_problems(writer: SchemaVersion, reader: SchemaVersion) -> list[str]:
    """Return why the reader can't read all bodies of the writer; empty if it can."""
    messages = [message_of(pool_of(one.definition), one.message) for one in (writer, reader)]
    return list(_differ(messages[0], messages[1], (), frozenset()))


def _differ(
    writer: Descriptor, reader: Descriptor, at: tuple[str, ...], met: frozenset[tuple[str, str]]
) -> Iterable[str]:
    both = (writer.full_name, reader.full_name)
    if both in met:
        return
    written = {field.number: field for field in writer.fields}
    for field in reader.fields:
        here, found = (*at, field.name), written.get(field.number)
        if found is None:
            if field.is_required:
                yield f"{pointer(list(here))} is required, and isn't written"
            continue
        if field.is_required and not found.is_required:
            yield f"{pointer(list(here))} is required, and may be missing"
        yield from _fields_differ(found, field, here, met | {both})


def _fields_differ(
    written: FieldDescriptor,
    read: FieldDescriptor,
    at: tuple[str, ...],
    met: frozenset[tuple[str, str]],
) -> Iterable[str]:
    place = f"{pointer(list(at))} (number {read.number})"
    if written.is_repeated != read.is_repeated:
        yield f"{place} is repeated in one version, and not in the other"
    elif written.type != read.type:
        if read.type not in _READ_BY.get(written.type, frozenset()):
            yield f"{place} is written with a type that is read otherwise"
    elif written.message_type is not None and read.message_type is not None:
        yield from _differ(written.message_type, read.message_type, at, met)
