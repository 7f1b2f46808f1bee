"""`topic_log` as of one version, read without owning it: nothing is made, nothing is written.

While a gateway runs, its table moves on under a reader: files that a later version no longer names
are deleted some day. Who reads through a view and misses a file calls `moved`: when the table has
left the file behind, the answer is `Moved`, and the reader begins again with a new view.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from pipeline.errors import StoreError
from pipeline.tables import schema

T = TypeVar("T")

#: Times that something is read from its beginning before the gateway is called too quick.
TRIES = 5

#: What the names of data files that no upkeep has merged begin with, if they say a tier at all.
_TIER_PREFIX = "t"


class Moved(StoreError):
    """What was being read was replaced meanwhile; read again when the gateway has less to do."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file as the log describes it; bounds are None where the log has none."""

    path: str
    size: int
    record: str
    day: date
    rows: int
    sequences: tuple[int, int] | None
    groups: tuple[int, int] | None
    topics: tuple[str, str] | None

    @property
    def tier(self) -> int:
        """How often its rows were merged; 0 for a commit's own file."""
        head = self.path.rpartition("/")[2].partition("-")[0]
        digits = head.removeprefix(_TIER_PREFIX)
        return int(digits) if head != digits and digits.isdigit() else 0


@dataclass(frozen=True, slots=True)
class TableView:
    """The table as of `version`: its last group, its next sequence, and its data files."""

    root: Path
    version: int
    group: int
    sequence: int
    files: tuple[DataFile, ...]

    def of(self, record: str) -> tuple[DataFile, ...]:
        return tuple(file for file in self.files if file.record == record)

    def moved(self, file: DataFile) -> bool:
        """Whether the table has left this file behind since the view was opened."""
        try:
            return file.path not in {other.path for other in open_view(self.root).files}
        except StoreError:
            return False


def unmoved(read: Callable[[], T]) -> T:
    """What `read` gives when nothing was replaced under it; begun again when something was.

    Raises StoreError when that doesn't end.
    """
    for _ in range(TRIES - 1):
        with suppress(Moved):
            return read()
    return read()


def open_view(root: Path) -> TableView:
    """The table as it is now. Raises StoreError when it can't be read or isn't a `topic_log`."""
    try:
        table = DeltaTable(root)
        _check_ours(root, table)
        return TableView(
            root,
            table.version(),
            table.transaction_version("journal") or 0,
            table.transaction_version("sequence") or 0,
            tuple(_files(table)),
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"{root} can't be opened as a Delta table: {error}") from error


def _check_ours(root: Path, table: DeltaTable) -> None:
    protocol = table.protocol()
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    due = (schema.READER_VERSION, schema.WRITER_VERSION)
    if versions != due:
        raise StoreError(
            f"{root} needs reader {versions[0]} and writer {versions[1]} of the Delta protocol, "
            f"a topic_log needs {due[0]} and {due[1]}: another program has changed it"
        )
    wanted = Schema.from_arrow(schema.SCHEMA)
    if table.schema() != wanted or table.metadata().partition_columns != schema.PARTITIONS:
        raise StoreError(
            f"{root} has other columns or partitions than a topic_log; it was written by another "
            "version of the program, or by another program"
        )


def _files(table: DeltaTable) -> Sequence[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    return [
        DataFile(
            row["path"],
            row["size_bytes"],
            row["partition.record"],
            row["partition.day"],
            row["num_records"] or 0,
            _bounds(row.get("min.sequence"), row.get("max.sequence")),
            _bounds(row.get("min.group"), row.get("max.group")),
            _bounds(row.get("min.topic"), row.get("max.topic")),
        )
        for row in actions.to_pylist()
    ]


def _bounds(low: T | None, high: T | None) -> tuple[T, T] | None:
    return None if low is None or high is None else (low, high)
