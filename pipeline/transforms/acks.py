"""Settlement rows of `topic_log`, one row per delivery, for the table `acks`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from pipeline.transforms.schema import ACKS


def acks(log: DataFrame) -> DataFrame:
    """`topic_log` in, `acks` out: who had which message, when, and what became of it.

    What no-local kept from a subscription was never delivered."""
    return (
        log.where((F.col("record") == "settlement") & (F.col("outcome") != "local"))
        .withColumn("sequence", F.explode("sequences"))
        .withColumn("day", _utc_day("settled_at"))
        .select(*ACKS.names)
    )


def _utc_day(column: str) -> Column:
    """The UTC day of a timestamp, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_micros(column) / 86_400_000_000).cast("int"))
