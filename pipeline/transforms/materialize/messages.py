"""Message rows of `topic_log`, decoded into the table `messages`."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.transforms.decoding.blob import blob_of
from distributary.pipeline.transforms.decoding.in_columns import decoded_in_columns
from distributary.pipeline.transforms.decoding.one_by_one import (
    LIMITS,
    PLAIN_BODY,
    MessageLimits,
    decoded_one_by_one,
)
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES

#: Fewer messages aren't worth the steps of a walk, which cost the same for one and for hundreds.
WALKED_MIN = 32


def messages(log: DataFrame, limits: MessageLimits = LIMITS) -> DataFrame:
    """`topic_log` in, `messages` out. A message that can't be decoded is a row with `error`."""
    made = message_rows(log).mapInArrow(partial(decoded, limits=limits), MESSAGES)
    return made.select(*MESSAGES.names)


def message_rows(log: DataFrame) -> DataFrame:
    """Return the message rows of `topic_log` to decode: the columns COPIED and `message`."""
    if "deliver_at" not in log.columns:  # no gateway with delays has opened this log yet
        log = log.withColumn("deliver_at", F.lit(None).cast("timestamp"))
    return log.where(F.col("record") == "message").select(*COPIED, "message")


def decoded(
    batches: Iterator[pa.RecordBatch], limits: MessageLimits = LIMITS
) -> Iterator[pa.RecordBatch]:
    """Arrow batches with the columns COPIED and `message`, decoded to those of MESSAGES."""
    return (decoded_bodies(batch, limits).rows for batch in batches)


class Decoded(NamedTuple):
    """Rows of `messages`, and whether the body of each stands in it unchanged (PLAIN_BODY)."""

    rows: pa.RecordBatch
    plain_body: "pa.Array[Any]"


def decoded_bodies(batch: pa.RecordBatch, limits: MessageLimits = LIMITS) -> Decoded:
    """One batch with the columns COPIED and `message`, decoded."""
    columns = {name: batch.column(name) for name in COPIED}
    columns |= decoded_columns(batch.column("message"), limits)
    rows = pa.RecordBatch.from_pydict({name: columns[name] for name in MESSAGES.names})
    return Decoded(rows, columns[PLAIN_BODY])


def decoded_columns(
    messages: "pa.Array[Any]", limits: MessageLimits = LIMITS
) -> "dict[str, pa.Array[Any]]":
    """The columns of MESSAGES that are in the messages themselves, and PLAIN_BODY. Messages that
    the walk can't decode are decoded one by one, and keep their places."""
    if len(messages) < WALKED_MIN:
        return decoded_one_by_one(messages, limits)
    columns, fallback = decoded_in_columns(blob_of(messages), limits)
    if not fallback.any():
        return columns
    odd = decoded_one_by_one(messages.filter(pa.array(fallback)), limits)
    places = np.arange(len(messages))
    places[fallback] = len(messages) + np.arange(np.count_nonzero(fallback))
    return {
        name: pa.concat_arrays([column, odd[name]]).take(places) for name, column in columns.items()
    }
