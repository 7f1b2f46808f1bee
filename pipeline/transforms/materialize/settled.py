"""The bitmaps of `cursors` as rows, so that a join can ask them about many subscriptions at once.

A word is 64 sequences in a row, as the bits of one number: a settled sequence's bit is set. A block
is WORDS such numbers. A message is looked up by a join on subscription and block, and by one bit of
the block, all in the JVM.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

#: Words of a block, a power of two: 1,024 sequences. A lone exception costs a whole block, 128
#: bytes; many in a row cost as little as their bitmap.
WORDS = 16
#: Exceptions that a task may have in memory, as blocks: 300 MB at most, where each lies alone.
EXCEPTIONS_IN_MEMORY = 2_000_000

#: Blocks in one batch of Arrow: 1 MiB and the subscription's name.
_BATCH = 8_192
_WORD_BITS, _BLOCK_BITS = 6, 10

BLOCKS = StructType(
    [
        StructField("subscription", StringType()),
        StructField("block", LongType()),
        StructField("words", ArrayType(LongType(), containsNull=False)),
    ]
)


def blocks(cursors: DataFrame) -> DataFrame:
    """Return settled sequences above the floors: one row per subscription and block with any.

    Cost: the bitmaps alone are read, once. Needs 24 bytes an exception of one subscription in a
    worker."""
    some = cursors.where(F.col("settled_count") > 0)
    return some.select("subscription", "settled").mapInArrow(in_blocks, BLOCKS)


def without_settled(rows: DataFrame, known: DataFrame, settled: int) -> DataFrame:
    """Those rows with a `subscription` and a `sequence` that aren't settled in `known`, which has
    rows of BLOCKS. The columns stay. `settled` is about the number of settled sequences: up to
    EXCEPTIONS_IN_MEMORY they are broadcast to the rows, and above it Spark may shuffle both."""
    known = known.withColumnsRenamed({"subscription": "_of", "block": "_block"})
    if settled <= EXCEPTIONS_IN_MEMORY:
        known = F.broadcast(known)
    sequence = F.col("sequence")
    block = F.shiftright(sequence, _BLOCK_BITS)
    here = (F.col("subscription") == F.col("_of")) & (block == F.col("_block"))
    word = F.get("words", F.shiftright(sequence, _WORD_BITS).bitwiseAND(WORDS - 1).cast("int"))
    bit = F.getbit(word, sequence.bitwiseAND(63).cast("int"))
    return (
        rows.join(known, on=here, how="left")
        .where(F.col("words").isNull() | (bit == 0))
        .select(*rows.columns)
    )


def in_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with the columns `subscription` and `settled`, as rows of BLOCKS."""
    for batch in batches:
        names, bitmaps = batch.column("subscription"), batch.column("settled")
        for name, bitmap in zip(names, bitmaps, strict=True):
            yield from _of_one(name.as_py(), bitmap.as_py())


def _of_one(subscription: str, bitmap: bytes) -> Iterator[pa.RecordBatch]:
    settled = np.asarray(BitMap64.deserialize(bitmap).to_array(), dtype=np.uint64)
    if not len(settled):
        return
    word = (settled >> np.uint64(_WORD_BITS)).astype(np.int64)
    starts = np.flatnonzero(np.diff(word, prepend=-1))
    bit = np.left_shift(np.uint64(1), settled & np.uint64(63))
    bits, word = np.bitwise_or.reduceat(bit, starts).view(np.int64), word[starts]
    block, nth = np.unique(word // WORDS, return_inverse=True)
    words = np.zeros((len(block), WORDS), np.int64)
    words[nth, word % WORDS] = bits
    for at in range(0, len(block), _BATCH):
        part = block[at : at + _BATCH]
        ends = cast("Any", pa.array(np.arange(len(part) + 1, dtype=np.int32) * WORDS))
        values = cast("Any", pa.array(words[at : at + _BATCH].ravel()))
        columns: list[pa.Array[Any]] = [
            pa.array([subscription] * len(part), pa.string()),
            pa.array(part),
            cast("pa.Array[Any]", pa.ListArray.from_arrays(ends, values)),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=BLOCKS.names)
