"""One batch of the log into three tables, so that running it again changes nothing.

Rule 1: a batch is whole versions of `topic_log`, so it is whole groups, first to last, and rows
        are chosen by group: compaction of the log between two tries changes nothing.
Rule 2: `messages` and `acks` are appended under a transaction id of the query and the batch, so
        Delta itself refuses the second try. `cursors` are merged only where they are older.
Rule 3: `cursors` come last: what a cursor says is materialized, is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.types import StructType

from pipeline.errors import StoreError
from pipeline.transforms.acks import acks
from pipeline.transforms.cursors import cursors
from pipeline.transforms.log_versions import log_versions
from pipeline.transforms.messages import messages
from pipeline.transforms.schema import ACKS, CURSORS, LOG_VERSIONS, MESSAGES, SUBSCRIPTIONS
from pipeline.transforms.subscriptions import subscriptions

#: Folder -> schema, partition columns, columns with statistics.
TABLES: dict[str, tuple[StructType, tuple[str, ...], str]] = {
    "messages": (MESSAGES, ("day",), "sequence,topic,group,published_at"),
    "acks": (ACKS, ("day",), "sequence,subscription,group,settled_at"),
    "subscriptions": (SUBSCRIPTIONS, (), "subscription,group"),
    "log_versions": (LOG_VERSIONS, (), "log_version,group,committed_at"),
    "cursors": (CURSORS, (), "subscription,group"),
}


@dataclass(frozen=True, slots=True)
class Places:
    """Where the job reads and writes: paths, or addresses of an object store."""

    log: str
    tables: str
    checkpoint: str

    def table(self, name: str) -> str:
        return f"{self.tables}/{name}"


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch of one query has in it."""

    query: str
    number: int
    first_group: int
    last_group: int
    log_version: int  #: the last version of topic_log in it

    def rows(self, spark: SparkSession, places: Places) -> DataFrame:
        """The rows of the log that are in this batch."""
        log = spark.read.format("delta").load(places.log)
        return log.where(F.col("group").between(self.first_group, self.last_group))


Write: TypeAlias = Callable[[SparkSession, Places, Batch], None]


def write_messages(spark: SparkSession, places: Places, batch: Batch) -> None:
    _append("messages", messages(batch.rows(spark, places)), places, batch)


def write_acks(spark: SparkSession, places: Places, batch: Batch) -> None:
    _append("acks", acks(batch.rows(spark, places)), places, batch)


def write_subscriptions(spark: SparkSession, places: Places, batch: Batch) -> None:
    _append("subscriptions", subscriptions(batch.rows(spark, places)), places, batch)


def write_log_versions(spark: SparkSession, places: Places, batch: Batch) -> None:
    entries = spark.read.text(f"{places.log}/_delta_log/*.json")
    rows = log_versions(entries).where(F.col("log_version") <= batch.log_version)
    known = spark.read.format("delta").load(places.table("log_versions"))
    last = known.agg(F.max("log_version")).collect()[0][0]
    _append(
        "log_versions",
        rows if last is None else rows.where(F.col("log_version") > last),
        places,
        batch,
        all_of=True,
    )


def write_cursors(spark: SparkSession, places: Places, batch: Batch) -> None:
    table = DeltaTable.forPath(spark, places.table("cursors"))
    existing, rows = table.toDF(), batch.rows(spark, places)
    # A table of before lacks what only the whole log can say: then it is all folded anew.
    complete = set(CURSORS.names) <= set(existing.columns)
    if not complete:
        existing = spark.createDataFrame([], CURSORS)
        rows = replace(batch, first_group=0).rows(spark, places)
    after = cursors(existing, rows, group=batch.last_group, log_version=batch.log_version)
    # MERGE reads its source more than once; as plain rows it costs a second, as a plan ten.
    merge = table.alias("t").merge(
        after.localCheckpoint().alias("s"), "t.subscription = s.subscription"
    )
    if not complete:
        merge = merge.withSchemaEvolution()
    (
        merge.whenMatchedUpdateAll(condition="s.`group` > t.`group`" if complete else None)
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceDelete(
            condition=f"t.`group` < {batch.last_group}" if complete else None
        )
        .execute()
    )


#: The writes in their order; a batch is done when the last one is.
WRITES: tuple[Write, ...] = (
    write_messages,
    write_acks,
    write_subscriptions,
    write_log_versions,
    write_cursors,
)


def write(spark: SparkSession, places: Places, batch: Batch) -> None:
    """All of a batch; after a failure anywhere in it, again from the start."""
    for step in WRITES:
        step(spark, places, batch)


def ensure_tables(spark: SparkSession, places: Places, *, may_create: bool) -> None:
    """Make the tables that are absent; raise StoreError if they must be there and aren't.

    A query that has batches behind it never writes those again, so tables that went missing
    since would stay incomplete without a word.
    """
    for name, (schema, partitions, statistics) in TABLES.items():
        path = places.table(name)
        if DeltaTable.isDeltaTable(spark, path):
            continue
        if not may_create and name not in ("subscriptions", "log_versions"):
            raise StoreError(
                f"The table {path} is gone, but the checkpoint {places.checkpoint} says that it "
                "was written: remove the checkpoint, then everything is made again from the log."
            )
        (
            DeltaTable.createIfNotExists(spark)
            .location(path)
            .addColumns(schema)
            .partitionedBy(*partitions)
            .property("delta.dataSkippingStatsColumns", statistics)
            .execute()
        )


def _append(
    name: str, rows: DataFrame, places: Places, batch: Batch, *, all_of: bool = False
) -> None:
    path = places.table(name)
    if batch.number == 0 and not all_of:
        rows = _unwritten(rows, path)
    (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", f"{batch.query}/{name}")
        .option("txnVersion", str(batch.number))
        .option("mergeSchema", "true")  # a table of before lacks columns; its rows stay null there
        .save(path)
    )


def _unwritten(rows: DataFrame, path: str) -> DataFrame:
    """Rows of groups that the table lacks: a query whose checkpoint was lost begins anew, under
    an id that the table doesn't know, on tables that may be filled."""
    written = rows.sparkSession.read.format("delta").load(path).agg(F.max("group")).first()
    last = None if written is None else written[0]
    return rows if last is None else rows.where(F.col("group") > last)
