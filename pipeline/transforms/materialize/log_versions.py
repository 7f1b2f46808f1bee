"""Entries of the log of `topic_log`, for the table `log_versions`: a version's last group."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.transforms.schema.spark_schema import LOG_VERSIONS

#: The appId of the txn in which a commit of topic_log names its last group.
JOURNAL = "journal"


def log_versions(entries: DataFrame) -> DataFrame:
    """The lines of entries (`_delta_log/*.json`, read as text) in, `log_versions` out.

    A version without groups of its own, such as one that merged files, has the last group of the
    one before. Versions before the first that says its group are left out.
    """
    name = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -1)
    said = entries.select(
        F.substring_index(name, ".", 1).cast("long").alias("log_version"),
        F.get_json_object("value", "$.commitInfo.timestamp").cast("long").alias("made_at"),
        F.when(
            F.get_json_object("value", "$.txn.appId") == JOURNAL,
            F.get_json_object("value", "$.txn.version").cast("long"),
        ).alias("group"),
    )
    whole = said.groupBy("log_version").agg(
        F.max("made_at").alias("made_at"), F.max("group").alias("group")
    )
    before = Window.orderBy("log_version").rowsBetween(Window.unboundedPreceding, 0)
    return (
        whole.withColumn("group", F.last("group", ignorenulls=True).over(before))
        .where(F.col("group").isNotNull())
        .withColumn("committed_at", F.timestamp_millis("made_at"))
        .select(*LOG_VERSIONS.names)
    )
