"""The columns of `topic_log` (`pipeline.topic_log_columns`) as Arrow types."""

from typing import Final

import pyarrow as pa

from distributary.pipeline.topic_log_columns import (
    ADDED,
    COLUMNS,
    CONFIGURATION,
    FORMAT,
    FORMATS,
    MESSAGE,
    PARTITIONS,
    SETTLEMENT,
    SUBSCRIPTION,
)

__all__ = [
    "ADDED",
    "COLUMNS",
    "CONFIGURATION",
    "FILES",
    "FORMAT",
    "FORMER_SCHEMAS",
    "MESSAGE",
    "PARTITIONS",
    "ROWS",
    "SCHEMA",
    "SETTLEMENT",
    "SUBSCRIPTION",
    "TIMESTAMP",
]

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "date": pa.date32(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "byte": pa.int8(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": TIMESTAMP,
    "array<long>": pa.list_(pa.field("element", pa.int64())),
}

SCHEMA: Final[pa.Schema] = pa.schema([pa.field(c.name, _TYPES[c.type]) for c in COLUMNS])
#: The schemas of former formats, the first one first.
FORMER_SCHEMAS: Final[tuple[pa.Schema, ...]] = tuple(
    pa.schema([SCHEMA.field(name) for name in names]) for names in FORMATS[:-1]
)

#: The columns of each record; all others are null in its rows, and absent from its files.
_OWN: Final = {
    MESSAGE: "topic sequence published_at durable priority expires_at message deliver_at",
    SETTLEMENT: (
        "topic subscription consumer outcome final delivery_count delivered_at settled_at "
        "sequences floor"
    ),
    SUBSCRIPTION: (
        "topic subscription floor event shared selector no_local recorded_at paused policy "
        "origin created_by dropped by message"
    ),
}
#: The columns of each record's rows in memory: the day is the partition of a row.
ROWS: Final[dict[str, pa.Schema]] = {
    record: pa.schema([SCHEMA.field(name) for name in ["day", "group", *names.split()]])
    for record, names in _OWN.items()
}
#: The columns of each record's data files.
FILES: Final[dict[str, pa.Schema]] = {
    record: pa.schema([f for f in kind if f.name not in PARTITIONS])
    for record, kind in ROWS.items()
}
