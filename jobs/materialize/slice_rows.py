"""Rows of a slice for each table: the protocols of the two ways to make them."""

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
    """The rows of one slice that the tables lack."""

    def of(self, name: str) -> Rows | None:
        """Return the rows of `messages`, `acks` or `subscriptions`; None if the slice has none."""

    def typed(self) -> Mapping[str, str]:
        """Return the typed tables that get rows, with their topics; that of `rejected` is empty."""

    def sums(self) -> pa.Table | None:
        """Return the sums of its settlements by subscription; None if it has none."""


class SliceMaker(Protocol):
    """A way to make rows of slices."""

    def around(self, part: Slice) -> AbstractContextManager[None]:
        """Return the context in which a slice is made and written."""

    def events(self, part: Slice, after: int) -> list[Row]:
        """Return events of subscriptions, in groups after `after`."""

    def schema_events(self, part: Slice, after: int) -> list[SchemaEvent]:
        """Return events of schemas, in groups after `after`, in their order."""

    def made(
        self, part: Slice, tables: Mapping[str, SparkTable], typed: TypedTables, began: Cursors
    ) -> SliceRows:
        """Return the rows that tables lack; `began`: the cursors for the sums of settlements."""

    def rows(self, table: SparkTable, rows: pa.Table) -> Rows:
        """Return rows that the driver made in the form to write them to this table."""
