"""Arrow rows written as data files of Spark's tables, in the process that has them, without a JVM.

A file belongs to no version until a commit names it (`jobs.tables.delta_commit`). It equals a file
by Delta's own writer: the folder's name has the partition's value, and the action that adds the
file has its number of rows and the bounds of the columns that prune.

Works only on a file system where a path without `://` is the same here and for the driver.
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.tables.arrow.arrow_types import Chunked, Field
from distributary.pipeline.tables.delta.commits import time_text

#: As in `topic_log`: the quickest level halves bodies of text.
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1
#: A row group's rows and bytes, at most, about. They are in memory until it is written.
ROW_GROUP_ROWS: Final = 65_536
ROW_GROUP_BYTES: Final = 32 << 20
#: Values in the sample that tells whether a dictionary makes a column smaller: it does not if nine
#: of ten are new. Then the writer would look each value up, and drop the dictionary when it's full.
SAMPLE_ROWS: Final = 1_000
NEW_VALUES_MAX: Final = 0.9


@dataclass(frozen=True, slots=True)
class RowsLayout:
    """A table's path and layout: its columns, the partition column (days only), the columns whose
    bounds a commit tells, and those that a dictionary would not make smaller."""

    path: str
    schema: pa.Schema
    partition: str | None
    bounded: tuple[str, ...]
    plain: frozenset[str] = frozenset()

    @property
    def in_files(self) -> pa.Schema:
        """The columns that the files themselves contain."""
        return pa.schema([one for one in self.schema if one.name != self.partition])


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file that is on the disk, and the action that adds it to the table."""

    action: str
    rows: int


@dataclass(slots=True)
class RowFiles:
    """Takes rows, and makes one file for each partition in them.

    `close` completes the files and returns them; without it they aren't whole.
    """

    layout: RowsLayout
    _open: "dict[str | None, _OpenFile]" = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with all columns of the layout."""
        if not rows.num_rows:
            return
        for day, part in self._parts(rows):
            if day not in self._open:
                self._open[day] = _OpenFile(self.layout, day, part)
            self._open[day].add(part.select(self.layout.in_files.names))

    def _parts(self, rows: pa.RecordBatch) -> Iterable[tuple[str | None, pa.RecordBatch]]:
        if self.layout.partition is None:
            return [(None, rows)]
        days = rows.column(self.layout.partition)
        found = pc.unique(days)
        if len(found) == 1:
            return [(str(found[0]), rows)]
        return [(str(day), rows.filter(pc.equal(days, day))) for day in found]

    def close(self) -> list[RowFile]:
        """Complete all files and return them."""
        return [one.close() for one in self._open.values()]


def _leaves(one: Field, path: str = "", *, repeated: bool = True) -> Iterator[str]:
    """Return Parquet's names of a column's leaves; without `repeated`, those inside of lists and
    maps are left out."""
    path = f"{path}{one.name}"
    match one.type:
        case pa.MapType() | pa.ListType() if not repeated:
            return
        case pa.MapType() as kind:
            yield from _leaves(kind.key_field.with_name("key"), f"{path}.key_value.")
            yield from _leaves(kind.item_field.with_name("value"), f"{path}.key_value.")
        case pa.ListType() as kind:
            yield from _leaves(kind.value_field.with_name("element"), f"{path}.list.")
        case pa.StructType() as kind:
            for inner in kind:
                yield from _leaves(inner, f"{path}.", repeated=repeated)
        case _:
            yield path


def _leaves_of(some: Iterable[Field], *, repeated: bool = True) -> list[str]:
    return [leaf for one in some for leaf in _leaves(one, repeated=repeated)]


def _repeats(column: "pa.Array[Any]") -> bool:
    """Whether its first values repeat often enough for a dictionary; true for nested types."""
    some = column.slice(0, SAMPLE_ROWS)
    if pa.types.is_nested(some.type):
        return True
    found: int = cast("Any", pc.count_distinct(some)).as_py()
    return found <= NEW_VALUES_MAX * (len(some) - some.null_count)


class _OpenFile:
    """One file, whose encoding fits its first rows, and its statistics for the commit."""

    def __init__(self, layout: RowsLayout, day: str | None, first: pa.RecordBatch) -> None:
        self._layout, self._day = layout, day
        folder = "" if layout.partition is None else f"{layout.partition}={day}/"
        self._name = f"{folder}part-{uuid.uuid4()}.zstd.parquet"
        path = Path(layout.path) / self._name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = layout.in_files
        some = [one for one in kind if one.name not in layout.plain]
        # The bounded columns have statistics, for readers that skip parts of a file.
        counted = [one for one in kind if one in some or one.name in layout.bounded]
        repeating = [one for one in some if _repeats(first.column(one.name))]
        self._file = pq.ParquetWriter(
            path,
            kind,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=_leaves_of(repeating),  # type: ignore[arg-type] # stubs: bool only
            # No reader asks for the bounds of repeated values (lists, maps).
            write_statistics=_leaves_of(counted, repeated=False),
            store_schema=False,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows, self._bytes, self._count = 0, 0, 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._nulls = dict.fromkeys(layout.bounded, 0)

    def add(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._file.write_table(table, row_group_size=table.num_rows)
        for name in self._layout.bounded:
            self._note(name, table[name])
        self._count += table.num_rows
        self._waiting, self._rows, self._bytes = [], 0, 0

    def _note(self, name: str, column: Chunked) -> None:
        self._nulls[name] += column.null_count
        numbers = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        found: dict[str, Any] = cast("Any", pc.min_max(numbers)).as_py()
        if found["min"] is None:
            return
        low, high = self._bounds.get(name, (found["min"], found["max"]))
        self._bounds[name] = min(low, found["min"]), max(high, found["max"])

    def close(self) -> RowFile:
        self._flush()
        self._file.close()
        path = Path(self._layout.path) / self._name
        values = {} if self._layout.partition is None else {self._layout.partition: self._day}
        add = {
            "path": self._name,
            "partitionValues": values,
            "size": path.stat().st_size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(self._statistics(), separators=(",", ":")),
        }
        return RowFile(json.dumps({"add": add}), self._count)

    def _statistics(self) -> Mapping[str, object]:
        lows: dict[str, object] = {}
        highs: dict[str, object] = {}
        for name, (low, high) in self._bounds.items():
            is_time = pa.types.is_timestamp(self._layout.schema.field(name).type)
            lows[name] = time_text(low) if is_time else low
            highs[name] = time_text(-(-high // 1_000) * 1_000) if is_time else high
        return {
            "numRecords": self._count,
            "minValues": lows,
            "maxValues": highs,
            "nullCount": self._nulls,
        }
