"""The tables that Spark writes: made, checked, appended to, each with the last group that it has.

Rule: every commit of these tables has the last group that is wholly in the table, as a transaction
      of APPLICATION. So a job goes on from there after an interruption anywhere.
"""

from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
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

#: The application of the transactions that have the tables' last groups.
APPLICATION = SPARK_APP

#: Folder of a table's Delta log, and the folder that Delta makes there before the first entry;
#: names of incomplete files begin with a dot.
LOG, STAGED = "_delta_log", "_staged_commits"

#: Tables of the first release; one of the others that is missing is made anew.
FIRST = ("messages", "acks", "cursors")

#: Columns that came later than their tables; a table without them gets them.
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
    """A table's layout on the disk."""

    partitions: tuple[str, ...]
    statistics: str  #: columns that prune; no others are counted
    plain: frozenset[str] = frozenset()  #: columns that repeat too seldom for a dictionary


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
    """Return each table's format in this version: its columns, and those that older tables may
    lack."""
    return {
        name: SparkFormat(
            {field.name: field.jsonValue()["type"] for field in schema.fields},
            frozenset(LATER.get(name, ())),
        )
        for name, schema in SCHEMAS.items()
    }


@dataclass(slots=True)
class SparkTable:
    """One table: `reached` is the group up to which it has all rows.

    `marked`: whether its commits have that group; of a table of an older release its rows have it.
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
        """Whether it never had a row, as far as its first entries show."""
        return has_nothing(self.spark, self.path)

    def complete(self) -> bool:
        """Whether it has all columns of today."""
        there = {one.name: one.dataType.simpleString() for one in self.rows().schema}
        return all(there.get(one.name) == one.dataType.simpleString() for one in self.schema)

    def grow(self, schema: StructType) -> None:
        """Let it have these columns from the next commit on; missing ones are added."""
        if schema != self.schema:
            self.schema, self._whole = schema, False

    @property
    def layout(self) -> RowsLayout:
        """Layout of its files where Spark doesn't write them."""
        shape = self.shape
        return RowsLayout(
            self.path,
            arrow_schema(self.schema),
            next(iter(shape.partitions), None),
            tuple(shape.statistics.split(",")),
            shape.plain,
        )

    def append(self, rows: Rows, group: int) -> int:
        """Append in one commit, after which the table has all rows up to `group`; return how many.
        Raises StoreError when another job has written to it.
        """
        self._widen()
        count = self._commits.append(rows, group, after=self.reached)
        self.reached, self.marked = group, True
        return count

    def replace(self, rows: Rows, group: int) -> int:
        """Replace all rows in one commit, with the arguments of `append`."""
        self._widen()
        count = self._commits.replace(rows, group, after=self.reached)
        self.reached, self.marked = group, True
        return count

    def _widen(self) -> None:
        """Add the columns that an older table lacks: null in its rows."""
        if not self._whole and not self.complete():
            nothing = self.spark.createDataFrame([], self.schema)
            widening = nothing.write.format("delta").mode("append")
            widening.option("mergeSchema", "true").save(self.path)
        self._whole = True

    def make(self) -> None:
        """Make it, where there is none. Raises StoreError when other files are in its place."""
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
        """Make it where files of its first rows lie already: `make` needs an empty folder."""
        nothing = self.spark.createDataFrame([], self.schema)
        writing = nothing.write.format("delta").partitionBy(*self.shape.partitions)
        writing = writing.option("delta.dataSkippingStatsColumns", self.shape.statistics)
        for name, value in PROPERTIES.items():
            writing = writing.option(name, value)
        writing.mode("append").save(self.path)
        self.known()

    def _clear_what_was_begun(self) -> None:
        """Remove a Delta log without an entry, left by a job that was killed while it made the
        table: Delta makes no table in a folder that isn't empty."""
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
        """Read the last group of a typed table, whose columns follow from the log's schemas."""
        version, said = transaction(self.spark, self.path, APPLICATION)
        self._commits.known_at(version)
        self.marked, self.reached = said is not None, said or 0

    def find(self) -> None:
        """Read the table's last group. Raises StoreError when the table isn't ours."""
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
    """Return all tables in their order; absent ones are made.

    `begun`: the query of this checkpoint has written batches before. Raises StoreError when one of
    its tables is gone: its readers should know before it is made anew.
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
    """Set the group of `cursors`, which come last, for tables that had no rows to write."""
    cursors = tables["cursors"]
    for one in tables.values():
        if one.marked and cursors.marked:
            one.reached = max(one.reached, cursors.reached)


def typed_names(spark: SparkSession, folder: str) -> list[str]:
    """Return the places of the existing typed tables, and of `rejected`, below the folder."""
    found = typed_places(lambda below: Folder(spark, f"{folder}/{below}").names())
    found.append(REJECTED_NAME)
    return [name for name in found if DeltaTable.isDeltaTable(spark, f"{folder}/{name}")]
