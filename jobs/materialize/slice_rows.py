"""What a slice brings to each table: the two ways to make it have this in common."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Row

from distributary.jobs.materialize.slices import Slice
from distributary.jobs.materialize.typed_tables import TypedTables
from distributary.jobs.tables.delta_commit import Rows
from distributary.jobs.tables.spark_tables import SparkTable
from distributary.pipeline.transforms.materialize.cursors import Cursors
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent


class SliceRows(Protocol):
    """The rows of one slice, each so far as its table hasn't got it."""

    def of(self, name: str) -> Rows | None:
        """Those of `messages`, `acks` or `subscriptions`; None if the slice has none."""

    def typed(self) -> Mapping[str, str]:
        """The names of typed tables that get rows, and of which topic each is; `rejected`: none."""

    def sums(self) -> pa.Table | None:
        """What its settlements come to, by subscription; None if it has none."""


class SliceMaker(Protocol):
    """A way to make rows of slices."""

    def around(self, part: Slice) -> AbstractContextManager[None]:
        """What a slice is made and written within."""

    def events(self, part: Slice, after: int) -> list[Row]:
        """What begins, changes and ends subscriptions, in groups after `after`."""

    def schema_events(self, part: Slice, after: int) -> list[SchemaEvent]:
        """What was said of schemas, in groups after `after`, in their order."""

    def made(
        self, part: Slice, tables: Mapping[str, SparkTable], typed: TypedTables, began: Cursors
    ) -> SliceRows:
        """The rows that tables lack; `began` are the cursors that settlements are summed up for."""

    def rows(self, table: SparkTable, rows: pa.Table) -> Rows:
        """Rows that the driver made, to be written to this table."""
