"""The deliveries in `acks`: one row for each time that a consumer was handed a message.

Rule 1: a settlement without `delivered_at` is no delivery: its message expired, was dropped or
        dead-lettered while it wasn't in flight, or was never owed (`local`, `redriven`).
Rule 2: subscription, sequence, consumer and `delivered_at` identify a delivery. The last failed
        delivery of a message has two rows: `modified` when it ended, `dead_lettered` when its copy
        was durable. They become one row, with the time of the first and the outcome of the second.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.spark_schema import ACKS

#: Columns that identify a delivery.
KEY = ("subscription", "sequence", "consumer", "delivered_at")
#: The outcomes of one delivery that has two rows.
PAIR = (Outcome.MODIFIED.value, Outcome.DEAD_LETTERED.value)


def deliveries(tables: Tables) -> DataFrame:
    """The columns of `acks`, one row per delivery. Cost: one pass over `acks`, and a grouping of
    failed deliveries."""
    return each_once(tables.acks)


def each_once(acks: DataFrame) -> DataFrame:
    """Rows of `acks` in, deliveries out. Both rows of a pair must be among them."""
    handed = acks.where(F.col("delivered_at").isNotNull())
    paired = F.col("outcome").isin(*PAIR)
    failed = (
        handed.where(paired)
        .groupBy(*KEY)
        .agg(
            F.first("topic").alias("topic"),
            F.max_by("outcome", "final").alias("outcome"),
            F.max("final").alias("final"),
            F.min("delivery_count").alias("delivery_count"),
            F.min("settled_at").alias("settled_at"),
            F.max("floor").alias("floor"),
            F.max("group").alias("group"),
            F.min("day").alias("day"),
        )
    )
    return handed.where(~paired).unionByName(failed).select(*ACKS.names)
