"""A Delta table at one version, by any writer, read by deltalake for other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import AddedFile, FileAttributes
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import TableHead, TableLog
from distributary.pipeline.tables.delta.table_state import (
    JOURNAL_APP,
    LIVE_APP,
    OWNER_APP,
    SEQUENCE_APP,
    TableState,
)
from distributary.pipeline.topic_log_columns import READER_VERSION


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table at `version`: Delta's id, its data files with their bytes. `group` and `sequence` are
    positions recorded in a `topic_log`: its last group and its next sequence; 0 in other tables."""

    id: str
    version: int
    files: tuple[tuple[str, int], ...]
    group: int
    sequence: int


def file_entries(store: Store) -> list[dict[str, Any]]:
    """Return the log's entry for each data file, by deltalake's names of columns. Raises StoreError
    when the table can't be read, or when its rows aren't simply those of its files."""
    with _errors_of(store):
        actions = _plain_files(store).get_add_actions(flatten=True)
        return pa.RecordBatchReader.from_stream(actions).read_all().to_pylist()


def row_counts(store: Store) -> dict[str, int | None]:
    """Return the data files with the row counts in the log, None where it has none. Raises
    StoreError as `file_entries` does."""
    return {str(row["path"]): row.get("num_records") for row in file_entries(store)}


def pin(store: Store) -> PinnedTable:
    """Return the table as it is now. Raises StoreError as `file_entries` does."""
    with _errors_of(store):
        table = _plain_files(store)
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
        paths, sizes = (actions[name].to_pylist() for name in ("path", "size_bytes"))
        return PinnedTable(
            str(table.metadata().id),
            table.version(),
            tuple((str(path), int(size or 0)) for path, size in zip(paths, sizes, strict=True)),
            table.transaction_version(JOURNAL_APP) or 0,
            table.transaction_version(SEQUENCE_APP) or 0,
        )


@contextmanager
def _errors_of(store: Store) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        raise StoreError(f"{store.uri} can't be opened as a Delta table: {error}") from error


def _plain_files(store: Store) -> DeltaTable:
    """Open the table, whose rows must be those of its files under the names of its columns. From
    reader 2 on, Delta has deletion vectors (deleted rows stay in files) and column mapping (files
    have other names); our tables have neither unless another program has altered them.

    Raises StoreError for such a table, and deltalake's errors.
    """
    table = DeltaTable(store.uri, storage_options=store.options)
    reader = table.protocol().min_reader_version
    if reader != READER_VERSION:
        raise StoreError(
            f"{store.uri} needs reader {reader} of the Delta protocol, and ours is "
            f"{READER_VERSION}: another program has altered the table (deletion vectors, column "
            "mapping). Delete it if one of Spark's jobs can make it again; else restore it from a "
            "backup"
        )
    return table


def head_of(table: DeltaTable) -> TableHead:
    """Return the table's description apart from its files."""
    protocol, said = table.protocol(), table.metadata()
    metadata = {
        "id": str(said.id),
        "schemaString": table.schema().to_json(),
        "partitionColumns": said.partition_columns,
        "configuration": said.configuration,
        "createdTime": said.created_time,
    }
    return TableHead(protocol.min_reader_version, protocol.min_writer_version, metadata)


def state_of(table: DeltaTable) -> TableState:
    """Return the state of a `topic_log`, checked by `check_ours`, at the opened version."""
    apps = (JOURNAL_APP, SEQUENCE_APP, OWNER_APP, LIVE_APP)
    positions = {app: table.transaction_version(app) or 0 for app in apps}
    files = tuple(live_files(table))
    return TableState.of(TableLog(table.version(), head_of(table), positions, files))


def live_files(table: DeltaTable) -> list[AddedFile]:
    """Return the table's current data files, as its log describes them."""
    # pa.table() would do as well, but it imports pandas: half a second of a start.
    actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    if not actions.num_rows:
        return []
    return [
        AddedFile(
            row["path"],
            row["size_bytes"],
            row["partition.record"],
            str(row["partition.day"]),  # a foreign file may have none; it is refused later
            row["num_records"] or 0,
            row.get("min.sequence"),
            row.get("max.sequence"),
            row.get("min.topic"),
            row.get("max.topic"),
            row.get("min.group"),
            row.get("max.group"),
            row["modification_time"],
            _attributes(row),
        )
        for row in actions.to_pylist()
    ]


def _attributes(row: dict[str, Any]) -> FileAttributes | None:
    lows, highs, nulls = (
        {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        for prefix in ("min.", "max.", "null_count.")
    )
    return commits.attributes_of(lows, highs, nulls, row["num_records"] or 0)
