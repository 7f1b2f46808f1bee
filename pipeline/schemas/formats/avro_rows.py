"""Bodies of Avro as rows, decoded by fastavro.

Rule 1: a body is exactly one datum in Avro's binary encoding, by its writer's schema: `avro_datum`.
Rule 2: a value that isn't of its column's type is a misfit: the writer, or a default, may have
        another logical type, which fastavro doesn't compare.
Rule 3: the writer's schema is the version whose registry id the body names; if it names none, or no
        version has an id, it is the reader's version.
"""

import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Final, cast
from uuid import UUID

import fastavro
from fastavro.schema import SchemaParseException
from fastavro.types import Schema

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.avro_columns import avro_columns
from distributary.pipeline.schemas.body_content import BodyContent, body_bytes, unframed
from distributary.pipeline.schemas.column_types import RowLayout, Scalar
from distributary.pipeline.schemas.formats.avro_datum import datum_check
from distributary.pipeline.schemas.formats.avro_defaults import prepare_defaults, since_epoch
from distributary.pipeline.schemas.json_columns import parsed
from distributary.pipeline.schemas.json_values import SCALARS, Reading, json_text, row_reading
from distributary.pipeline.schemas.schema_version import LIMITS, Format, SchemaLimits, SchemaVersion
from distributary.pipeline.schemas.typed_row import NotFitting, RowValue, TypedRow, not_a

#: Exceptions of fastavro for bytes that aren't of the schema.
_NOT_AVRO: Final = (
    *(EOFError, ValueError, LookupError, ArithmeticError, TypeError),
    *(struct.error, MemoryError, fastavro.read.SchemaResolutionError),
)
#: Exceptions of fastavro for a definition that is no schema.
_NO_SCHEMA: Final = (
    *(SchemaParseException, fastavro.schema.UnknownType),
    *(LookupError, TypeError, ArithmeticError),
)
_UUID_BYTES: Final = 16

#: Times that fastavro leaves as numbers, which no reader could tell from those of another unit.
fastavro.read.LOGICAL_READERS.update(
    {
        "long-timestamp-nanos": lambda value, *_: since_epoch(value, "timestamp-nanos"),
        "long-local-timestamp-nanos": lambda value, *_: since_epoch(value, "local-timestamp-nanos"),
    }
)


class AvroRows:
    """Reads bodies by one version; `versions` are all of the topic: a body may name any of them.
    Raises InvalidRequest if the definition is no Avro schema."""

    def __init__(
        self,
        schema: SchemaVersion,
        versions: Iterable[SchemaVersion] = (),
        limits: SchemaLimits = LIMITS,
    ) -> None:
        self.layout: RowLayout = avro_columns(schema.definition, limits)
        self._schema = schema
        self._own = avro_schema(schema.definition)
        prepare_defaults(self._own)
        self._writers: Mapping[str, Schema] = {
            one.registry_id: avro_schema(one.definition)
            for one in (*versions, schema)
            if one.registry_id and one.format is Format.AVRO
        }
        self._checks = {id(one): datum_check(one) for one in (self._own, *self._writers.values())}
        self._row = row_reading(self.layout, AVRO_SCALARS)

    def read(self, content: BodyContent) -> TypedRow:
        """Return the row of a body. Raises NotFitting."""
        framed = unframed(
            body_bytes(content), self._schema.framing, Format.AVRO, content.content_type
        )
        writer = self._writer(framed.registry_id)
        self._checks[id(writer)](framed.data)
        return self._row(decoded(framed.data, writer, None if writer is self._own else self._own))

    def _writer(self, registry_id: str) -> Schema:
        if not registry_id or not self._writers:
            return self._own
        if registry_id == self._schema.registry_id:
            return self._own
        found = self._writers.get(registry_id)
        if found is None:
            raise NotFitting(f"no version of the schema has the registry id {registry_id}")
        return found


def avro_schema(definition: str) -> Schema:
    """Parse a definition by fastavro. Raises InvalidRequest."""
    try:
        return fastavro.parse_schema(cast("Schema", parsed(definition)))
    except _NO_SCHEMA as error:
        raise InvalidRequest(f"the definition is no Avro schema: {error}") from None


def decoded(data: bytes, writer: Schema, reader: Schema | None) -> object:
    """Decode one datum that was checked. Raises NotFitting."""
    try:
        return fastavro.schemaless_reader(BytesIO(data), writer, reader)
    except _NOT_AVRO as error:
        said = str(error) or type(error).__name__
        raise NotFitting(f"the body is no Avro of this schema: {said}") from None


def _string(value: object) -> RowValue:
    match value:
        case str():
            return value
        case UUID():
            return str(value)
        case time() | datetime():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bytes() if len(value) == _UUID_BYTES:
            return str(UUID(bytes=value))
    raise not_a("string", value)


def _timestamp(value: object) -> RowValue:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise not_a("timestamp", value)
    return value.astimezone(UTC)


def _date(value: object) -> RowValue:
    match value:
        case date() if not isinstance(value, datetime):
            return value
        case int():  # written without the logical type: days are its only unit
            with suppress(OverflowError):
                return date(1970, 1, 1) + timedelta(days=value)
    raise not_a("date of the years 1 to 9999", value)


def _double(value: object) -> RowValue:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise not_a("number", value)
    try:
        return float(value)
    except OverflowError:
        raise NotFitting("the number is too large for a double") from None


def _binary(value: object) -> RowValue:
    if not isinstance(value, bytes):
        raise not_a("bytes", value)
    return value


def _json(value: object) -> RowValue:
    return json_text(_plain(value))


def _plain(value: object) -> object:
    """Return a value with all parts that JSON can't have replaced by texts."""
    match value:
        case dict():
            return {str(key): _plain(one) for key, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case UUID() | Decimal():
            return str(value)
        case date() | time():
            return value.isoformat()
    return value


AVRO_SCALARS: Final[Mapping[Scalar, Reading]] = {
    **SCALARS,
    Scalar.FLOAT: _double,
    Scalar.DOUBLE: _double,
    Scalar.STRING: _string,
    Scalar.BINARY: _binary,
    Scalar.DATE: _date,
    Scalar.TIMESTAMP: _timestamp,
    Scalar.JSON: _json,
}
