"""Events of `topic_log`, for the table `subscriptions`: the life of each definition."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.subscription import (
    BEGINNINGS,
    NOT_OF_SUBSCRIPTIONS,
    SubscriptionEvent,
)
from distributary.pipeline.transforms.schema.spark_schema import SUBSCRIPTIONS, arrow_schema

#: The event of schemas.
SCHEMA = SubscriptionEvent.SCHEMA.value


def subscriptions(log: DataFrame) -> DataFrame:
    """`topic_log` in, `subscriptions` out: one row per event of a subscription."""
    there = [name for name in SUBSCRIPTIONS.names if name in log.columns]
    said = log.where(F.col("record") == "subscription").select(*there)
    return said.mapInArrow(told, SUBSCRIPTIONS)


def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow batches with some columns of SUBSCRIPTIONS, completed to all of them. A column that an
    older log lacks is null, `paused` is false.

    Only an event that begins an incarnation has a floor: others leave the owed messages as they
    are.
    """
    kind = arrow_schema(SUBSCRIPTIONS)
    others = pa.array(sorted(event.value for event in NOT_OF_SUBSCRIPTIONS))
    beginnings = pa.array([event.value for event in BEGINNINGS])
    for every in batches:
        batch = every.filter(pc.invert(pc.is_in(every.column("event"), value_set=others)))
        rows = {
            field.name: batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in kind
        }
        begins = pc.is_in(rows["event"], value_set=beginnings)
        rows["floor"] = pc.if_else(begins, rows["floor"], None)
        rows["paused"] = rows["paused"].fill_null(False)
        yield pa.RecordBatch.from_arrays([rows[name] for name in kind.names], schema=kind)
