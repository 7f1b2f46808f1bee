"""The header attributes of messages in the table: three columns that are read only where a value
isn't the default.

A row group's statistics tell that; files of earlier versions have none, and there the columns are
read. An array of a `Columns` has an element for each row; None stands for rows that are all plain.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s

TIMES: Final = ("expires_at", "deliver_at")
NAMES: Final = ("priority", *TIMES)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The header attributes of some rows, as in `HeaderAttributes` but never empty."""

    priority: npt.NDArray[np.uint8]
    expires_at: Int64s
    deliver_at: Int64s

    @classmethod
    def plain(cls, count: int) -> "Columns":
        times = np.zeros(count, np.int64)
        return cls(np.full(count, PRIORITY, np.uint8), times, times)

    def take(self, which: Int64s | slice) -> "Columns":
        return Columns(self.priority[which], self.expires_at[which], self.deliver_at[which])


def said(group: pq.RowGroupMetaData, at: dict[str, int]) -> tuple[str, ...]:
    """Return the columns with non-default values in this row group; `at` has columns' indices."""
    return tuple(name for name in NAMES if name in at and not _usual(name, group, at[name]))


def _usual(name: str, group: pq.RowGroupMetaData, at: int) -> bool:
    found = group.column(at).statistics
    if found is None:
        return False
    if name in TIMES:
        return bool(found.null_count == group.num_rows)
    return bool(found.has_min_max and found.min == found.max == PRIORITY)


def columns_of(table: pa.Table) -> Columns | None:
    """Return the header attributes of these rows, whose columns may be missing; None if all are
    plain."""
    count = table.num_rows
    priority = np.full(count, PRIORITY, np.uint8)
    if "priority" in table.column_names:
        priority = table["priority"].to_numpy().astype(np.uint8)
    expires_at, deliver_at = (
        times(table[name]) if name in table.column_names else np.zeros(count, np.int64)
        for name in TIMES
    )
    found = Columns(priority, expires_at, deliver_at)
    return None if (priority == PRIORITY).all() and not _some_time(found) else found


def _some_time(of: Columns) -> bool:
    return bool(of.expires_at.any() or of.deliver_at.any())


def times(column: Chunked) -> Int64s:
    """Convert a column of timestamps to microseconds, 0 for null."""
    return pc.cast(column, pa.int64()).fill_null(pa.scalar(0, pa.int64())).to_numpy()


def joined(parts: Sequence[tuple[Columns | None, int]]) -> Columns | None:
    """Concatenate the header attributes of parts; each part comes with its count of rows."""
    if all(columns is None for columns, _ in parts):
        return None
    every = [columns or Columns.plain(count) for columns, count in parts]
    return Columns(
        np.concatenate([one.priority for one in every]),
        np.concatenate([one.expires_at for one in every]),
        np.concatenate([one.deliver_at for one in every]),
    )


def attributes(
    columns: Columns | None, first: int, listed: "array[int] | None", begin: int, end: int
) -> HeaderAttributes | None:
    """Return the header attributes of rows begin .. end - 1 for a batch; None when all of these are
    plain."""
    if columns is None:
        return None
    some = columns.take(slice(begin, end))
    priority = b"" if (some.priority == PRIORITY).all() else some.priority.tobytes()
    expires_at = some.expires_at.tobytes() if some.expires_at.any() else b""
    deliver_at = some.deliver_at.tobytes() if some.deliver_at.any() else b""
    if not (priority or expires_at or deliver_at):
        return None
    return HeaderAttributes(first, listed, priority, expires_at, deliver_at)
