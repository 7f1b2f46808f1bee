"""Facts of a table that Delta has no Python for: asked of its classes in the JVM.

`DeltaLog` is an inner class of the Delta release that is pinned; it is used in this file, in
`delta_commit` and in `table_files` alone.
"""

import json
from typing import Any, cast

from py4j.java_gateway import JavaObject, JavaPackage
from pyspark.sql import SparkSession, is_remote

from distributary.pipeline.errors import InvalidRequest

#: Delta's package, and the class of a path.
DELTA = "org.apache.spark.sql.delta"
HADOOP_PATH = "org.apache.hadoop.fs.Path"


def require_jvm() -> None:
    """Raise InvalidRequest where Spark is reached by Spark Connect: jobs that write tables need
    Delta's classes in the JVM."""
    if is_remote():
        raise InvalidRequest(
            "A job that writes Spark's tables needs the JVM, which clients of Spark Connect don't "
            "reach: run it where Spark runs, by `spark-submit` or as a job of the cluster."
        )


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of the JVM by its whole name. With `spark._jvm.org.apache...` each part of the
    name is a search through all jars, 2 ms together. Raises InvalidRequest where there is none."""
    require_jvm()
    found = getattr(spark._jvm, name)
    if isinstance(found, JavaPackage):
        raise InvalidRequest(
            f"This session's JVM has no class {name}: make the session by `distributary.session`, "
            "with the tables' addresses as `places`, or as the guide of object stores says."
        )
    return found


def newest_version(spark: SparkSession, path: str) -> int:
    """Return the table's present version."""
    version: int = snapshot_of(log_of(spark, path)).version()
    return version


def transaction(spark: SparkSession, path: str, application: str) -> tuple[int, int | None]:
    """Return the table's version, and the last transaction that it has of this application; None if
    it has none.

    As a rule the newest entry has it, which is one file to read; so is the only entry of a new
    table. Else the table's whole state is read: Delta 4.4 rebuilds that by a Spark job. Delta's
    `.crc` file beside an entry isn't read: after a power cut it may exist beside an empty entry.
    """
    snapshot = snapshot_of(log_of(spark, path))
    version = int(snapshot.version())
    said = _said(Entries(spark, path).text(version) or "", application)
    if said is None and version > 0:
        found = snapshot.transactions().get(application)
        said = int(found.get()) if found.isDefined() else None
    return version, said


def has_nothing(spark: SparkSession, path: str) -> bool:
    """Whether the table was only made, with at most one commit of no rows after that. This takes no
    Spark job."""
    entries = Entries(spark, path)
    first = entries.text(0)
    if first is None or (newest := entries.last_from(0)) > 1:
        return False
    said = first if newest == 0 else f"{first}\n{entries.text(newest)}"
    return '{"add":' not in said


def _said(entry: str, application: str) -> int | None:
    """Return an entry's transaction; None if it has none, or is torn."""
    try:
        actions = [json.loads(line) for line in entry.splitlines()]
        said = {one["txn"]["appId"]: int(one["txn"]["version"]) for one in actions if "txn" in one}
    except (ValueError, TypeError, KeyError):
        return None
    return said.get(application)


def files_at(spark: SparkSession, path: str, version: int) -> list[str]:
    """Return the actions that add the table's files as of a version, as JSON."""
    log = log_of(spark, path)
    nothing = [getattr(log, f"getSnapshotAt$default${n}")() for n in (2, 3, 4)]
    found = log.getSnapshotAt(version, *nothing).allFiles().collectAsList()
    return [str(found.get(at).json()) for at in range(found.size())]


def partitions(spark: SparkSession, path: str) -> tuple[str, ...]:
    """Return the columns that the table is partitioned by."""
    columns = snapshot_of(log_of(spark, path)).metadata().partitionColumns()
    return tuple(str(columns.apply(at)) for at in range(columns.size()))


class Folder:
    """Small files below a folder, on any file system that Spark reads."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._path, self._paths = path, java_class(spark, HADOOP_PATH)
        self._streams = java_class(spark, "org.apache.commons.io.IOUtils")
        configuration = cast("Any", spark)._jsparkSession.sessionState().newHadoopConf()
        self._files = self._paths(path).getFileSystem(configuration)

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        found: bool = self._files.exists(self._paths(f"{self._path}/{name}"))
        return found

    def names(self) -> list[str]:
        """Return the names of its files and folders; none if it doesn't exist."""
        folder = self._paths(self._path)
        if not self._files.exists(folder):
            return []
        return sorted(str(found.getPath().getName()) for found in self._files.listStatus(folder))

    def text(self, name: str) -> str | None:
        """Return a file's text; None if it doesn't exist."""
        if not self.has(name):
            return None
        stream = self._files.open(self._paths(f"{self._path}/{name}"))
        try:
            found: str = self._streams.toString(stream, "UTF-8")
        finally:
            stream.close()
        return found

    def remove_empty(self) -> None:
        """Remove the folder, if it exists and is empty: files that came meanwhile stay. Raises
        Py4JJavaError when it isn't empty."""
        self._files.delete(self._paths(self._path), False)

    def remove(self) -> None:
        """Remove the folder with all that is in it, if it is there."""
        self._files.delete(self._paths(self._path), True)


class Entries:
    """The entries of a table's own log: one file for each version."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._folder = Folder(spark, f"{path}/_delta_log")

    def text(self, version: int) -> str | None:
        """Return an entry's lines; None if it doesn't exist."""
        return self._folder.text(_entry(version))

    def last_from(self, version: int) -> int:
        """Return the newest version up to which all versions since this one have an entry. It looks
        at files' names alone; Delta would read the entries, too."""
        step = 1
        while self._folder.has(_entry(version + step)):
            step *= 2
        low, high = step // 2, step  # the low one exists, the high one doesn't
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if self._folder.has(_entry(version + middle)) else (low, middle)
            )
        return version + low


def _entry(version: int) -> str:
    return f"{version:020d}.json"


def log_of(spark: SparkSession, path: str) -> JavaObject:
    """Return the table's log; all callers in this JVM share one object."""
    delta_log = java_class(spark, f"{DELTA}.DeltaLog")
    return delta_log.forTable(cast("Any", spark)._jsparkSession, path)


def snapshot_of(log: JavaObject) -> JavaObject:
    """Return the table's newest snapshot."""
    return log.update(False, *(getattr(log, f"update$default${n}")() for n in (2, 3)))
