"""Rows of slices by Spark's own readers and writers: for homes on an object store."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from distributary.jobs.materialize.slices import Log, Slice
from distributary.jobs.materialize.typed_tables import TypedTables
from distributary.jobs.session.job_settings import MaterializeSettings
from distributary.jobs.tables.spark_tables import SparkTable
from distributary.pipeline.transforms.materialize.acks import acks
from distributary.pipeline.transforms.materialize.cursors import Cursors, events, sums
from distributary.pipeline.transforms.materialize.messages import messages
from distributary.pipeline.transforms.materialize.schema_versions import schema_versions
from distributary.pipeline.transforms.materialize.subscriptions import SCHEMA, subscriptions
from distributary.pipeline.transforms.typed.packed_rows import PackedRows
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent

#: Slices with fewer rows are interpreted: to compile their plans to Java would take longer.
COMPILED_ROWS = 20_000
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True, slots=True)
class SparkSlices:
    """Makes DataFrames, which Spark computes when they are written."""

    log: Log
    settings: MaterializeSettings

    def around(self, part: Slice) -> AbstractContextManager[None]:
        small = not part.far and part.rows_about < COMPILED_ROWS
        return _interpreted(self.log.spark) if small else nullcontext()

    def events(self, part: Slice, after: int) -> list[Row]:
        return events(self.log.rows(part, "subscription", after))

    def schema_events(self, part: Slice, after: int) -> list[SchemaEvent]:
        said = self.log.rows(part, "subscription", after).where(F.col("event") == SCHEMA)
        if "policy" not in said.columns:  # no gateway with schemas has opened this log
            return []
        found = said.select("topic", "floor", "policy", "group").orderBy("group", "floor").collect()
        return [SchemaEvent.of(one.topic, one.floor, one.policy) for one in found]

    def made(
        self, part: Slice, tables: Mapping[str, SparkTable], typed: TypedTables, began: Cursors
    ) -> "SparkSliceRows":
        after = {name: table.reached for name, table in tables.items()}
        packed = self._packed(part, typed, after["cursors"])
        return SparkSliceRows(self.log, self.settings, part, after, began, typed, packed)

    def _packed(self, part: Slice, typed: TypedTables, first: int) -> PackedRows | None:
        """Return packed typed rows, if any are still to be made."""
        lowest = typed.lowest(first)
        if not typed.events or lowest >= part.last_group or not part.has("message"):
            return None
        log = self.log.rows(part, "message", lowest)
        limits = self.settings.message
        return PackedRows.of(log, tuple(typed.events), typed.reached(), first, limits)

    def rows(self, table: SparkTable, rows: pa.Table) -> DataFrame:
        return self.log.spark.createDataFrame(rows, table.schema).coalesce(1)


@dataclass(frozen=True, slots=True)
class SparkSliceRows:
    """One slice's rows; tables have all groups up to `after`."""

    log: Log
    settings: MaterializeSettings
    part: Slice
    after: Mapping[str, int]
    began: Cursors
    typed_tables: TypedTables
    packed: PackedRows | None

    def of(self, name: str) -> DataFrame | None:
        if name not in self.after:
            return self._of_typed(name)
        part, after = self.part, self.after[name]
        match name:
            case "messages" if part.has("message"):
                rows = messages(self.log.rows(part, "message", after), self.settings.message)
                return self._in_files(rows, part.bytes_of("message"))
            case "acks" if part.has("settlement"):
                rows = acks(self.log.rows(part, "settlement", after))
                return self._in_files(rows, part.bytes_of("settlement"))
            case "subscriptions" if part.has("subscription"):
                return subscriptions(self.log.rows(part, "subscription", after)).coalesce(1)
            case "schemas" if part.has("subscription"):
                return schema_versions(self.log.rows(part, "subscription", after)).coalesce(1)
        return None

    def typed(self) -> Mapping[str, str]:
        return {} if self.packed is None else self.packed.topics

    def sums(self) -> pa.Table | None:
        if not self.began or not self.part.has("settlement"):
            return None
        return sums(self.began, self.log.rows(self.part, "settlement", self.after["cursors"]))

    def _of_typed(self, name: str) -> DataFrame | None:
        if self.packed is None or name not in self.packed.topics:
            return None
        schema = self.typed_tables.schema(name, self.packed.topics[name])
        return self._in_files(self.packed.rows(name, schema), self.part.bytes_of("message"))

    def _in_files(self, rows: DataFrame, size: int) -> DataFrame:
        """Return rows in a number of tasks by their bytes: each task makes a file."""
        return rows.coalesce(size // self.settings.task_bytes + 1) if size else rows


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Don't compile the session's plans inside of the block."""
    before = {key: str(spark.conf.get(key)) for key in INTERPRETED}
    for key, value in INTERPRETED.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
