"""Rows of typed tables against the bodies that they were made of, read by Python's own parser.

It uses none of the code that makes the rows: what the columns of a version are called and which
types they have stands in the table `schemas`.
"""

import base64
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

#: What differs, a row each.
DIFFERENCES: Final = (
    "sequence long, topic string, `table` string, column string, value string, in_body string"
)
_NAMES: Final = ("sequence", "topic", "table", "column", "value", "in_body")
_KIND: Final = pa.schema(
    [pa.field(name, pa.int64() if name == "sequence" else pa.string()) for name in _NAMES]
)
#: Columns of every typed table that aren't the schema's.
OWN: Final = ("_sequence", "_published_at", "_message_id", "_properties", "_schema_version")
#: The body of a row beside it, under names that no schema has by chance.
TEXT, BYTES = "__text__", "__bytes__"
#: Characters of a value that a difference shows.
_SHOWN_MAX: Final = 200
#: The type of a column in a version's own words: Spark's, as JSON.
Kind: TypeAlias = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """One version over a topic, from a sequence on: its columns, by their names in the table; None
    if its bodies aren't judged."""

    since: int
    until: int | None
    columns: Mapping[str, Mapping[str, Any]] | None

    @classmethod
    def of(cls, since: int, until: int | None, columns: str, *, plain: bool) -> "Version":
        """By what the table `schemas` says of it."""
        fields = json.loads(columns)["fields"] if plain else []
        return cls(since, until, {_own(one["name"]): one for one in fields} if plain else None)


def _own(name: str) -> str:
    """A field that is called as one of our columns has `_` behind its name."""
    while name.lower() in OWN:
        name += "_"
    return name


def differences(
    batches: Iterable[pa.RecordBatch], table: str, topic: str, versions: list[Version]
) -> Iterator[pa.RecordBatch]:
    """Rows of a typed table with TEXT and BYTES of their bodies: what isn't in the body so.
    `versions` are in the order of their sequences."""
    starts = [one.since for one in versions]
    for batch in batches:
        found = []
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            at = bisect_right(starts, row["_sequence"]) - 1
            columns = versions[at].columns if at >= 0 else None
            if columns is None or (row[BYTES] is None and row[TEXT] is None):
                continue
            for name, value, said in _differing(row, columns):
                line = (row["_sequence"], topic, table, name, _shown(value), _shown(said))
                found.append(dict(zip(_NAMES, line, strict=True)))
        yield pa.RecordBatch.from_pylist(found, schema=_KIND)


def _differing(
    row: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, object, object]]:
    binary = row[BYTES]
    try:
        body = json.loads(row[TEXT] if binary is None else binary, parse_float=Decimal)
    except ValueError as error:
        yield "", None, str(error)
        return
    whole = set(columns) == {"value"} and not (isinstance(body, dict) and "value" in body)
    for name, value in row.items():
        if name in (*OWN, TEXT, BYTES):
            continue
        column = columns.get(name)
        if column is None:
            if value is not None:
                yield name, value, None
            continue
        said = body if whole else body.get(field_of(column)) if isinstance(body, dict) else body
        if not same(value, said, column["type"], column["metadata"], binary):
            yield name, value, said


def field_of(column: Mapping[str, Any]) -> str:
    """What a column is called in a body."""
    found: str = column["metadata"].get("field", column["name"])
    return found


def same(
    value: Any, said: Any, kind: Kind, metadata: Mapping[str, Any], binary: bytes | None
) -> bool:
    """Whether a column has what the body says. A body that is no bytes may be one of AMQP's maps,
    whose times and bytes have other forms: these aren't compared then."""
    if value is None or said is None:
        return value is said
    if metadata.get("json"):
        return bool(json.loads(value) == _doubles(said))
    if not isinstance(kind, str):
        return _same_parts(value, said, kind, binary)
    return _same_scalar(value, said, kind, binary)


def _same_scalar(value: Any, said: Any, kind: str, binary: bytes | None) -> bool:
    if kind in ("binary", "date", "timestamp"):
        if binary is None:
            return True
        if kind == "binary":
            return bool(base64.b64decode(said) == value)
        if kind == "date":
            return bool(value.isoformat() == said)
        return bool(datetime.fromisoformat(said.upper()) == value)
    if kind in ("boolean", "string"):
        return type(value) is type(said) and bool(value == said)
    if isinstance(said, bool) or not isinstance(said, int | Decimal):
        return False
    return bool((float(said) if kind in ("double", "float") else said) == value)


def _same_parts(value: Any, said: Any, kind: Mapping[str, Any], binary: bytes | None) -> bool:
    match kind["type"]:
        case "struct":
            known = {one["name"]: one for one in kind["fields"]}
            return all(
                _same_field(one, said, known.get(name), binary) for name, one in value.items()
            )
        case "array":
            return len(value) == len(said) and all(
                same(one, other, kind["elementType"], {}, binary)
                for one, other in zip(value, said, strict=True)
            )
    return value.keys() == said.keys() and all(
        same(one, said[key], kind["valueType"], {}, binary) for key, one in value.items()
    )


def _same_field(
    value: Any, said: Mapping[str, Any], column: Mapping[str, Any] | None, binary: bytes | None
) -> bool:
    if column is None:
        return value is None
    return same(value, said.get(field_of(column)), column["type"], column["metadata"], binary)


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
