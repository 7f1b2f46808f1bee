"""Settlement rows of `topic_log`, one row per message and settlement, for the table `acks`."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.transforms.schema.spark_schema import ACKS, arrow_schema

#: Settlements with these outcomes only say that a message wasn't for the subscription.
NEVER_OWED = (Outcome.LOCAL.value, Outcome.FORBIDDEN.value, Outcome.REDRIVEN.value)

#: Columns of a settlement that are read.
READ = (
    "subscription",
    "topic",
    "consumer",
    "outcome",
    "final",
    "delivery_count",
    "delivered_at",
    "settled_at",
    "sequences",
    "floor",
    "group",
)


def acks(log: DataFrame) -> DataFrame:
    """`topic_log` in, `acks` out: consumer, message, times and outcome of each settlement."""
    return log.where(F.col("record") == "settlement").select(*READ).mapInArrow(acked, ACKS)


def acked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow batches with the columns READ, as those of ACKS.

    A message that was settled without a consumer, such as by its expiry, has neither a consumer nor
    a time of delivery. A message that was never owed (no-local, or published for another
    subscription) was not delivered, and has no time of delivery."""
    kind = arrow_schema(ACKS)
    never_owed = pa.array(NEVER_OWED)
    for batch in batches:
        sequences = batch.column("sequences")
        nobody = pc.equal(batch.column("consumer"), pa.scalar(""))
        undelivered = pc.or_(nobody, pc.is_in(batch.column("outcome"), value_set=never_owed))
        columns = {name: batch.column(name) for name in READ} | {
            "consumer": pc.if_else(nobody, None, batch.column("consumer")),
            "delivered_at": pc.if_else(undelivered, None, batch.column("delivered_at")),
            "day": batch.column("settled_at").cast(pa.timestamp("us", "UTC")).cast(pa.date32()),
        }
        owners = pc.list_parent_indices(sequences)
        rows = {name: columns[name].take(owners) for name in kind.names if name != "sequence"} | {
            "sequence": pc.list_flatten(sequences)
        }
        yield pa.RecordBatch.from_arrays(
            [rows[field.name].cast(field.type) for field in kind], schema=kind
        )
