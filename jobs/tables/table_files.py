"""A table's files and entries, and work on them for which Delta has no SQL.

It uses Delta's own classes, which may change with each version of Delta; that is pinned, and they
are used here and in `delta_files` alone. It works on local disks and on object stores alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, cast

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from distributary.jobs.tables.delta_files import DELTA, HADOOP_PATH, java_class, log_of, snapshot_of
from distributary.jobs.tables.folders import local
from distributary.pipeline.tables.delta.pinned_table import file_entries
from distributary.pipeline.tables.delta.store import LocalStore


@dataclass(frozen=True, slots=True)
class Day:
    """The files of one day of a table, or of a whole table that has no days (`day` is None).

    The last sequence and group are the highest of the rows in it; None when a file doesn't say, or
    the table has no such column.
    """

    day: date | None
    files: int
    small: int  #: files below the given size
    size: int  #: bytes of all of them
    last_sequence: int | None = None
    last_group: int | None = None


def days(
    spark: SparkSession, path: str, *, small_bytes: int, record: str | None = None
) -> list[Day]:
    """Return the days of a table, ascending, from its log alone; of topic_log those of files with
    rows of this `record`. A log on a disk that this process sees takes no job of Spark."""
    folder = local(path)
    if folder is None or not str(spark.sparkContext.master).startswith("local"):
        found = days_by_spark(spark, path, small_bytes, record)
    else:
        found = _days_of(folder, small_bytes, record)
    return sorted(found, key=lambda day: day.day or date.min)


def days_by_spark(
    spark: SparkSession, path: str, small_bytes: int, record: str | None = None
) -> list[Day]:
    """Return the days of a table in no order, by Spark, wherever the log is."""
    log = log_of(spark, path)
    # The session isn't Spark Connect's, as of all jobs.
    files: DataFrame = ClassicDataFrame(snapshot_of(log).allFiles().toDF(), cast("Any", spark))
    if record is not None:
        files = files.where(F.element_at("partitionValues", "record") == record)
    rows = (
        files.groupBy(F.element_at("partitionValues", "day").cast("date").alias("day"))
        .agg(
            F.count("*").alias("files"),
            F.count_if(F.col("size") < small_bytes).alias("small"),
            F.sum("size").alias("size"),
            _highest("sequence"),
            _highest("group"),
        )
        .collect()
    )
    return [
        Day(row.day, row.files, row.small, row["size"], row.sequence, row["group"]) for row in rows
    ]


def _days_of(folder: Path, small_bytes: int, record: str | None) -> list[Day]:
    files: dict[date | None, list[dict[str, Any]]] = {}
    for one in file_entries(LocalStore(folder)):
        if record is None or one["partition.record"] == record:
            day = one.get("partition.day")
            files.setdefault(None if day is None else date.fromisoformat(str(day)), []).append(one)
    return [
        Day(
            day,
            len(some),
            sum(one["size_bytes"] < small_bytes for one in some),
            sum(one["size_bytes"] for one in some),
            *(_top([one.get(f"max.{name}") for one in some]) for name in ("sequence", "group")),
        )
        for day, some in files.items()
    ]


def _top(values: list[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    return max(known) if len(known) == len(values) else None


def properties(spark: SparkSession, path: str, names: Iterable[str]) -> dict[str, str]:
    """Return those of the named properties that the table has."""
    configuration = snapshot_of(log_of(spark, path)).metadata().configuration()
    return {name: str(configuration.apply(name)) for name in names if configuration.contains(name)}


def entries(spark: SparkSession, path: str) -> int:
    """Return how many versions have an entry in the table's log."""
    log = log_of(spark, path)
    return int(snapshot_of(log).version()) - _earliest(spark, log) + 1


def remove_entries(spark: SparkSession, path: str, entries_max: int) -> int:
    """Remove the oldest entries, so that about `entries_max` stay; return how many were removed.

    Delta keeps entries that the newest checkpoint needs, and those younger than a minute more.
    """
    log = log_of(spark, path)
    snapshot = snapshot_of(log)
    before, last_out = _earliest(spark, log), int(snapshot.version()) - entries_max
    if last_out < before:
        return 0
    entry = java_class(spark, HADOOP_PATH)(log.logPath(), f"{last_out:020d}.json")
    written = entry.getFileSystem(log.newDeltaHadoopConf()).getFileStatus(entry)
    age_ms = _now_ms(spark) - written.getModificationTime()
    log.cleanUpExpiredLogs(
        snapshot,
        getattr(log, "cleanUpExpiredLogs$default$2")(),
        # As text: a number that py4j hands over becomes the Integer that Scala doesn't expect.
        java_class(spark, "scala.collection.StringOps")(str(age_ms)).toLongOption(),
        java_class(spark, f"{DELTA}.TruncationGranularity").MINUTE(),
    )
    return _earliest(spark, log) - before


def vacuumed_hours_ago(spark: SparkSession, path: str) -> float | None:
    """Return the hours since the table's last VACUUM; None when there was none."""
    log = log_of(spark, path)
    note = java_class(spark, HADOOP_PATH)(log.logPath(), "_last_vacuum_info")
    files = note.getFileSystem(log.newDeltaHadoopConf())
    if not files.exists(note):
        return None
    age_ms = _now_ms(spark) - files.getFileStatus(note).getModificationTime()
    return float(age_ms) / 3_600_000


def _now_ms(spark: SparkSession) -> int:
    """Return the time of the JVM's clock."""
    return int(java_class(spark, "java.lang.System").currentTimeMillis())


def _highest(column: str) -> Any:
    """Return the highest value in the files' statistics; null when a file has none."""
    value = F.get_json_object("stats", f"$.maxValues.{column}").cast("long")
    return F.when(F.count(value) == F.count("*"), F.max(value)).alias(column)


def _earliest(spark: SparkSession, log: JavaObject) -> int:
    """Return the oldest version that has an entry."""
    history = java_class(spark, f"{DELTA}.DeltaHistoryManager")
    return int(history.getEarliestDeltaFile(log))
