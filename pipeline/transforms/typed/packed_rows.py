"""Typed rows of several tables in one DataFrame, for tables that Spark itself writes. All rows of a
DataFrame have the same columns, but the columns of a message depend on its table: so they are
packed.

Rule: `TypedRows` makes the rows, as it does where files are written beside Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import StructType

from distributary.pipeline.transforms.decoding.one_by_one import MessageLimits
from distributary.pipeline.transforms.materialize.messages import decoded_bodies, message_rows
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent
from distributary.pipeline.transforms.typed.typed_rows import TypedRows, after_group

#: Some rows of a table in Arrow's form for streams; the table's name and topic as in `TypedPart`.
_PACKED: Final = "name string, topic string, packed binary"
_KINDS: Final[dict[str, pa.DataType]] = {
    "name": pa.string(),
    "topic": pa.string(),
    "packed": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows of typed tables; `topics` has the topics of those tables by their names."""

    packed: DataFrame
    topics: Mapping[str, str]

    @classmethod
    def of(
        cls,
        log: DataFrame,
        events: Sequence[SchemaEvent],
        after: Mapping[str, int],
        first: int,
        limits: MessageLimits,
    ) -> "PackedRows":
        """The typed rows of topic_log in groups after the table's `after`, or after `first` for
        other tables. They are made here, once, and kept while they are referenced."""
        made = partial(_packed, events=events, after=dict(after), first=first, limits=limits)
        packed = message_rows(log).mapInArrow(made, _PACKED).localCheckpoint()
        found = packed.select("name", "topic").distinct().collect()
        return cls(packed, {row.name: row.topic for row in found})

    def rows(self, name: str, kind: StructType) -> DataFrame:
        """The rows of one table, which has these columns."""
        mine = self.packed.where(F.col("name") == name)
        return mine.select("packed").mapInArrow(_unpacked, kind)


def _packed(
    batches: Iterator[pa.RecordBatch],
    events: Sequence[SchemaEvent],
    after: Mapping[str, int],
    first: int,
    limits: MessageLimits,
) -> Iterator[pa.RecordBatch]:
    typing = TypedRows(events)
    for log in batches:
        for part in typing.made(log, decoded_bodies(log, limits)):
            rows = after_group(part, after.get(part.name, first))
            if rows.num_rows:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_batch(rows)
                row = {
                    "name": part.name,
                    "topic": part.topic,
                    "packed": sink.getvalue().to_pybytes(),
                }
                yield pa.RecordBatch.from_pylist([row], schema=pa.schema(_KINDS))


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in cast("list[bytes]", batch.column("packed").to_pylist()):
            with pa.ipc.open_stream(packed) as stream:
                yield from stream
