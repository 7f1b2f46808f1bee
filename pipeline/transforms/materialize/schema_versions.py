"""Events of `topic_log`, for the table `schemas`: each version of each schema, and each drop."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.transforms.materialize.subscriptions import SCHEMA
from distributary.pipeline.transforms.schema.spark_schema import SCHEMA_VERSIONS

#: What is in the event's text; everything else is a column of the log.
_IN_TEXT = {
    "version": "bigint",
    "format": "string",
    "definition": "string",
    "message": "string",
    "compatibility": "string",
    "validate": "string",
    "framing": "string",
    "registry_id": "string",
    "cloud_events": "boolean",
    "columns": "string",
}


def schema_versions(log: DataFrame) -> DataFrame:
    """`topic_log` in, `schemas` out. The text is `pipeline.schemas.schema_text`'s: a drop has none
    of these."""
    said = {
        name: F.get_json_object("policy", f"$.{name}").cast(kind) for name, kind in _IN_TEXT.items()
    }
    return (
        log.where((F.col("record") == "subscription") & (F.col("event") == SCHEMA))
        .withColumns(said)
        .withColumn("event", F.when(F.col("version").isNull(), "dropped").otherwise("set"))
        .select(*SCHEMA_VERSIONS.names)
    )
