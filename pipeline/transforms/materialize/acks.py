"""Settlement rows of `topic_log`, one row per message and settlement, for the table `acks`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.transforms.schema.spark_schema import ACKS

#: Settlements with these outcomes only say that a message wasn't for the subscription.
NEVER_OWED = (Outcome.LOCAL.value, Outcome.FORBIDDEN.value, Outcome.REDRIVEN.value)


def acks(log: DataFrame) -> DataFrame:
    """`topic_log` in, `acks` out: which consumer had which message, when, and its outcome.

    A message that ended without a consumer, such as by its expiry, has no consumer here, nor a
    time of delivery. One that was never owed, by no-local or because it was published for another
    subscription, is no delivery, and has no time of one either."""
    nobody = F.col("consumer") == ""
    delivered = ~nobody & ~F.col("outcome").isin(*NEVER_OWED)
    return (
        log.where(F.col("record") == "settlement")
        .withColumn("sequence", F.explode("sequences"))
        .withColumn("delivered_at", F.when(delivered, F.col("delivered_at")))
        .withColumn("consumer", F.when(~nobody, F.col("consumer")))
        .withColumn("day", _utc_day("settled_at"))
        .select(*ACKS.names)
    )


def _utc_day(column: str) -> Column:
    """The UTC day of a timestamp, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_micros(column) / 86_400_000_000).cast("int"))
