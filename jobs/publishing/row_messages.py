"""Rows of a query as messages: the possible columns, and the meaning of each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
)

from distributary.pipeline.errors import InvalidRequest

if TYPE_CHECKING:
    from distributary.client.outgoing_message import Message, Plain

#: Columns of which the first that has a value is the body.
BODIES = ("body", "body_text", "body_bytes")

#: Column -> the types that it may have, and its meaning; the names are those of `messages`.
COLUMNS: Mapping[str, tuple[tuple[type[DataType], ...], str]] = {
    "body": ((StringType, BinaryType), "the body: text, or bytes"),
    "body_text": ((StringType,), "the body, if it is text"),
    "body_bytes": ((BinaryType,), "the body, if it is bytes"),
    "message_id": ((StringType,), "its id, by which duplicates are known; made where it is null"),
    "properties": ((MapType, StructType), "application properties: texts, numbers, booleans"),
    "subject": ((StringType,), "its subject (JMSType)"),
    "correlation_id": ((StringType,), "its correlation-id"),
    "reply_to": ((StringType,), "where an answer goes"),
    "to": ((StringType,), "its field `to`"),
    "content_type": ((StringType,), "its content-type"),
    "group_id": ((StringType,), "its message group (JMSXGroupID)"),
    "priority": ((IntegralType,), "0 to 9; 4 where it is null"),
    "durable": ((BooleanType,), "whether it outlasts the gateway; true where it is null"),
    "ttl_seconds": ((NumericType,), "how long until it expires; never where it is null"),
    "delay_seconds": ((NumericType,), "how long it isn't delivered"),
}
#: Types of properties.
_PROPERTY = (StringType, BinaryType, BooleanType, NumericType)


def check(schema: StructType) -> None:
    """Raise InvalidRequest for a column that has no place in a message, or without a body."""
    for field in schema.fields:
        known = COLUMNS.get(field.name)
        if known is None:
            there_are = ", ".join(COLUMNS)
            raise InvalidRequest(
                f"the sink 'topic' has no column '{field.name}'; it has {there_are}. Leave it out "
                "or put it among the properties"
            )
        if not isinstance(field.dataType, known[0]) or not _can_be_said(field.dataType):
            raise InvalidRequest(
                f"the column '{field.name}' is {field.dataType.simpleString()}; it must be "
                f"{known[1]}"
            )
    if not set(BODIES) & set(schema.names):
        raise InvalidRequest(f"the sink 'topic' needs a column {' or '.join(BODIES)}")


def _can_be_said(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, _PROPERTY)
    if isinstance(kind, StructType):
        return all(isinstance(field.dataType, _PROPERTY) for field in kind.fields)
    return True


def message_of(row: Row) -> "Message":
    """Return a row whose columns were checked as a message without an id of its own."""
    from distributary.client.outgoing_message import Message  # noqa: PLC0415 (a driver that only plans needs no Proton)

    said = {name: value for name, value in row.asDict().items() if value is not None}
    body = next((said[name] for name in BODIES if name in said), None)
    priority, durable = said.get("priority", 4), said.get("durable", True)
    return Message(
        body=bytes(body) if isinstance(body, bytearray) else body,
        properties=_properties(said.get("properties")),
        id=said.get("message_id"),
        subject=said.get("subject"),
        correlation_id=said.get("correlation_id"),
        reply_to=said.get("reply_to"),
        to=said.get("to"),
        content_type=said.get("content_type"),
        group=said.get("group_id"),
        priority=int(priority),
        durable=bool(durable),
        ttl=_seconds(said, "ttl_seconds"),
        delay=_seconds(said, "delay_seconds"),
    )


def _seconds(said: Mapping[str, Any], name: str) -> float | None:
    return float(said[name]) if name in said else None


def _properties(said: object) -> "Mapping[str, Plain]":
    """Return properties in the order of their names, so that equal rows are equal bytes; without
    null ones."""
    pairs = said.asDict() if isinstance(said, Row) else cast("dict[str, Any]", said or {})
    return {name: _plain(pairs[name]) for name in sorted(pairs) if pairs[name] is not None}


def _plain(value: Any) -> "Plain":
    match value:
        case bytearray():
            return bytes(value)
        case bool() | int() | float() | str() | bytes():
            return value
        case _:  # a decimal: few clients read AMQP's type, all read a text
            return str(value)
