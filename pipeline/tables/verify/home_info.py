"""Numbers about a home for `distributary info`, read without owning it.

Nothing is written. Messages are counted by their topics and sequences alone; the state of
subscriptions is folded from the log. Groups in the journal that the table lacks are counted in
groups and bytes, and are in no other number.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.store import Store, beside
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.table_view import (
    Replaced,
    TableView,
    again_if_replaced,
    open_view,
)
from distributary.pipeline.tables.verify.check import Findings
from distributary.pipeline.tables.verify.home_parts import HomeParts, disk_parts
from distributary.pipeline.tables.verify.verify_entries import LogFolder, made
from distributary.pipeline.tables.verify.verify_files import FileReader
from distributary.pipeline.tables.verify.verify_home import check_is_home
from distributary.pipeline.tables.verify.verify_incarnations import (
    Incarnations,
    Said,
    read_incarnations,
)
from distributary.pipeline.tables.verify.verify_journal import JournalView
from distributary.pipeline.tables.verify.verify_messages import GroupRows, Messages, check_messages
from distributary.pipeline.tables.verify.verify_settlements import Settlements, Standing


@dataclass(frozen=True, slots=True)
class TopicLine:
    """One topic's messages in the table. `bytes` are those on the disk, compressed; a row group of
    several topics counts for each topic in proportion to its messages."""

    topic: str
    messages: int
    first: int
    last: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SubscriptionLine:
    """A durable subscription. `backlog` is owed and not settled; `settled` are above the floor.
    `policy` is the text of its own policy; empty if it has none."""

    subscription: str
    topic: str
    floor: int
    settled: int
    backlog: int
    paused: bool = False
    policy: str = ""


@dataclass(frozen=True, slots=True)
class JournalLine:
    """The journal. `uncommitted` is the number of groups that the table lacks, with their bytes."""

    segments: int
    frames: int
    bytes: int
    uncommitted: int
    uncommitted_bytes: int


@dataclass(frozen=True, slots=True)
class FilesLine:
    """The active data files of one record and tier."""

    record: str
    tier: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableLine:
    """The log's own table; `checkpoint` is None before the first, `oldest_day` without rows."""

    version: int
    group: int
    next_sequence: int
    files: tuple[FilesLine, ...]
    entries: int
    checkpoint: int | None
    oldest_day: str | None


@dataclass(frozen=True, slots=True)
class SparkLine:
    """One of Spark's tables; `log_version` is the version of `topic_log` that it has read."""

    table: str
    version: int
    log_version: int | None


@dataclass(frozen=True, slots=True)
class HomeInfo:
    """All numbers, as of `table.version`; `table` is None in a home that has none yet."""

    home: str
    journal: JournalLine
    table: TableLine | None = None
    topics: tuple[TopicLine, ...] = ()
    subscriptions: tuple[SubscriptionLine, ...] = ()
    spark: tuple[SparkLine, ...] = ()
    prepared: tuple[str, ...] = ()  #: global ids of transactions that haven't ended


def take(home: Home, store: Store | None = None) -> HomeInfo:
    """Count a home. The log's table lies in the home, or in `store`.

    Raises InvalidRequest for a folder that is no home, StoreError for unreadable files.
    """
    check_is_home(home)
    return take_parts(disk_parts(home, store))


def take_parts(parts: HomeParts) -> HomeInfo:
    """As `take`, for a home whose parts lie anywhere. Raises StoreError as above."""
    return again_if_replaced(parts.store, lambda: _take(parts))


def _take(parts: HomeParts) -> HomeInfo:
    journal, store = parts.journal(), parts.store
    if journal.problems:
        raise StoreError(f"{journal.problems[0]}. `distributary verify` says more")
    if not made(store):
        return HomeInfo(parts.address, _journal(journal, 0))
    view = open_view(store)
    counted = _Counted(view)
    messages, incarnations, standing = counted.read()
    return HomeInfo(
        parts.address,
        _journal(journal, view.state.group),
        _table(view),
        tuple(_topic(name, messages, counted.bytes[name]) for name in sorted(messages.topics)),
        tuple(
            _subscription(name, one, messages, incarnations.said[name])
            for name, one in sorted(standing.items())
        ),
        tuple(_spark(store)),
        incarnations.prepared,
    )


def _journal(journal: JournalView, group: int) -> JournalLine:
    waiting = journal.after(group)
    return JournalLine(
        journal.segments,
        len(journal.frames),
        sum(one.size for one in journal.frames),
        len(waiting),
        sum(one.size for one in waiting),
    )


@dataclass(slots=True)
class _Counted:
    """The rows of a view, read once."""

    view: TableView
    bytes: Counter[str] = field(default_factory=Counter)

    def read(self) -> tuple[Messages, Incarnations, dict[str, Standing]]:
        view = self.view
        reader = FileReader(view, deep=False)
        _, messages = check_messages(view, reader, GroupRows(0, -1), lambda _size: None)
        incarnations = read_incarnations(view, reader, Findings())
        fold = Settlements(view, messages, incarnations, {view.state.group}, Findings())
        fold.read(reader, lambda _size: None)
        if reader.findings.problems:
            raise StoreError(f"{reader.findings.problems[0]}. `distributary verify` says more")
        for file in view.of(topic_log_schema.MESSAGE):
            self._add_bytes(file)
        return messages, incarnations, fold.standing[view.state.group]

    def _add_bytes(self, file: AddedFile) -> None:
        try:
            with self.view.store.parquet(file.path) as parquet:
                for at in range(parquet.num_row_groups):
                    size = _compressed(parquet.metadata.row_group(at))
                    table = parquet.read_row_group(at, columns=["topic"], use_threads=False)
                    names = table["topic"].combine_chunks().dictionary_encode()
                    rows = np.bincount(names.indices.to_numpy())
                    for name, count in zip(names.dictionary.to_pylist(), rows, strict=True):
                        self.bytes[str(name)] += round(size * count / table.num_rows)
        except FileNotFoundError as error:
            raise Replaced(f"{file.path} was replaced while it was read") from error
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{file.path} can't be read: {error}") from error


def _compressed(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))


def _topic(name: str, messages: Messages, size: int) -> TopicLine:
    found = messages.of(name)
    return TopicLine(name, len(found), int(found.min()), int(found.max()), size)


def _subscription(name: str, one: Standing, messages: Messages, said: Said) -> SubscriptionLine:
    owed = messages.of(one.topic).copy()
    owed.remove_range(0, one.floor)
    backlog = len(owed - one.settled)
    settled = len(one.settled)
    return SubscriptionLine(name, one.topic, one.floor, settled, backlog, said.paused, said.policy)


def _table(view: TableView) -> TableLine:
    folder = LogFolder.read(view.store)
    tiers: dict[tuple[str, int], list[AddedFile]] = {}
    for file in view.state.files:
        tiers.setdefault((file.record, file.tier), []).append(file)
    lines = tuple(
        FilesLine(
            record,
            tier,
            len(files),
            sum(file.rows for file in files),
            sum(file.size for file in files),
        )
        for (record, tier), files in sorted(tiers.items())
    )
    days = [file.day for file in view.state.files]
    return TableLine(
        view.state.version,
        view.state.group,
        view.state.sequence,
        lines,
        len(folder.entries),
        max(folder.checkpoints, default=None),
        min(days, default=None),
    )


def _spark(log: Store) -> list[SparkLine]:
    lines = []
    for name in ("messages", "acks", "cursors"):
        uri = beside(log, name)
        if not DeltaTable.is_deltatable(uri, storage_options=log.options):
            continue
        try:
            table = DeltaTable(uri, storage_options=log.options)
            seen = None
            if name == "cursors":
                rows = table.to_pyarrow_table(columns=["log_version"])
                seen = max((int(v) for v in rows["log_version"].to_numpy()), default=None)
        except (DeltaError, OSError, ValueError) as error:
            raise StoreError(f"{uri} can't be read: {error}") from error
        lines.append(SparkLine(name, table.version(), seen))
    return lines
