"""Time and group of each message's publication, known to every task, so that a million settlements
needn't be shuffled to their messages.

A block is SEQUENCES sequences in a row: one row with an array of times and one of groups, 16 bytes
a message. A sequence is looked up by a join on its block, and in the block's arrays.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

#: Sequences of a block, a power of two. Tasks have messages of neighbouring sequences, so few
#: places of a block are empty.
SEQUENCES = 256
#: Messages that each task may know: 16 bytes each, 160 MB.
MESSAGES_IN_MEMORY = 10_000_000

_BLOCK_BITS = 8
#: Where a block has no message; no time is that early.
NO_MESSAGE = -(2**63)

BLOCKS = StructType(
    [
        StructField("block", LongType()),
        StructField("times_us", ArrayType(LongType(), containsNull=False)),
        StructField("groups", ArrayType(LongType(), containsNull=False)),
    ]
)


def with_publication(rows: DataFrame, messages: DataFrame, count: int) -> DataFrame:
    """Those rows whose `sequence` is in `messages`, with the message's time `published_us` in
    microseconds, and its group `published_in`.

    `count` is about the number of messages: up to MESSAGES_IN_MEMORY they are broadcast to the
    rows, and above it Spark may shuffle both.
    """
    said = messages.select("sequence", F.unix_micros("published_at").alias("at"), "group")
    known = said.mapInArrow(in_blocks, BLOCKS)
    if count <= MESSAGES_IN_MEMORY:
        known = F.broadcast(known)
    mine = (F.shiftright("sequence", _BLOCK_BITS) == F.col("block")) & (
        _at("times_us") != NO_MESSAGE
    )
    return rows.join(known, on=mine, how="inner").select(
        *rows.columns, _at("times_us").alias("published_us"), _at("groups").alias("published_in")
    )


def _at(name: str) -> Column:
    return F.get(name, F.col("sequence").bitwiseAND(SEQUENCES - 1).cast("int"))


def in_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with `sequence`, `at` and `group`, as rows of BLOCKS. A whole partition is read at
    once, so that the messages of one block make one row."""
    read = list(batches)
    if not read:
        return
    rows = pa.Table.from_batches(read)
    sequences, times, groups = (rows.column(name).to_numpy() for name in rows.column_names)
    block, nth = np.unique(sequences >> _BLOCK_BITS, return_inverse=True)
    ends = cast("Any", pa.array(np.arange(len(block) + 1, dtype=np.int32) * SEQUENCES))
    columns: list[pa.Array[Any]] = [pa.array(block)]
    for values in (times, groups):
        laid = np.full((len(block), SEQUENCES), NO_MESSAGE)
        laid[nth, sequences & (SEQUENCES - 1)] = values
        columns.append(pa.ListArray.from_arrays(ends, cast("Any", pa.array(laid.ravel()))))
    yield pa.RecordBatch.from_arrays(columns, names=BLOCKS.names)
