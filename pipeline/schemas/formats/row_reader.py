"""Reading of a message into a row of its topic's schema, or a misfit: the entry to all formats.

The library of a format is loaded with its first reader.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from distributary.pipeline.codec.amqp_types import Value
from distributary.pipeline.codec.sections import Body
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.body_content import (
    STRUCTURED,
    BodyContent,
    JsonBody,
    content_of,
)
from distributary.pipeline.schemas.cloud_events import attribute_row, with_attributes
from distributary.pipeline.schemas.column_types import RowLayout
from distributary.pipeline.schemas.json_values import Instance, json_instance, json_text
from distributary.pipeline.schemas.schema_version import LIMITS, Format, SchemaLimits, SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit, NotFitting, TypedRow

#: Members of a structured CloudEvent with its data.
_DATA, _DATA_BASE64 = "data", "data_base64"


class Rows(Protocol):
    """A reader of bodies of one format."""

    layout: RowLayout

    def read(self, content: BodyContent) -> TypedRow:
        """Return the row of a body. Raises NotFitting."""


class RowReader:
    """Reads messages by one version of a schema. `layout` has the columns of its rows."""

    def __init__(self, schema: SchemaVersion, rows: Rows) -> None:
        self.schema, self._rows = schema, rows
        self.layout = with_attributes(rows.layout) if schema.cloud_events else rows.layout

    def read(self, message: bytes) -> TypedRow | Misfit:
        """Return the row of a whole AMQP message, given as its bytes in the log."""
        try:
            return self._read(content_of(message))
        except NotFitting as wrong:
            return wrong.misfit

    def read_content(self, content: BodyContent) -> TypedRow | Misfit:
        """Return the row of a message that is already decoded."""
        try:
            return self._read(content)
        except NotFitting as wrong:
            return wrong.misfit

    def _read(self, content: BodyContent) -> TypedRow:
        if not self.schema.cloud_events:
            return self._rows.read(content)
        if content.content_type.startswith(STRUCTURED):
            content = unwrapped(content)
        row = attribute_row(content.attributes, content.content_type)
        return row | self._rows.read(content)


def unwrapped(content: BodyContent) -> BodyContent:
    """Convert a CloudEvent of structured mode to binary mode. Raises NotFitting."""
    body = content.body.value if isinstance(content.body, Body) else None
    if not isinstance(body, bytes | str):
        raise NotFitting("the body of a structured CloudEvent is JSON")
    event = json_instance(body, exact=True)
    if not isinstance(event, dict):
        raise NotFitting("the body of a structured CloudEvent is an object")
    attributes = {
        name: one
        for name, one in event.items()
        if name not in (_DATA, _DATA_BASE64) and one is not None
    }
    return replace(
        content,
        body=_data_of(event),
        content_type=str(attributes.pop("datacontenttype", "application/json")),
        attributes={name: _attribute(one) for name, one in attributes.items()},
    )


def _attribute(value: Instance) -> Value:
    """Return an attribute: a text, integer or boolean, as specified; other values as JSON text."""
    return value if isinstance(value, str | bool | int | None) else json_text(value)


def _data_of(event: Mapping[str, Instance]) -> Body | JsonBody:
    encoded = event.get(_DATA_BASE64)
    if isinstance(encoded, str):
        try:
            return Body("data", b64decode(encoded, validate=True))
        except ValueError:
            raise NotFitting("it is no base64").within(_DATA_BASE64) from None
    return JsonBody(event[_DATA]) if _DATA in event else Body("none", None)


def row_reader(
    schema: SchemaVersion,
    versions: Iterable[SchemaVersion] = (),
    limits: SchemaLimits = LIMITS,
) -> RowReader:
    """Return a reader of messages by this version; `versions` are all of its topic: an Avro body
    may name any of them. Raises InvalidRequest for a definition that is wrong or has no columns,
    and if the format's library isn't installed."""
    size = len(schema.definition.encode(errors="replace"))
    if size > limits.definition_bytes_max:
        raise InvalidRequest(
            f"the definition has {size} bytes, more than {limits.definition_bytes_max} "
            "(schemas.definition_bytes_max)"
        )
    try:
        return RowReader(schema, _rows(schema, versions, limits))
    except ImportError as error:
        raise InvalidRequest(
            f"schemas need the extra 'schemas' ({error.name} is missing): "
            "pip install 'distributary[schemas]'"
        ) from None


def _rows(schema: SchemaVersion, versions: Iterable[SchemaVersion], limits: SchemaLimits) -> Rows:
    match schema.format:
        case Format.JSON:
            from distributary.pipeline.schemas.formats.json_rows import JsonRows  # noqa: PLC0415

            return JsonRows(schema, limits)
        case Format.AVRO:
            from distributary.pipeline.schemas.formats.avro_rows import AvroRows  # noqa: PLC0415

            return AvroRows(schema, versions, limits)
        case Format.PROTOBUF:
            from distributary.pipeline.schemas.formats.protobuf_rows import (  # noqa: PLC0415
                ProtobufRows,
            )

            return ProtobufRows(schema, limits)


def protobuf_definition(descriptor_set: bytes) -> str:
    """Return the definition of a Protobuf schema: a descriptor set as text."""
    return b64encode(descriptor_set).decode()
