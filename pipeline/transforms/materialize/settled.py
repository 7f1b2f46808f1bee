"""The bitmaps of `cursors` as rows, so that a join can ask them about many subscriptions at once.

A word is 64 sequences in a row: what is settled of them are the bits of one number. To ask about a
message is a join by subscription and word and a look at one bit, all in the JVM.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.types import LongType, StringType, StructField, StructType

#: Words in one batch of Arrow: 1.5 MiB and the subscription's name.
_BATCH = 65_536

WORDS = StructType(
    [
        StructField("subscription", StringType()),
        StructField("word", LongType()),
        StructField("bits", LongType()),
    ]
)


def words(cursors: DataFrame) -> DataFrame:
    """What is settled above the floors: one row per subscription and word that has any.

    Cost: the bitmaps alone are read, once; as rows at most one per exception, one in 64 where they
    lie close together. Needs 24 bytes an exception of one subscription in a worker."""
    some = cursors.where(F.col("settled_count") > 0)
    return some.select("subscription", "settled").mapInArrow(_words, WORDS)


def word_of(sequence: Column) -> Column:
    """The word that a sequence is in."""
    return F.shiftright(sequence, 6)


def without_settled(rows: DataFrame, cursors: DataFrame) -> DataFrame:
    """Of rows with a `subscription` and a `sequence`, those that its cursor doesn't name as
    settled. Columns as before."""
    known = words(cursors).withColumnsRenamed({"subscription": "_of", "word": "_word"})
    here = (F.col("subscription") == F.col("_of")) & (word_of(F.col("sequence")) == F.col("_word"))
    bit = F.getbit(F.col("bits"), F.col("sequence").bitwiseAND(63).cast("int"))
    return (
        rows.join(known, on=here, how="left")
        .where(F.col("bits").isNull() | (bit == 0))
        .select(*rows.columns)
    )


def _words(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names, bitmaps = batch.column("subscription"), batch.column("settled")
        for name, bitmap in zip(names, bitmaps, strict=True):
            yield from _of_one(name.as_py(), bitmap.as_py())


def _of_one(subscription: str, bitmap: bytes) -> Iterator[pa.RecordBatch]:
    settled = np.asarray(BitMap64.deserialize(bitmap).to_array(), dtype=np.uint64)
    if not len(settled):
        return
    word = (settled >> np.uint64(6)).astype(np.int64)
    starts = np.flatnonzero(np.diff(word, prepend=-1))
    bit = np.left_shift(np.uint64(1), settled & np.uint64(63))
    bits = np.bitwise_or.reduceat(bit, starts).view(np.int64)
    for at in range(0, len(starts), _BATCH):
        part = slice(at, at + _BATCH)
        columns: list[pa.Array[Any]] = [
            pa.array([subscription] * len(starts[part]), pa.string()),
            pa.array(word[starts][part]),
            pa.array(bits[part]),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=WORDS.names)
