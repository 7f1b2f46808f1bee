"""Bodies of Protobuf as rows: the message of a descriptor set, decoded by Google's library.

| Protobuf | column |
|---|---|
| bool, string, bytes | boolean, string, binary |
| int32, sint32, sfixed32 | integer |
| int64, sint64, sfixed64, uint32, fixed32 | long |
| uint64, fixed64 | decimal(20,0) |
| float, double | float, double |
| enum | string: the value's name, or its number if the schema has no name for it |
| message, group | struct, nullable |
| repeated; map | list; map, its keys as text; neither is null |
| google.protobuf.Timestamp | timestamp; digits behind microseconds are cut off |
| wrappers (google.protobuf.Int64Value, ...) | the column of the wrapped type, nullable |
| Duration, FieldMask | string, as Protobuf's JSON writes it |
| Struct, Value, ListValue, Any, Empty, a recursive message | the text of its JSON |

A field without presence (a plain one of proto3) is never null: its value is the default.
"""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias, cast

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.amqp_instance import EPOCH
from distributary.pipeline.schemas.body_content import BodyContent, body_bytes, unframed
from distributary.pipeline.schemas.column_types import (
    Column,
    ColumnType,
    DecimalOf,
    ListOf,
    MapOf,
    RowLayout,
    Scalar,
    Struct,
    column,
    distinct,
    layout,
)
from distributary.pipeline.schemas.json_values import json_text
from distributary.pipeline.schemas.schema_version import LIMITS, Format, SchemaLimits, SchemaVersion
from distributary.pipeline.schemas.typed_row import (
    NotFitting,
    RowValue,
    TypedRow,
    each_row,
    entries_row,
)

#: Reads one value of a field. Raises NotFitting.
Reading: TypeAlias = Callable[[Any], RowValue]

UINT64: Final = DecimalOf(20, 0)

_KINDS: Final[dict[int, ColumnType]] = {
    FieldDescriptor.TYPE_BOOL: Scalar.BOOLEAN,
    FieldDescriptor.TYPE_STRING: Scalar.STRING,
    FieldDescriptor.TYPE_BYTES: Scalar.BINARY,
    FieldDescriptor.TYPE_INT32: Scalar.INTEGER,
    FieldDescriptor.TYPE_SINT32: Scalar.INTEGER,
    FieldDescriptor.TYPE_SFIXED32: Scalar.INTEGER,
    FieldDescriptor.TYPE_INT64: Scalar.LONG,
    FieldDescriptor.TYPE_SINT64: Scalar.LONG,
    FieldDescriptor.TYPE_SFIXED64: Scalar.LONG,
    FieldDescriptor.TYPE_UINT32: Scalar.LONG,
    FieldDescriptor.TYPE_FIXED32: Scalar.LONG,
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_FIXED64: UINT64,
    FieldDescriptor.TYPE_FLOAT: Scalar.FLOAT,
    FieldDescriptor.TYPE_DOUBLE: Scalar.DOUBLE,
    FieldDescriptor.TYPE_ENUM: Scalar.STRING,
}
_GOOGLE: Final = "google.protobuf."
_WRAPPERS: Final = frozenset(
    f"{_GOOGLE}{kind}Value"
    for kind in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
_TEXTS: Final = frozenset({f"{_GOOGLE}Duration", f"{_GOOGLE}FieldMask"})
_FREE: Final = frozenset(
    f"{_GOOGLE}{kind}" for kind in ("Struct", "Value", "ListValue", "Any", "Empty")
)
_TIMESTAMP: Final = f"{_GOOGLE}Timestamp"
_NANOS_OF_A_MICRO: Final = 1_000
#: Exceptions of Google's library for a message without JSON. An Any has a message of its own, which
#: is parsed only now: its bytes may be none, and another Any may be in it, however deep.
_NO_JSON: Final = (
    *(json_format.Error, DecodeError, RecursionError),
    *(TypeError, ValueError, KeyError),
)


class Found(NamedTuple):
    """The column type of a field, or of one of its elements, and the function that reads it."""

    type: ColumnType
    read: Reading


class ProtobufRows:
    """Reads bodies that are one message of a descriptor set. Raises InvalidRequest if the
    definition is no descriptor set or doesn't have the message."""

    def __init__(self, schema: SchemaVersion, limits: SchemaLimits = LIMITS) -> None:
        self._schema = schema
        pool = pool_of(schema.definition)
        descriptor = message_of(pool, schema.message)
        self._class = message_factory.GetMessageClass(descriptor)
        found = _Walk(pool, limits).message(descriptor, ())
        self.layout: RowLayout = layout(found.type, limits)
        self._read = found.read

    def read(self, content: BodyContent) -> TypedRow:
        """Return the row of a body. Raises NotFitting."""
        data = unframed(body_bytes(content), self._schema.framing, Format.PROTOBUF).data
        try:
            message = self._class.FromString(data)
        except DecodeError as error:
            raise NotFitting(f"the body is no {self._schema.message}: {error}") from None
        if not message.IsInitialized():
            raise NotFitting(f"the body is no {self._schema.message}: a required field is missing")
        row = self._read(message)
        if self.layout.whole:
            return {self.layout.columns[0].name: row}
        return cast("TypedRow", row)


def pool_of(definition: str) -> descriptor_pool.DescriptorPool:
    """Return the files of a descriptor set as a pool. Raises InvalidRequest."""
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(
            base64.b64decode(definition, validate=True)
        )
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
    except (DecodeError, binascii.Error, ValueError, TypeError) as error:
        raise InvalidRequest(
            f"the definition is no whole descriptor set: {error}. One is made by protoc "
            "--include_imports --descriptor_set_out FILE"
        ) from None
    return pool


def message_of(pool: descriptor_pool.DescriptorPool, name: str) -> Descriptor:
    """Return a message by its full name. Raises InvalidRequest."""
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise InvalidRequest(
            f"the descriptor set has no message {quoted(name)}: give its full name, package.Message"
        ) from None


class _Walk:
    """A walk over one descriptor set, from one message."""

    def __init__(self, pool: descriptor_pool.DescriptorPool, limits: SchemaLimits) -> None:
        self._pool, self._limits = pool, limits
        self._columns = 0

    def message(self, of: Descriptor, within: tuple[str, ...]) -> Found:
        """Return the type of a message: a struct, but for Google's own types."""
        name = of.full_name
        if name == _TIMESTAMP:
            return Found(Scalar.TIMESTAMP, _timestamp)
        if name in _WRAPPERS:
            inner = self._single(of.fields_by_name["value"], within)
            return Found(inner.type, lambda message: inner.read(message.value))
        if name in _TEXTS:
            return Found(Scalar.STRING, _json_string)
        deep = len(within) > self._limits.depth_max
        if name in _FREE or name in within or deep or not of.fields:
            return Found(Scalar.JSON, self._json)
        fields = [_Field(one, self._field(one, (*within, name))) for one in of.fields]
        columns = distinct((one.column for one in fields), f"the message {name}")
        return Found(Struct(columns), lambda message: {one.name: one(message) for one in fields})

    def _field(self, of: FieldDescriptor, within: tuple[str, ...]) -> Found:
        self._columns += 1
        if self._columns > self._limits.columns_max:
            raise InvalidRequest(
                f"the schema has more than {self._limits.columns_max} columns (schemas.columns_max)"
            )
        if not of.is_repeated:
            return self._single(of, within)
        entry = of.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return self._map(entry, within)
        one = self._single(of, within)
        return Found(ListOf(one.type, nullable=False), _list_reading(one.read))

    def _map(self, entry: Descriptor, within: tuple[str, ...]) -> Found:
        value = self._single(entry.fields_by_name["value"], within)
        return Found(MapOf(value.type, nullable=False), _map_reading(value.read))

    def _single(self, of: FieldDescriptor, within: tuple[str, ...]) -> Found:
        if of.message_type is not None:
            return self.message(of.message_type, within)
        kind = _KINDS[of.type]
        if of.enum_type is not None:
            names = {number: one.name for number, one in of.enum_type.values_by_number.items()}
            return Found(kind, lambda number: names.get(number, str(number)))
        if kind is Scalar.STRING:
            return Found(kind, _string)
        return Found(kind, Decimal if kind == UINT64 else _as_it_is)

    def _json(self, message: Message) -> RowValue:
        try:
            return json_text(
                json_format.MessageToDict(
                    message, preserving_proto_field_name=True, descriptor_pool=self._pool
                )
            )
        except _NO_JSON as error:
            raise NotFitting(f"it can't be written as JSON: {error}") from None


class _Field:
    """One field of a message: its column, and the function that reads its value."""

    __slots__ = ("_field", "_present", "_read", "column", "name")

    def __init__(self, of: FieldDescriptor, found: Found) -> None:
        self._field, self._read = of.name, found.read
        self._present = of.has_presence and not of.is_required
        self.column: Column = column(of.name, found.type, nullable=self._present)
        self.name = self.column.name

    def __call__(self, message: Message) -> RowValue:
        if self._present and not message.HasField(self._field):
            return None
        try:
            return self._read(getattr(message, self._field))
        except NotFitting as wrong:
            raise wrong.within(self._field) from None


def _list_reading(inner: Reading) -> Reading:
    return lambda values: each_row(inner, values)


def _map_reading(inner: Reading) -> Reading:
    return lambda values: entries_row(inner, ((_key(key), one) for key, one in values.items()))


def _key(key: object) -> str:
    """Return a map's key as Protobuf's JSON writes it."""
    return str(key).lower() if isinstance(key, bool) else str(_string(key))


def _string(value: object) -> RowValue:
    if isinstance(value, bytes):  # proto2 doesn't check
        raise NotFitting(f"{quoted(value)} is no UTF-8")
    return cast("RowValue", value)


def _as_it_is(value: Any) -> RowValue:
    return cast("RowValue", value)


def _json_string(message: Any) -> RowValue:
    try:
        return cast("str", json.loads(json_format.MessageToJson(message)))
    except (json_format.Error, ValueError) as error:
        raise NotFitting(f"it can't be written as JSON: {error}") from None


def _timestamp(message: Any) -> RowValue:
    try:
        return EPOCH + timedelta(
            seconds=message.seconds, microseconds=message.nanos // _NANOS_OF_A_MICRO
        )
    except OverflowError:
        raise NotFitting(
            f"the timestamp of {message.seconds} seconds is outside of the years 1 to 9999"
        ) from None
