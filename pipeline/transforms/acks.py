"""Settlement rows of `topic_log`, one row per delivery, for the table `acks`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from pipeline.outcome import Outcome
from pipeline.transforms.schema import ACKS

#: Settlements with these outcomes only say that a message wasn't for the subscription.
NEVER_OWED = (Outcome.LOCAL.value, Outcome.REDRIVEN.value)


def acks(log: DataFrame) -> DataFrame:
    """`topic_log` in, `acks` out: who had which message, when, and what became of it.

    What a subscription was never owed, by no-local or because it was published for another one, is
    no delivery. What ended without a consumer, such as by its expiry, has none here, nor a time of
    delivery."""
    nobody = F.col("consumer") == ""
    return (
        log.where((F.col("record") == "settlement") & ~F.col("outcome").isin(*NEVER_OWED))
        .withColumn("sequence", F.explode("sequences"))
        .withColumn("delivered_at", F.when(~nobody, F.col("delivered_at")))
        .withColumn("consumer", F.when(~nobody, F.col("consumer")))
        .withColumn("day", _utc_day("settled_at"))
        .select(*ACKS.names)
    )


def _utc_day(column: str) -> Column:
    """The UTC day of a timestamp, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_micros(column) / 86_400_000_000).cast("int"))
