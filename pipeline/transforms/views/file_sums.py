"""Sums over a table's rows, made where its files lie: no row passes through Spark's readers.

Rule: all tasks of a query read the same version of the table, which one task finds out when the
      query runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from distributary.pipeline.transforms.schema.home_tables import SCHEMAS, Tables
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema

#: A column of numbers.
Numbers: TypeAlias = NDArray[np.int64]

#: Tasks of a query at most: each begins with a process, or waits for one.
TASKS_MAX: Final = 16

#: Rows that are summed up at once, about: 40 MB of acks.
TOGETHER: Final = 500_000

_PART = StructType(
    [
        StructField("path", StringType()),
        StructField("row_groups", ArrayType(IntegerType())),
    ]
)
_PARTS: Final = "parts"

#: What is known when the query runs (one row) and rows, some at a time, in; sums out.
Sum: TypeAlias = Callable[[pa.RecordBatch, Iterable[pa.Table]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The columns that are read of a table's files; of a table partitioned by days the days from
    `since` to `until`. A part of a file may be left out if no row of it has `least` or more in its
    first column."""

    path: str
    columns: Sequence[str]
    since: date | None = None
    until: date | None = None
    least: int | None = None


def within_reach(tables: Tables) -> bool:
    """Whether tasks can read the files by themselves: on a disk, by a Spark in one process, whose
    workers have what this process has."""
    if ":/" in tables.folder:
        return False
    try:
        return str(tables.spark.sparkContext.master).startswith("local")
    except PySparkException:  # Spark Connect has no context
        return False


def summed(known: DataFrame, reading: Reading, sums: Sum, kind: StructType) -> DataFrame:
    """Return the sums of the rows: rows of `kind`, some for each task. `known` has one row."""
    wanted = int(cast("str", known.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    tasks = min(wanted, TASKS_MAX)
    of_tasks = StructType([*known.schema, StructField(_PARTS, ArrayType(_PART))])
    parts = known.mapInArrow(partial(dealt, reading=reading, tasks=tasks), of_tasks)
    return parts.repartition(tasks).mapInArrow(partial(sums_of, reading=reading, sums=sums), kind)


def table_files(path: str) -> list[tuple[str, date | None]]:
    """The table's files as it is now, with the days that they are of."""
    # A cluster's executors import the views, and may not have what these need.
    from distributary.pipeline.tables.delta.pinned_table import pin  # noqa: PLC0415
    from distributary.pipeline.tables.delta.store import LocalStore  # noqa: PLC0415

    root = Path(path)
    names = [name for name, _ in pin(LocalStore(root)).files]
    return [(str(root / name), _day(name)) for name in names]


def version_of(path: str) -> int:
    """The table's version as it is now."""
    from distributary.pipeline.tables.delta.pinned_table import pin  # noqa: PLC0415 - as above
    from distributary.pipeline.tables.delta.store import LocalStore  # noqa: PLC0415

    return pin(LocalStore(Path(path))).version


def count_of(path: str) -> int:
    """How many rows the table's log says that it has; of a file of which it doesn't say, the
    file."""
    # As above.
    from distributary.pipeline.tables.delta.pinned_table import row_counts  # noqa: PLC0415
    from distributary.pipeline.tables.delta.store import LocalStore  # noqa: PLC0415

    counts = row_counts(LocalStore(Path(path)))
    return sum(
        pq.read_metadata(f"{path}/{name}").num_rows if count is None else count
        for name, count in counts.items()
    )


def small_table(
    folder: str, name: str, columns: Sequence[str], *, only: tuple[str, str] | None = None
) -> list[dict[str, Any]]:
    """These columns of a table in the folder as it is now, null in files that are older than they
    are; `only` those rows that have this value in that column, which is one of these."""
    schema = arrow_schema(StructType([SCHEMAS[name][one] for one in columns]))
    found = list[dict[str, Any]]()
    for file, _ in table_files(f"{folder}/{name}"):
        with opened(file) as one:
            there = [column for column in columns if column in one.schema_arrow.names]
            rows = one.read(columns=there, use_threads=False)
        if only is not None:
            rows = rows.filter(pc.equal(rows[only[0]], pa.scalar(only[1])))
        kinds = pa.schema([schema.field(column) for column in there])
        unknown = dict.fromkeys(column for column in columns if column not in there)
        found += [unknown | row for row in rows.select(there).cast(kinds).to_pylist()]
    return found


def _day(name: str) -> date | None:
    folder, _, _ = name.rpartition("/")
    return date.fromisoformat(folder.removeprefix("day=")) if folder else None


def opened(path: str, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file of any writer, with times in microseconds and `texts` kept as dictionaries."""
    return pq.ParquetFile(path, read_dictionary=list(texts), coerce_int96_timestamp_unit="us")


def all_rows(reading: Reading) -> Iterator[pa.Table]:
    """TOGETHER rows at a time, about, of the table as it is now."""
    return _read(reading, [{"path": path, "row_groups": [at]} for path, at, _ in _units(reading)])


def dealt(
    batches: Iterator[pa.RecordBatch], reading: Reading, tasks: int
) -> Iterator[pa.RecordBatch]:
    """The row for each task, with neighbouring parts of about as many rows."""
    for known in batches:
        if not known.num_rows:
            continue
        units = list(_units(reading))
        total, before = sum(rows for _, _, rows in units), 0
        parts: list[list[dict[str, object]]] = [[] for _ in range(tasks)]
        for path, at, rows in units:
            mine = parts[before * tasks // total]
            before += rows
            if mine and mine[-1]["path"] == path:
                cast("list[int]", mine[-1]["row_groups"]).append(at)
            else:
                mine.append({"path": path, "row_groups": [at]})
        some = [one for one in parts if one]
        repeated = known.take(cast("Any", pa.array([0] * len(some), pa.int64())))
        kind = pa.list_(pa.struct([("path", pa.string()), ("row_groups", pa.list_(pa.int32()))]))
        yield repeated.append_column(_PARTS, cast("Any", pa.array(some, kind)))


def _units(reading: Reading) -> Iterator[tuple[str, int, int]]:
    for path, day in table_files(reading.path):
        if day is not None and (
            (reading.since is not None and day < reading.since)
            or (reading.until is not None and day > reading.until)
        ):
            continue
        metadata = pq.read_metadata(path)
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            if group.num_rows and not _all_less(group, reading):
                yield path, at, group.num_rows


def _all_less(group: pq.RowGroupMetaData, reading: Reading) -> bool:
    """Whether the file says that all of the first column is less than what is asked for."""
    if reading.least is None:
        return False
    columns = (group.column(nth) for nth in range(group.num_columns))
    known = next(one.statistics for one in columns if one.path_in_schema == reading.columns[0])
    return known is not None and known.has_min_max and cast("int", known.max) < reading.least


def sums_of(
    batches: Iterator[pa.RecordBatch], reading: Reading, sums: Sum
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for nth in range(batch.num_rows):
            row = batch.slice(nth, 1)
            parts = cast("Any", row.column(_PARTS)[0]).as_py()
            yield from sums(row, _read(reading, parts))


def _read(reading: Reading, parts: Iterable[dict[str, Any]]) -> Iterator[pa.Table]:
    """TOGETHER rows at a time, about; texts are numbered."""
    some, count = list[pa.Table](), 0
    for part in parts:
        with pq.ParquetFile(part["path"]) as known:
            kinds = known.schema_arrow
        texts = [name for name in reading.columns if pa.types.is_string(kinds.field(name).type)]
        with opened(part["path"], texts) as file:
            for at in part["row_groups"]:
                rows = file.read_row_group(at, columns=[*reading.columns], use_threads=False)
                some.append(rows.cast(_of_no_zone(rows.schema)))
                count += some[-1].num_rows
                if count >= TOGETHER:
                    yield pa.concat_tables(some)
                    some, count = [], 0
    if some:
        yield pa.concat_tables(some)


def _of_no_zone(kinds: pa.Schema) -> pa.Schema:
    """All times are UTC's: some writers say so in their files, others don't."""
    return pa.schema(
        [
            one.with_type(pa.timestamp("us")) if pa.types.is_timestamp(one.type) else one
            for one in kinds
        ]
    )


def numbered(rows: pa.Table, name: str) -> tuple[Numbers, list[str]]:
    """A column of texts: the number of each, and the texts; no number may be null."""
    column: Any = rows[name].combine_chunks()
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return column.indices.to_numpy(), column.dictionary.to_pylist()


def numbers(rows: pa.Table, name: str) -> Numbers:
    """A column of numbers, or of times in microseconds, without nulls."""
    column = rows[name]
    whole = pc.cast(column, pa.int64()) if pa.types.is_timestamp(column.type) else column
    return cast("Numbers", cast("Any", whole).to_numpy())
