"""CloudEvents' attributes as columns (CloudEvents 1.0.2, sections "Context Attributes" and
"Extension Context Attributes").

The columns are the same for every topic: required and optional attributes, named `ce_` and the
attribute's name, and all extensions as a map of texts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from distributary.pipeline.codec.amqp_types import Timestamp, Value
from distributary.pipeline.schemas.amqp_instance import amqp_instance, timestamp_of
from distributary.pipeline.schemas.column_types import (
    Column,
    MapOf,
    RowLayout,
    Scalar,
    distinct,
)
from distributary.pipeline.schemas.json_values import SCALARS, json_text
from distributary.pipeline.schemas.typed_row import NotFitting, RowValue, TypedRow

PREFIX: Final = "ce_"
REQUIRED: Final = ("id", "source", "type", "specversion")
OPTIONAL: Final = ("subject", "time", "dataschema", "datacontenttype")
EXTENSIONS: Final = "extensions"

COLUMNS: Final = (
    *(Column(PREFIX + name, Scalar.STRING, nullable=False, field=name) for name in REQUIRED),
    *(
        Column(
            PREFIX + name,
            Scalar.TIMESTAMP if name == "time" else Scalar.STRING,
            nullable=True,
            field=name,
        )
        for name in OPTIONAL
    ),
    Column(PREFIX + EXTENSIONS, MapOf(Scalar.STRING, nullable=False), False, EXTENSIONS),
)


def with_attributes(layout: RowLayout) -> RowLayout:
    """Return the layout with CloudEvents' columns before the body's. Raises InvalidRequest for a
    body with a column of the same name."""
    columns = distinct((*COLUMNS, *layout.columns), "the schema of a CloudEvent")
    return replace(layout, columns=columns, before=len(COLUMNS))


def attribute_row(attributes: Mapping[str, Value], content_type: str) -> TypedRow:
    """Return the columns of a message's attributes. `datacontenttype` is the message's content type
    in the AMQP binding. Raises NotFitting if the message is no CloudEvent."""
    said = {"datacontenttype": content_type or None, **attributes}
    row: TypedRow = {}
    for name in REQUIRED:
        row[PREFIX + name] = _text(name, said.pop(name, None))
        if not row[PREFIX + name]:
            raise NotFitting("the message is no CloudEvent: the attribute is missing").within(
                f"cloudEvents:{name}"
            )
    for name in OPTIONAL:
        value = said.pop(name, None)
        row[PREFIX + name] = _time(value) if name == "time" else _text(name, value)
    row[PREFIX + EXTENSIONS] = {
        name: text for name, value in said.items() if (text := _text(name, value)) is not None
    }
    return row


def _text(name: str, value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    try:
        found = amqp_instance(value)
    except NotFitting as wrong:
        raise wrong.within(f"cloudEvents:{name}") from None
    return found if isinstance(found, str) else json_text(found)


def _time(value: Value) -> RowValue:
    try:
        if isinstance(value, Timestamp):
            return timestamp_of(value)
        return None if value is None else SCALARS[Scalar.TIMESTAMP](value)
    except NotFitting as wrong:
        raise wrong.within("cloudEvents:time") from None
