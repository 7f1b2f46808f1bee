"""Rows of the log's files, read with Arrow in the process that needs them: the driver or a task."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.data_file import completed
from distributary.pipeline.tables.reading.part_reading import Unit

#: Rows and bytes of a batch, about: smaller row groups are read together.
BATCH_ROWS: Final = 2_048
BATCH_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class LogRows:
    """The rows of one record in these files and row groups, of groups after `after` and up to
    `upto`."""

    log: str
    record: str
    units: tuple[Unit, ...]
    after: int
    upto: int

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read batches with these columns and `group`; columns that a file lacks are null. Raises
        OSError when a file is gone or damaged."""
        kind = topic_log_schema.ROWS[self.record]
        names = [name for name in kind.names if name in columns or name == "group"]
        wanted = pa.schema([kind.field(name) for name in names])
        for unit in self.units:
            with pq.ParquetFile(f"{self.log}/{unit.path}") as file:
                for groups in self._together(file, unit):
                    yield from self._batches(file, groups, unit, wanted)

    def _batches(
        self, file: pq.ParquetFile, groups: list[int], unit: Unit, wanted: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        there = [name for name in wanted.names if name in file.schema_arrow.names]
        rows = file.read_row_groups(groups, columns=there, use_threads=False)
        if "day" in wanted.names:
            day = pa.repeat(pa.scalar(dt.date.fromisoformat(unit.day), pa.date32()), rows.num_rows)
            rows = rows.append_column("day", day)
        rows = completed(rows, wanted)
        here = pc.and_(
            pc.greater(rows["group"], pa.scalar(self.after)),
            pc.less_equal(rows["group"], pa.scalar(self.upto)),
        )
        if not pc.all(here).as_py():
            rows = rows.filter(here)
        yield from rows.combine_chunks().to_batches()

    def _together(self, file: pq.ParquetFile, unit: Unit) -> Iterator[list[int]]:
        """Yield row groups that may have any of the rows, as many as make a batch."""
        some, rows, size = list[int](), 0, 0
        for at in unit.row_groups or range(file.num_row_groups):
            if not may_have(file.metadata, at, self.after, self.upto):
                continue
            group = file.metadata.row_group(at)
            if some and (
                rows + group.num_rows > 2 * BATCH_ROWS or size + group.total_byte_size > BATCH_BYTES
            ):
                yield some
                some, rows, size = [], 0, 0
            some.append(at)
            rows, size = rows + group.num_rows, size + group.total_byte_size
        if some:
            yield some


def may_have(metadata: pq.FileMetaData, at: int, after: int, upto: int) -> bool:
    """Whether a row group may have rows of groups above `after` and up to `upto`."""
    group = metadata.row_group(at)
    column = metadata.schema.names.index("group")
    found = group.column(column).statistics
    if found is None or not found.has_min_max:
        return True
    bounds: tuple[Any, Any] = found.min, found.max
    return bool(bounds[1] > after and bounds[0] <= upto)


def parts(
    log: str, record: str, files: Sequence[AddedFile], after: int, upto: int, *, part_bytes: int
) -> list[LogRows]:
    """Divide the rows of one record into parts of about `part_bytes`, in the files' order. A bigger
    file is cut between row groups."""
    made: list[LogRows] = []
    units, filled = list[Unit](), 0
    for unit, size in _units(log, record, files, after, upto, part_bytes):
        if units and filled + size > part_bytes:
            made.append(LogRows(log, record, tuple(units), after, upto))
            units, filled = [], 0
        if units and units[-1].path == unit.path:
            units[-1] = Unit(unit.path, unit.day, units[-1].row_groups + unit.row_groups)
        else:
            units.append(unit)
        filled += size
    if units:
        made.append(LogRows(log, record, tuple(units), after, upto))
    return made


def _units(
    log: str, record: str, files: Sequence[AddedFile], after: int, upto: int, part_bytes: int
) -> Iterator[tuple[Unit, int]]:
    for file in files:
        if file.record != record:
            continue
        if file.size <= 2 * part_bytes:
            yield Unit(file.path, file.day), file.size
            continue
        metadata = pq.read_metadata(f"{log}/{file.path}")
        for at in range(metadata.num_row_groups):
            if may_have(metadata, at, after, upto):
                group = metadata.row_group(at)
                size = sum(
                    group.column(nth).total_compressed_size for nth in range(group.num_columns)
                )
                yield Unit(file.path, file.day, (at,)), size
