"""The typed tables of topics that have a schema, and `rejected`, beside the other tables.

They are made with their first row. Their names and columns follow from the events of schemas
(`pipeline.transforms.typed.topic_tables`).

Rule: a table without a transaction is empty, and has all rows up to the group of `cursors`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from distributary.jobs.tables.spark_tables import Shape, SparkTable, typed_names
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.schema.spark_schema import REJECTED
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent, topic_tables

#: The tables' layout on the disk.
TYPED_SHAPE = Shape((), "_sequence,_published_at", frozenset({"_sequence", "_message_id"}))
REJECTED_SHAPE = Shape(("day",), "sequence,topic,group")


@dataclass(slots=True)
class TypedTables:
    """All typed tables in one folder. `events` go up to the group that all tables have, or to the
    end of the slice that is being written."""

    spark: SparkSession
    folder: str
    group: int  #: the last group that `cursors` have
    events: list[SchemaEvent] = field(default_factory=list)
    _tables: dict[str, SparkTable] = field(default_factory=dict)

    def find(self) -> None:
        """Find the existing tables."""
        for name in typed_names(self.spark, self.folder):
            path = f"{self.folder}/{name}"
            there = self.spark.read.format("delta").load(path).schema
            shape = REJECTED_SHAPE if name == REJECTED_NAME else TYPED_SHAPE
            table = SparkTable(self.spark, name, path, there, shape)
            table.known()
            table.reached = max(table.reached, self.group)
            self._tables[name] = table

    def reached(self) -> Mapping[str, int]:
        """Return the last group of each table."""
        return {name: table.reached for name, table in self._tables.items()}

    def lowest(self, first: int) -> int:
        """Return the last group that all have, where a table that doesn't exist has `first`."""
        return min([first, *self.reached().values()])

    def schema(self, name: str, topic: str) -> StructType:
        """Return the columns of a table, by the events."""
        if name == REJECTED_NAME:
            return REJECTED
        return topic_tables(self.events, topic).tables[name.removeprefix(f"{FOLDER}/")]

    def tell(self, events: Iterable[SchemaEvent]) -> None:
        """Add events, in the order of the log; each once."""
        self.events.extend(events)

    def table(self, name: str, topic: str) -> SparkTable:
        """Return the table with all columns by the events; made if there is none."""
        schema = self.schema(name, topic)
        found = self._tables.get(name)
        if found is None:
            shape = REJECTED_SHAPE if name == REJECTED_NAME else TYPED_SHAPE
            found = SparkTable(self.spark, name, f"{self.folder}/{name}", schema, shape)
            found.make_beside_files()
            found.reached = max(found.reached, self.group)
            self._tables[name] = found
        found.grow(schema)
        return found

    def done(self, group: int) -> None:
        """Note that all tables have all rows up to this group, even those that got none."""
        self.group = group
        for table in self._tables.values():
            table.reached = group
