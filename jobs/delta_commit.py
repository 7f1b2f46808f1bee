"""Commits to a table that say a transaction of ours, each at the cost of that commit alone.

Delta's way is the write option `txnAppId`: it skips what was written before, and to know that it
asks for the table's transactions. Delta 4.4 answers from the table's whole state, which it rebuilds
after each commit by a Spark job: more than half of the CPU of a small batch. Who writes all commits
of a table needn't ask: what the last one said is known for as long as its version is the newest.

Rule 1: a commit is made upon the version that our last one made; upon any other only after the
        table has said its transaction.
Rule 2: another's commit with our transaction in the meantime is a conflict for Delta, as it would
        be with the option.
"""

import time
from dataclasses import dataclass, field

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from jobs.delta_files import log_of
from pipeline.errors import StoreError

#: What Delta says where it knows no transaction of an application.
NONE = -1


@dataclass(slots=True)
class Commits:
    """The commits of one application to one table, one after the other."""

    spark: SparkSession
    path: str
    application: str
    _version: int | None = None  #: that the last commit made
    _added: JavaObject = field(init=False)  #: the files that it added

    def append(self, rows: DataFrame, transaction: int, *, after: int) -> None:
        """The rows as new files; the table says `transaction` then.

        `after` is the highest that it may say until now. Raises StoreError when it says more.
        """
        self._commit(rows, transaction, after, replace=False)

    def replace(self, rows: DataFrame, transaction: int, *, after: int) -> None:
        """The same, and all that the table had before goes."""
        self._commit(rows, transaction, after, replace=True)

    def _commit(self, rows: DataFrame, transaction: int, after: int, *, replace: bool) -> None:
        jvm = self.spark._jvm
        assert jvm is not None  # noqa: S101
        delta = jvm.org.apache.spark.sql.delta
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self.spark._jsparkSession)
        begun = log_of(self.spark, self.path).startTransaction()
        known = begun.readVersion() == self._version
        if not known:
            self._require_nobody_wrote(begun.txnVersion(self.application), after)
        begun.readTxn().addOne(self.application)
        gone: list[JavaObject] = []
        if replace:
            begun.readWholeTable()
            gone = _each(self._added if known else begun.filterFiles())
        added = begun.writeFiles(rows._jdf)
        said = delta.actions.SetTransaction(
            self.application, transaction, jvm.scala.Option.apply(int(1_000 * time.time()))
        )
        others = jvm.java.util.ArrayList()
        for action in (said, *(file.remove() for file in gone)):
            others.add(action)
        actions = added.appendedAll(jvm.scala.jdk.javaapi.CollectionConverters.asScala(others))
        self._version = begun.commit(actions, _operation(delta, jvm, replace=replace))
        self._added = added

    def _require_nobody_wrote(self, said: int, after: int) -> None:
        if said != NONE and said > after:
            raise StoreError(
                f"Another job wrote {self.path} meanwhile, up to group {said:,}: stop one of them, "
                "then start this one again."
            )


def _operation(delta: JavaObject, jvm: JavaObject, *, replace: bool) -> JavaObject:
    """What the table's history calls it."""
    modes = jvm.org.apache.spark.sql.SaveMode
    companion = getattr(getattr(delta, "DeltaOperations$Write$"), "MODULE$")
    rest = [getattr(companion, f"apply$default${nth}")() for nth in range(2, 10)]
    return companion.apply(modes.Overwrite if replace else modes.Append, *rest)


def _each(files: JavaObject) -> list[JavaObject]:
    return [files.apply(at) for at in range(files.size())]
