"""Events of `topic_log`, for the table `subscriptions`: the life of each definition."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.model.subscription import BEGINNINGS, SubscriptionEvent
from distributary.pipeline.transforms.schema.spark_schema import SUBSCRIPTIONS

#: Columns that came later than the log: null in one that no gateway has opened since.
_LATER = {
    "paused": "boolean",
    "policy": "string",
    "origin": "string",
    "created_by": "string",
    "dropped": "bigint",
    "by": "string",
}


SCHEMA = SubscriptionEvent.SCHEMA.value


def subscriptions(log: DataFrame) -> DataFrame:
    """`topic_log` in, `subscriptions` out: one row per event but those of schemas, with all that
    it says.

    Only an event that begins an incarnation says what is owed from then on, so only it has a floor.
    """
    for name, kind in _LATER.items():
        if name not in log.columns:
            log = log.withColumn(name, F.lit(None).cast(kind))
    begins = F.col("event").isin(*(event.value for event in BEGINNINGS))
    return (
        log.where((F.col("record") == "subscription") & (F.col("event") != SCHEMA))
        .withColumn("floor", F.when(begins, F.col("floor")))
        .withColumn("paused", F.coalesce("paused", F.lit(False)))
        .select(*SUBSCRIPTIONS.names)
    )
