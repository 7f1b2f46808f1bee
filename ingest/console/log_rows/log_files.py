"""The data files of one snapshot, read a row group at a time, and no more than a request may.

Rule: a file that the table has left behind meanwhile raises `Replaced`, and the request begins
      again with a newer snapshot; a file that is missing all the same is a StoreError.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.data_file import completed
from distributary.pipeline.tables.topic_log.table_view import Replaced, TableView

#: The bounds of a column in a row group; None where they aren't recorded.
Bounds = tuple[Any, Any] | None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group of a file, by its footer."""

    file: AddedFile
    nth: int
    rows: int
    sequence: Bounds
    group: Bounds
    topic: Bounds
    published_at: Bounds


@dataclass(slots=True)
class LogFiles:
    """Reads row groups, and counts what it reads; to be closed. After `bytes_max` it is `full`: the
    caller stops then, and says so."""

    view: TableView
    bytes_max: int
    bytes: int = 0
    _open: dict[str, pq.ParquetFile] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in [*self._open]:
            self.close(name)

    @property
    def full(self) -> bool:
        """Whether the request has read as much as it may."""
        return self.bytes >= self.bytes_max

    def close(self, path: str) -> None:
        """The file isn't needed any more."""
        self._open.pop(path).close()

    def row_groups(self, file: AddedFile) -> list[RowGroup]:
        """The row groups of a file; it stays open. Raises Replaced and StoreError."""
        with self._told(file):
            metadata = self._parquet(file).metadata
        at = {metadata.schema.column(nth).path: nth for nth in range(metadata.num_columns)}
        return [
            _row_group(file, nth, metadata.row_group(nth), at)
            for nth in range(metadata.num_row_groups)
        ]

    def read(self, one: RowGroup, columns: Sequence[str]) -> pa.Table:
        """These columns of a row group; one that a file of before lacks is null in it. Raises
        Replaced and StoreError."""
        kind = topic_log_schema.FILES[one.file.record]
        with self._told(one.file):
            parquet = self._parquet(one.file)
            there = set(parquet.schema_arrow.names)
            names = [name for name in columns if name in there]
            metadata = parquet.metadata.row_group(one.nth)
            for nth in range(metadata.num_columns):
                column = metadata.column(nth)
                if column.path_in_schema.partition(".")[0] in names:
                    self.bytes += column.total_uncompressed_size
            table = parquet.read_row_group(one.nth, columns=names, use_threads=False)
        return completed(table, pa.schema([kind.field(name) for name in columns]))

    def scan(self, file: AddedFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of all row groups of a file, which is closed behind them."""
        for one in self.row_groups(file):
            yield self.read(one, columns)
        self.close(file.path)

    def _parquet(self, file: AddedFile) -> pq.ParquetFile:
        found = self._open.get(file.path)
        if found is None:
            found = self._open[file.path] = self.view.store.parquet(file.path)
        return found

    @contextmanager
    def _told(self, file: AddedFile) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if self.view.replaced(file):
                raise Replaced(f"{file.path} was replaced while it was read") from error
            raise StoreError(f"{self.view.uri}/{file.path} is missing") from error
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{self.view.uri}/{file.path} can't be read: {error}") from error


def _row_group(
    file: AddedFile, nth: int, metadata: pq.RowGroupMetaData, at: dict[str, int]
) -> RowGroup:
    def bounds(name: str) -> Bounds:
        found = metadata.column(at[name]).statistics if name in at else None
        return (found.min, found.max) if found is not None and found.has_min_max else None

    return RowGroup(
        file,
        nth,
        metadata.num_rows,
        bounds("sequence"),
        bounds("group"),
        bounds("topic"),
        bounds("published_at"),
    )


def may_have(bounds: Bounds, value: int) -> bool:
    """Whether a number may lie between bounds."""
    return bounds is None or bounds[0] <= value <= bounds[1]
