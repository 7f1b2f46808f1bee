"""The views that only the check `typed` reads: `reigns`, `typed`, `rejected` and
`typed_values`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import StructType

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.audit.audit_checks import read
from distributary.pipeline.transforms.audit.plain_bodies import BodyFormat
from distributary.pipeline.transforms.audit.plain_values import (
    BYTES,
    CONTENT_TYPE,
    DIFFERENCES,
    TEXT,
    Version,
    differences,
)
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.spark_schema import REJECTED, SCHEMA_VERSIONS
from distributary.pipeline.transforms.schema.topic_folders import folder_name
from distributary.pipeline.transforms.views.file_sums import count_of, within_reach

_REIGNS = (
    "topic string, since long, until long, "
    "said struct<version: long, columns: string, judged: boolean, source: string, format: string, "
    "definition: string, message: string, confluent: boolean>"
)
#: Columns that are read of `schemas`: no times, whose zone Python may not know.
_SAID = StructType([one for one in SCHEMA_VERSIONS if one.name != "recorded_at"])
_TYPED = "sequence long, topic string, `table` string, schema_version long"


def register_typed(tables: Tables, messages: DataFrame, last_group: int) -> None:
    """Make the views in the session of the tables, which has the view `messages`. The argument
    `messages` has the judged messages with their bodies."""
    spark = tables.spark
    schemas = _schemas(tables)
    found = _reigns(spark, [row for row in schemas if row.group <= last_group])
    spark.createDataFrame(found, _REIGNS).createOrReplaceTempView("reigns")
    rows, values = list[DataFrame](), list[DataFrame]()
    bodies = messages.select(
        F.col("sequence").alias("_sequence"),
        "topic",
        F.col("body_text").alias(TEXT),
        F.col("body_bytes").alias(BYTES),
        F.col("content_type").alias(CONTENT_TYPE),
    )
    writers = _writers(schemas)
    for topic, reigns in groupby(found, lambda row: str(row.topic)):
        versions = list(reigns)
        # A version begins one table at most.
        names = [f"{FOLDER}/{folder_name(topic, nth + 1)}" for nth in range(len(versions))]
        for name, table in tables.some(names).items():
            rows.append(_typed(table, topic, name))
            judged = [_version(row, writers) for row in versions]
            values.append(_values(table, bodies, topic, name, judged))
    _together(spark, rows, _TYPED).createOrReplaceTempView("typed")
    _together(spark, values, DIFFERENCES).createOrReplaceTempView("typed_values")
    rejected = tables.rejected if found else spark.createDataFrame([], REJECTED)
    rejected.createOrReplaceTempView("rejected")


def _schemas(tables: Tables) -> list[Row]:
    """All rows of `schemas`, which are few: questions about them cost no more jobs."""
    try:
        said = tables.schemas
    except InvalidRequest:  # the tables are of a release without `schemas`
        return []
    if within_reach(tables) and not count_of(f"{tables.folder}/schemas"):
        return []
    return said.select(_SAID.names).collect()


def _reigns(spark: SparkSession, said: list[Row]) -> list[Row]:
    if not said:
        return []
    spark.createDataFrame(said, _SAID).createOrReplaceTempView("schemas")
    return spark.sql(read("views", "reigns")).orderBy("topic", "since").collect()


def _typed(table: DataFrame, topic: str, name: str) -> DataFrame:
    return table.select(
        F.col("_sequence").alias("sequence"),
        F.lit(topic).alias("topic"),
        F.lit(name).alias("table"),
        F.col("_schema_version").alias("schema_version"),
    )


def _writers(schemas: list[Row]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Definitions of Avro by their registry ids, of each topic or pattern that has a schema."""
    found: dict[str, dict[str, str]] = {}
    for row in sorted(schemas, key=lambda one: (one.group, one.floor)):
        if row.format == "avro" and row.registry_id:
            found.setdefault(row.topic, {})[row.registry_id] = row.definition
    return {topic: tuple(one.items()) for topic, one in found.items()}


def _version(reign: Row, writers: Mapping[str, tuple[tuple[str, str], ...]]) -> Version:
    said = reign.said
    if said is None or not said.judged:
        return Version.of(reign.since, reign.until, "", judged=False, bodies=BodyFormat(""))
    bodies = BodyFormat(
        said.format, said.definition, said.message, said.confluent, writers.get(said.source, ())
    )
    return Version.of(reign.since, reign.until, said.columns, judged=True, bodies=bodies)


def _values(
    table: DataFrame, bodies: DataFrame, topic: str, name: str, versions: Sequence[Version]
) -> DataFrame:
    mine = bodies.where(F.col("topic") == topic).drop("topic")
    judged = table.drop("_published_at", "_message_id", "_properties", "_schema_version")
    both = judged.join(mine, on="_sequence", how="inner")
    told = partial(_told, names=both.columns, table=name, topic=topic, versions=versions)
    # Spark asks for the columns by names in backticks: of a name with one of them it makes none.
    return both.toDF(*map(str, range(len(both.columns)))).mapInArrow(told, DIFFERENCES)


def _told(
    batches: Iterator[pa.RecordBatch],
    names: list[str],
    table: str,
    topic: str,
    versions: Sequence[Version],
) -> Iterator[pa.RecordBatch]:
    """Differences of rows whose columns have these names."""
    named = (one.rename_columns(names) for one in batches)
    return differences(named, table, topic, versions)


def _together(spark: SparkSession, some: Sequence[DataFrame], kind: str) -> DataFrame:
    if not some:
        return spark.createDataFrame([], kind)
    return reduce(DataFrame.unionByName, some)
