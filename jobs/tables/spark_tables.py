"""The tables that Spark writes: made, known again, appended to, and how far each of them is.

Rule: every commit of these tables says the last group that is wholly in, as a transaction of
      APPLICATION. So a table tells by itself how far it is, and an interruption anywhere is gone
      on with from there.
"""

from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.types import StructType

from distributary.jobs.tables.delta_commit import Commits, Rows
from distributary.jobs.tables.delta_files import Folder, has_nothing, partitions, transaction
from distributary.jobs.tables.folders import local
from distributary.pipeline.errors import StoreError
from distributary.pipeline.table_places import typed_places
from distributary.pipeline.tables.delta.commits import SPARK_APP
from distributary.pipeline.tables.delta.row_files import RowsLayout
from distributary.pipeline.tables.verify.home_formats import SparkFormat
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME

#: Under this name each table's commits say their last group.
APPLICATION = SPARK_APP

#: Where Delta keeps a table's own log, and what it makes there before the first entry; a file that
#: isn't whole yet begins with a dot.
LOG, STAGED = "_delta_log", "_staged_commits"

#: What a table came with when there were fewer; without one of the others it is made anew.
FIRST = ("messages", "acks", "cursors")

#: Columns that came later than their tables; a table without them is completed.
LATER = {
    "acks": {"floor"},
    "cursors": {"failures", "lost"},
    "subscriptions": {"origin", "created_by", "dropped", "by"},
    "messages": {
        *("deliver_at", "user_id", "group_sequence", "delivery_count", "message"),
        *("delivery_annotations", "message_annotations"),
    },
}

#: Properties of all of them. A commit each two seconds is many entries: a checkpoint of the table
#: each hundred costs a hundredth of its writing, and reading at most a hundred entries.
PROPERTIES = {"delta.checkpointInterval": "100"}


@dataclass(frozen=True, slots=True)
class Shape:
    """How a table lies on the disk."""

    partitions: tuple[str, ...]
    statistics: str  #: columns that prune; no others are counted
    plain: frozenset[str] = frozenset()  #: that repeat too seldom for a dictionary


#: Columns of `messages` that have another value in each row.
_PLAIN = frozenset(
    {"sequence", "message_id", "correlation_id", "body_text", "body_bytes", "message"}
)

SHAPES = {
    "messages": Shape(("day",), "sequence,topic,group,published_at", _PLAIN),
    "acks": Shape(("day",), "sequence,subscription,group,settled_at"),
    "subscriptions": Shape((), "subscription,group"),
    "schemas": Shape((), "topic,group"),
    "log_versions": Shape((), "log_version,group,committed_at"),
    "cursors": Shape((), "subscription,group"),
}


def formats() -> dict[str, SparkFormat]:
    """Each table as this version writes it: its columns, and those that one of before may lack."""
    return {
        name: SparkFormat(
            {field.name: field.jsonValue()["type"] for field in schema.fields},
            frozenset(LATER.get(name, ())),
        )
        for name, schema in SCHEMAS.items()
    }


@dataclass(slots=True)
class SparkTable:
    """One table: `reached` is the group up to which it has everything.

    `marked` is whether its own commits say so; of a table of an older release its rows do.
    """

    spark: SparkSession
    name: str
    path: str
    schema: StructType
    shape: Shape
    reached: int = 0
    marked: bool = False
    _commits: Commits = field(init=False)
    _whole: bool = False  #: it has all columns of today

    def __post_init__(self) -> None:
        self._commits = Commits(self.spark, self.path, APPLICATION)

    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)

    def empty(self) -> bool:
        """Whether it never had a row, if that can be seen at a glance."""
        return has_nothing(self.spark, self.path)

    def complete(self) -> bool:
        """Whether it has all columns of today."""
        there = {one.name: one.dataType.simpleString() for one in self.rows().schema}
        return all(there.get(one.name) == one.dataType.simpleString() for one in self.schema)

    def grow(self, schema: StructType) -> None:
        """It has these columns from the next commit on; those that it lacks are added."""
        if schema != self.schema:
            self.schema, self._whole = schema, False

    @property
    def layout(self) -> RowsLayout:
        """How its files are written where Spark doesn't."""
        shape = self.shape
        return RowsLayout(
            self.path,
            arrow_schema(self.schema),
            next(iter(shape.partitions), None),
            tuple(shape.statistics.split(",")),
            shape.plain,
        )

    def append(self, rows: Rows, group: int) -> int:
        """One commit, after which the table has everything up to `group`; returns how many rows.

        Raises StoreError when another job has written to it.
        """
        self._widen()
        count = self._commits.append(rows, group, after=self.reached)
        self.reached, self.marked = group, True
        return count

    def replace(self, rows: Rows, group: int) -> int:
        """The same, and it has no other rows then."""
        self._widen()
        count = self._commits.replace(rows, group, after=self.reached)
        self.reached, self.marked = group, True
        return count

    def _widen(self) -> None:
        """A table of before gets the columns that it lacks: null in its rows."""
        if not self._whole and not self.complete():
            nothing = self.spark.createDataFrame([], self.schema)
            widening = nothing.write.format("delta").mode("append")
            widening.option("mergeSchema", "true").save(self.path)
        self._whole = True

    def make(self) -> None:
        """Make it, where there is none. Raises StoreError when something else is in its place."""
        self._clear_what_was_begun()
        shape, schema = self.shape, self.schema
        making = (
            DeltaTable.createIfNotExists(self.spark)
            .location(self.path)
            .addColumns(schema)
            .partitionedBy(*shape.partitions)
            .property("delta.dataSkippingStatsColumns", shape.statistics)
        )
        for name, value in PROPERTIES.items():
            making = making.property(name, value)
        making.execute()
        self._commits.known_at(0, empty=True)

    def make_beside_files(self) -> None:
        """Make it where files of its first rows lie already: `make` asks for an empty folder."""
        nothing = self.spark.createDataFrame([], self.schema)
        writing = nothing.write.format("delta").partitionBy(*self.shape.partitions)
        writing = writing.option("delta.dataSkippingStatsColumns", self.shape.statistics)
        for name, value in PROPERTIES.items():
            writing = writing.option(name, value)
        writing.mode("append").save(self.path)
        self.known()

    def _clear_what_was_begun(self) -> None:
        """A job that was killed while it made the table left a log without an entry: nothing was
        ever in it, and Delta makes no table in a folder that isn't empty."""
        log = Folder(self.spark, f"{self.path}/{LOG}")
        found = [name for name in Folder(self.spark, self.path).names() if name != LOG]
        found += [f"{LOG}/{name}" for name in log.names() if name[0] != "." and name != STAGED]
        if found:
            raise StoreError(
                f"{self.path} is where the table `{self.name}` belongs, but it is no table and has "
                f"{found[0]} in it. Name another folder by --tables, or move that away."
            )
        if local(self.path) is not None:
            log.remove()
            return
        # On a store another job may have taken the tables over, and made this one, since the look.
        Folder(self.spark, f"{self.path}/{LOG}/{STAGED}").remove_empty()
        log.remove_empty()

    def known(self) -> None:
        """Look how far a table is whose columns follow from what the log says."""
        version, said = transaction(self.spark, self.path, APPLICATION)
        self._commits.known_at(version)
        self.marked, self.reached = said is not None, said or 0

    def find(self) -> None:
        """Look how far it is. Raises StoreError when it isn't ours."""
        self._require_ours()
        version, said = transaction(self.spark, self.path, APPLICATION)
        self._commits.known_at(version)
        self.marked = said is not None
        self.reached = self._in_rows() if said is None else said

    def _in_rows(self) -> int:
        if self.empty():
            return 0
        last = self.rows().agg(F.max("group")).collect()[0][0]
        return int(last or 0)

    def _require_ours(self) -> None:
        rows, partitioned = self.rows(), partitions(self.spark, self.path)
        types = {field.name: field.dataType for field in self.schema}
        wrong = [
            f"{field.name} is {field.dataType.simpleString()}"
            for field in rows.schema
            if types.get(field.name) != field.dataType
        ]
        lacking = set(types) - set(rows.columns) - LATER.get(self.name, set())
        wrong += [f"there is no {name}" for name in sorted(lacking)]
        if partitioned != self.shape.partitions:
            wrong.append(f"it is partitioned by {', '.join(partitioned) or 'nothing'}")
        if wrong:
            raise StoreError(
                f"{self.path} isn't the table `{self.name}` of docs/tables.md: {wrong[0]}. Name "
                "another folder by --tables, or move that table away."
            )


def open_tables(
    spark: SparkSession, folder: str, checkpoint: str, *, begun: bool
) -> dict[str, SparkTable]:
    """All tables in their order; those that are absent are made.

    `begun` says that the query of this checkpoint has written batches before. Raises StoreError
    when a table of it is gone: who relied on it should know before it is made anew.
    """
    tables = {
        name: SparkTable(spark, name, f"{folder}/{name}", schema, SHAPES[name])
        for name, schema in SCHEMAS.items()
    }
    absent = [one for one in tables.values() if not DeltaTable.isDeltaTable(spark, one.path)]
    for one in absent:
        if begun and one.name in FIRST:
            raise StoreError(
                f"The table {one.path} is gone, but the checkpoint {checkpoint} says that it was "
                "written: remove the checkpoint, then it is made again from the log."
            )
    for one in tables.values():
        if one in absent:
            one.make()
        else:
            one.find()
    _complete(tables)
    return tables


def _complete(tables: dict[str, SparkTable]) -> None:
    """Cursors come last: a table that had nothing to write until then has everything, too."""
    cursors = tables["cursors"]
    for one in tables.values():
        if one.marked and cursors.marked:
            one.reached = max(one.reached, cursors.reached)


def typed_names(spark: SparkSession, folder: str) -> list[str]:
    """The typed tables that there are, and `rejected`: their places below the folder."""
    found = typed_places(lambda below: Folder(spark, f"{folder}/{below}").names())
    found.append(REJECTED_NAME)
    return [name for name in found if DeltaTable.isDeltaTable(spark, f"{folder}/{name}")]
