"""Commits to a table with a transaction of ours, each at the cost of that commit alone.

Delta's way is the write option `txnAppId`: it skips rows that were written before, and reads the
table's transactions for that. Delta 4.4 reads them from the table's whole state, which it rebuilds
after each commit by a Spark job: more than half of the CPU of a small batch. The only writer of a
table needn't read them: its last commit's transaction is known as long as that version is the
newest.

Rule 1: a commit is made upon the version that our last commit made, or whose transaction is known;
        upon any other version only after the table was asked.
Rule 2: another writer's commit with our transaction in the meantime is a conflict for Delta, as it
        would be with the option.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from distributary.jobs.tables.delta_files import DELTA, java_class, log_of
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.row_files import RowFile

#: Content of a commit: rows that Spark is to write, or files that are written.
Rows: TypeAlias = DataFrame | Sequence[RowFile]

#: Delta's answer where it knows no transaction of an application.
NONE = -1

#: The application whose transaction has the time at which a job took the tables over.
_TAKEN = "distributary-taken"


@dataclass(slots=True)
class Commits:
    """The commits of one application to one table, one after the other.

    Each returns how many rows it brought.
    """

    spark: SparkSession
    path: str
    application: str
    java: "_Java" = field(init=False)
    _version: int | None = None  #: that the last commit made, or whose transaction is known
    _files: list[JavaObject] | None = None  #: all that it had then; None if that isn't known

    def __post_init__(self) -> None:
        self.java = _Java(self.spark)

    def known_at(self, version: int, *, empty: bool = False) -> None:
        """Note a version whose transaction the caller knows (`after` of the next commit), and
        whether the table is empty then."""
        self._version, self._files = version, [] if empty else None

    def append(self, rows: Rows, transaction: int, *, after: int) -> int:
        """Append rows, or files that have them, with `transaction`.

        `after`: the highest transaction that the table may have before. Raises StoreError when it
        has a higher one.
        """
        return self._commit(rows, transaction, after, replace=False)

    def replace(self, rows: Rows, transaction: int, *, after: int) -> int:
        """Replace the table's content, with the arguments of `append`."""
        return self._commit(rows, transaction, after, replace=True)

    def _commit(self, rows: Rows, transaction: int, after: int, *, replace: bool) -> int:
        self.java.sessions.setActiveSession(cast("Any", self.spark)._jsparkSession)
        begun = log_of(self.spark, self.path).startTransaction()
        known = begun.readVersion() == self._version
        if not known:
            self._require_nobody_wrote(begun.txnVersion(self.application), after)
        begun.readTxn().addOne(self.application)
        gone: list[JavaObject] = []
        if replace:
            begun.readWholeTable()
            gone = self._files if self._files is not None and known else _each(begun.filterFiles())
        if isinstance(rows, DataFrame):
            added = begun.writeFiles(cast("Any", rows)._jdf)
        else:
            added = self.java.added(rows)
        actions = self.java.actions(added, self.application, transaction, gone)
        self._version = begun.commit(actions, self.java.operation(replace=replace))
        files = _each(added)
        self._files = files if replace else None
        return sum(json.loads(file.stats())["numRecords"] for file in files)

    def _require_nobody_wrote(self, said: int, after: int) -> None:
        if said != NONE and said > after:
            raise StoreError(
                f"Another job wrote {self.path} meanwhile, up to group {said:,}: stop one of them, "
                "then start this one again."
            )


def make_version(spark: SparkSession, path: str) -> None:
    """Make a version without changes, so that commits that began before it fail."""
    java = _Java(spark)
    begun = log_of(spark, path).startTransaction()
    actions = java.actions(java.added(()), _TAKEN, int(1_000 * time.time()), [])
    begun.commit(actions, java.operation(replace=False))


class _Java:
    """The JVM's classes for a commit, looked up once."""

    def __init__(self, spark: SparkSession) -> None:
        self.sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
        self._transactions = java_class(spark, f"{DELTA}.actions.SetTransaction")
        self._option = java_class(spark, "scala.Option")
        self._lists = java_class(spark, "java.util.ArrayList")
        self._as_scala = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
        self._write = getattr(java_class(spark, f"{DELTA}.DeltaOperations$Write$"), "MODULE$")
        self._action = getattr(java_class(spark, f"{DELTA}.actions.Action$"), "MODULE$")
        self._modes = java_class(spark, "org.apache.spark.sql.SaveMode")

    def added(self, files: Sequence[RowFile]) -> JavaObject:
        """Return the actions that add these files."""
        found = self._lists()
        for file in files:
            found.add(self._action.fromJson(file.action))
        return self._as_scala.asScala(found).toSeq()

    def actions(
        self, added: JavaObject, application: str, transaction: int, gone: list[JavaObject]
    ) -> JavaObject:
        """Return all actions of a commit."""
        now_ms = self._option.apply(int(1_000 * time.time()))
        others = self._lists()
        others.add(self._transactions(application, transaction, now_ms))
        for file in gone:
            others.add(file.remove())
        return added.appendedAll(self._as_scala.asScala(others))

    def operation(self, *, replace: bool) -> JavaObject:
        """Return the commit's name in the table's history."""
        rest = [getattr(self._write, f"apply$default${nth}")() for nth in range(2, 10)]
        return self._write.apply(self._modes.Overwrite if replace else self._modes.Append, *rest)


def _each(files: JavaObject) -> list[JavaObject]:
    return [files.apply(at) for at in range(files.size())]
