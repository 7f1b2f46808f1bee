"""Rows of typed tables compared with their bodies, which are read again (`plain_bodies`).

This module uses none of the code that makes the rows: names and types of a version's columns stand
in the table `schemas`.
"""

import base64
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from distributary.pipeline.transforms.audit.plain_avro import UNJUDGED
from distributary.pipeline.transforms.audit.plain_bodies import BodyFormat, Form
from distributary.pipeline.transforms.schema.spark_schema import in_utc

#: Columns of the differences, one row each.
DIFFERENCES: Final = (
    "sequence long, topic string, `table` string, column string, value string, in_body string"
)
_NAMES: Final = ("sequence", "topic", "table", "column", "value", "in_body")
_KIND: Final = pa.schema(
    [pa.field(name, pa.int64() if name == "sequence" else pa.string()) for name in _NAMES]
)
#: Columns of every typed table that aren't the schema's.
OWN: Final = ("_sequence", "_published_at", "_message_id", "_properties", "_schema_version")
#: Columns with a row's body, under names that no schema has by chance.
TEXT, BYTES, CONTENT_TYPE = "__text__", "__bytes__", "__content_type__"
#: Characters of a value that a difference shows.
_SHOWN_MAX: Final = 200
#: The type of a column in a version's own words: Spark's, as JSON.
Kind: TypeAlias = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a topic's schema, from a sequence on: its columns by their names in the table,
    None if its bodies aren't judged."""

    since: int
    until: int | None
    columns: Mapping[str, Mapping[str, Any]] | None
    bodies: BodyFormat

    @classmethod
    def of(
        cls, since: int, until: int | None, columns: str, *, judged: bool, bodies: BodyFormat
    ) -> "Version":
        """A version by its row of the table `schemas`."""
        fields = json.loads(columns)["fields"] if judged else []
        names = {one["name"].lower() for one in fields}
        named = {_own(one["name"], names): one for one in fields}
        return cls(since, until, named if judged else None, bodies)


def _own(name: str, fields: AbstractSet[str]) -> str:
    """The column of a field: a field named as one of our columns gets `_` behind its name, as often
    as needed for a name that no field has."""
    if name.lower() not in OWN:
        return name
    while name.lower() in {*OWN, *fields}:
        name += "_"
    return name


def differences(
    batches: Iterable[pa.RecordBatch], table: str, topic: str, versions: Sequence[Version]
) -> Iterator[pa.RecordBatch]:
    """Rows of a typed table with TEXT, BYTES and CONTENT_TYPE of their bodies in, their differences
    from the bodies out. `versions` are in the order of their sequences."""
    starts = [one.since for one in versions]
    for batch in batches:
        found = []
        for row in in_utc(batch).to_pylist(maps_as_pydicts="strict"):
            at = bisect_right(starts, row["_sequence"]) - 1
            columns = versions[at].columns if at >= 0 else None
            if columns is None or (row[BYTES] is None and row[TEXT] is None):
                continue
            for name, value, said in _differing(row, columns, versions[at].bodies):
                line = (row["_sequence"], topic, table, name, _shown(value), _shown(said))
                found.append(dict(zip(_NAMES, line, strict=True)))
        yield pa.RecordBatch.from_pylist(found, schema=_KIND)


def _differing(
    row: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]], bodies: BodyFormat
) -> Iterator[tuple[str, object, object]]:
    binary = row[BYTES]
    try:
        body, form = bodies.read(row[TEXT] if binary is None else binary, row[CONTENT_TYPE] or "")
    except (ValueError, IndexError, LookupError, OverflowError) as error:
        yield "", None, str(error)
        return
    for name, value in row.items():
        if name in (*OWN, TEXT, BYTES, CONTENT_TYPE) or body is UNJUDGED:
            continue
        column = columns.get(name)
        if column is None:
            if value is not None:
                yield name, value, None
            continue
        sides = _sides(body, column, len(columns))
        if not any(same(value, one, column["type"], column["metadata"], form) for one in sides):
            yield name, value, sides[-1]


def _sides(body: object, column: Mapping[str, Any], columns: int) -> list[object]:
    """The values that a column may have of a body: one of its members. An only column `value` is
    all of the body, or its member of that name: a version's columns don't say which, so either is
    right."""
    if not isinstance(body, dict):
        return [body]
    said = body.get(field_of(column))
    return [said, body] if columns == 1 and column["name"] == "value" else [said]


def field_of(column: Mapping[str, Any]) -> str:
    """Return a column's name in a body."""
    found: str = column["metadata"].get("field", column["name"])
    return found


def same(value: Any, said: Any, kind: Kind, metadata: Mapping[str, Any], form: Form) -> bool:
    """Whether a column's value is that of the body. An AMQP value as JSON (`Form.VALUE`) may be a
    map, whose times and bytes have other forms: these aren't compared."""
    if said is UNJUDGED:
        return True
    if value is None or said is None:
        return value is said
    if metadata.get("json"):
        return form is Form.NATIVE or bool(json.loads(value) == _doubles(said))
    if not isinstance(kind, str):
        return _same_parts(value, said, kind, form)
    if form is Form.NATIVE:
        return _same_native(value, said)
    return _same_scalar(value, said, kind, form)


def _same_native(value: Any, said: Any) -> bool:
    if isinstance(value, float) and isinstance(said, float) and math.isnan(value):
        return math.isnan(said)
    return isinstance(value, bool) is isinstance(said, bool) and bool(value == said)


def _same_scalar(value: Any, said: Any, kind: str, form: Form) -> bool:
    if kind in ("binary", "date", "timestamp"):
        return form is Form.VALUE or (isinstance(said, str) and _same_text(value, said, kind))
    if kind in ("boolean", "string"):
        return type(value) is type(said) and bool(value == said)
    if isinstance(said, bool) or not isinstance(said, int | Decimal):
        return False
    return bool((float(said) if kind in ("double", "float") else said) == value)


def _same_text(value: Any, said: str, kind: str) -> bool:
    try:
        if kind == "binary":
            return bool(base64.b64decode(said, validate=True) == value)
        if kind == "date":
            return bool(value.isoformat() == said)
        return bool(datetime.fromisoformat(said.upper()) == value)
    except (ValueError, TypeError):  # no base64, no time, or one without a zone
        return False


def _same_parts(value: Any, said: Any, kind: Mapping[str, Any], form: Form) -> bool:
    if kind["type"] == "array":
        return (
            isinstance(said, list)
            and len(value) == len(said)
            and all(
                same(one, other, kind["elementType"], {}, form)
                for one, other in zip(value, said, strict=True)
            )
        )
    if not isinstance(said, dict):
        return False
    if kind["type"] == "struct":
        known = {one["name"]: one for one in kind["fields"]}
        return all(_same_field(one, said, known.get(name), form) for name, one in value.items())
    return value.keys() == said.keys() and all(
        same(one, said[key], kind["valueType"], {}, form) for key, one in value.items()
    )


def _same_field(
    value: Any, said: Mapping[str, Any], column: Mapping[str, Any] | None, form: Form
) -> bool:
    if column is None:
        return value is None
    return same(value, said.get(field_of(column)), column["type"], column["metadata"], form)


def _doubles(said: Any) -> Any:
    match said:
        case Decimal():
            return float(said)
        case dict():
            return {key: _doubles(one) for key, one in said.items()}
        case list():
            return [_doubles(one) for one in said]
    return said


def _shown(value: object) -> str | None:
    return None if value is None else str(value)[:_SHOWN_MAX]
