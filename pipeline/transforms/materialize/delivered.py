"""Deliveries to a Spark query: columns of `messages`, and the delivery's failed attempts.

This code runs on Arrow batches in the process that reads the bytes, before Spark sees them.
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector import matching
from distributary.pipeline.selector.matching import Selections
from distributary.pipeline.sequences.range_text import sequences_of
from distributary.pipeline.transforms.materialize.messages import decoded
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES

ATTEMPTS = StructField(
    "attempts", IntegerType(), metadata={"comment": "failed attempts before this delivery"}
)
#: Columns of a decoded delivery: those of `messages`, and the attempts.
DELIVERED = StructType([*MESSAGES.fields, ATTEMPTS])
#: Columns of a raw delivery, as in `topic_log`: the bytes, and the fields that the gateway read.
DELIVERED_RAW = StructType(
    [
        *(MESSAGES[name] for name in COPIED),
        StructField("message", BinaryType(), metadata={"comment": "all its bytes as they came"}),
        ATTEMPTS,
    ]
)
#: Rows that are read, some at a time.
Batches: TypeAlias = Iterator[pa.RecordBatch]


def delivered(batches: Batches, failed: Mapping[int, str], *, raw: bool) -> Batches:
    """Batches with the columns COPIED and `message`, as DELIVERED or, `raw`, as DELIVERED_RAW.

    `failed` has the messages with failed attempts: number of attempts -> runs as text.
    """
    schema = to_arrow_schema(DELIVERED_RAW if raw else DELIVERED, timezone="UTC")
    for batch in batches if raw else decoded(batches):
        columns: list[pa.Array[Any]] = [
            *(batch.column(name).cast(schema.field(name).type) for name in schema.names[:-1]),
            attempts_of(batch, failed),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def attempts_of(batch: pa.RecordBatch, failed: Mapping[int, str]) -> "pa.Array[Any]":
    """The failed attempts of each message of a batch."""
    counts = np.zeros(batch.num_rows, np.int32)
    if failed:
        sequences = batch.column("sequence").to_numpy()
        for failures, text in failed.items():
            counts[np.isin(sequences, np.asarray(sequences_of(text), np.int64))] = failures
    return pa.array(counts)


def selected(batches: Batches, topic: str, selector: str | None) -> Batches:
    """The messages that a subscription's selector selects, by the gateway's own evaluation."""
    if selector is None:
        yield from batches
        return
    definition = Definition(topic, shared=True, selector=selector)
    selections = Selections()
    selections.join(definition)
    for batch in batches:
        if batch.num_rows:
            yield batch.filter(pa.array(_mask(selections, definition, batch)))


def _mask(
    selections: Selections, definition: Definition, batch: pa.RecordBatch
) -> "np.ndarray[Any, Any]":
    found = np.fromiter(matching.selected(selections, definition, _batch(batch)), np.int64)
    return np.isin(batch.column("sequence").to_numpy(), found)


def _batch(batch: pa.RecordBatch) -> RecordBatch:
    """The messages of a batch in the form that selectors read: one blob, and its offsets."""
    data = cast("list[bytes]", batch.column("message").to_pylist())
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum([len(one) for one in data], out=offsets[1:])
    listed = array("q", batch.column("sequence").to_numpy().tobytes())
    return RecordBatch(listed[0], len(listed), b"".join(data), offsets.tobytes(), listed)
