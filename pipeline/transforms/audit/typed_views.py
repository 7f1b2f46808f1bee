"""The views that the check `typed` asks beside the others: `reigns`, `typed`, `rejected` and
`typed_values`. On an object store there are no typed tables: there nothing is judged."""

from collections.abc import Sequence
from functools import partial, reduce
from itertools import groupby

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.audit.audit_checks import read
from distributary.pipeline.transforms.audit.plain_values import (
    BYTES,
    DIFFERENCES,
    TEXT,
    Version,
    differences,
)
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.spark_schema import REJECTED
from distributary.pipeline.transforms.schema.topic_folders import FOLDER, folder_name

_REIGNS = (
    "topic string, since long, until long, "
    "said struct<version: long, columns: string, plain: boolean>"
)
_TYPED = "sequence long, topic string, `table` string, schema_version long"


def register_typed(tables: Tables, messages: DataFrame, last_group: int) -> None:
    """Make the views, in the session of the tables; `messages` are those that are judged, with
    their bodies, and the view `messages` is there."""
    spark = tables.spark
    found = _reigns(tables, last_group)
    spark.createDataFrame(found, _REIGNS).createOrReplaceTempView("reigns")
    rows, values = list[DataFrame](), list[DataFrame]()
    bodies = messages.select(
        F.col("sequence").alias("_sequence"),
        "topic",
        F.col("body_text").alias(TEXT),
        F.col("body_bytes").alias(BYTES),
    )
    for topic, reigns in groupby(found, lambda row: str(row.topic)):
        versions = list(reigns)
        # A version has a table of its own at most.
        names = [f"{FOLDER}/{folder_name(topic, nth + 1)}" for nth in range(len(versions))]
        for name, table in tables.some(names).items():
            rows.append(_typed(table, topic, name))
            values.append(_values(table, bodies, topic, name, versions))
    _together(spark, rows, _TYPED).createOrReplaceTempView("typed")
    _together(spark, values, DIFFERENCES).createOrReplaceTempView("typed_values")
    rejected = tables.rejected if found else spark.createDataFrame([], REJECTED)
    rejected.createOrReplaceTempView("rejected")


def _reigns(tables: Tables, last_group: int) -> list[Row]:
    if "://" in tables.folder:
        return []
    try:
        said = tables.schemas.where(F.col("group") <= last_group)
    except InvalidRequest:  # an older release wrote these tables
        return []
    if said.isEmpty():
        return []
    said.createOrReplaceTempView("schemas")
    return tables.spark.sql(read("views", "reigns")).orderBy("topic", "since").collect()


def _typed(table: DataFrame, topic: str, name: str) -> DataFrame:
    return table.select(
        F.col("_sequence").alias("sequence"),
        F.lit(topic).alias("topic"),
        F.lit(name).alias("table"),
        F.col("_schema_version").alias("schema_version"),
    )


def _values(
    table: DataFrame, bodies: DataFrame, topic: str, name: str, reigns: Sequence[Row]
) -> DataFrame:
    versions = [
        Version.of(row.since, row.until, row.said.columns, plain=row.said.plain) for row in reigns
    ]
    mine = bodies.where(F.col("topic") == topic).drop("topic")
    told = partial(differences, table=name, topic=topic, versions=versions)
    judged = table.drop("_published_at", "_message_id", "_properties", "_schema_version")
    return judged.join(mine, on="_sequence", how="inner").mapInArrow(told, DIFFERENCES)


def _together(spark: SparkSession, some: Sequence[DataFrame], kind: str) -> DataFrame:
    if not some:
        return spark.createDataFrame([], kind)
    return reduce(DataFrame.unionByName, some)
