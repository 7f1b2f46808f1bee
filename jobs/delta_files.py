"""What Delta knows of a table and doesn't say in Python: asked of its classes in the JVM.

`DeltaLog` is an inner class of the Delta release that is pinned; it is used in this file, in
`delta_commit` and in `table_files` alone.
"""

from typing import Any, cast

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession


def newest_version(spark: SparkSession, path: str) -> int:
    """The table's version as it is now."""
    version: int = snapshot_of(log_of(spark, path)).version()
    return version


def transaction(spark: SparkSession, path: str, application: str) -> int | None:
    """The last transaction that the table has of this application; None if it has none."""
    found = snapshot_of(log_of(spark, path)).transactions().get(application)
    return int(found.get()) if found.isDefined() else None


def text(spark: SparkSession, path: str) -> str | None:
    """A small file on any file system that Spark reads; None if there is none."""
    jvm, place, system = _system(spark, path)
    if not system.exists(place):
        return None
    stream = system.open(place)
    try:
        found: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return found


def remove(spark: SparkSession, path: str) -> None:
    """Remove a folder with all that is in it, if it is there."""
    _, place, system = _system(spark, path)
    system.delete(place, True)


def log_of(spark: SparkSession, path: str) -> JavaObject:
    """The table's log; one object for all who ask in this JVM."""
    delta = spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]
    return delta.DeltaLog.forTable(cast("Any", spark)._jsparkSession, path)


def snapshot_of(log: JavaObject) -> JavaObject:
    """The newest version of the table."""
    return log.update(False, *(getattr(log, f"update$default${n}")() for n in (2, 3)))


def _system(spark: SparkSession, path: str) -> tuple[JavaObject, JavaObject, JavaObject]:
    jvm = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return jvm, place, place.getFileSystem(configuration)
