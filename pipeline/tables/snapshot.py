"""Where every durable subscription stands when a gateway starts.

Spark's table `cursors` says it as of some group, the log's settlements after that group say the
rest. Without the table the whole log says the same, slower. The rules are the job's
(`pipeline.transforms.cursors`): an event `created` or `redefined` begins an incarnation, `deleted`
ends it, the beginning wins inside of one group; a settlement counts when its group is later than
its incarnation's. So the fold doesn't depend on the order of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyroaring import BitMap64

from pipeline.errors import StoreError
from pipeline.subscription import Definition, SubscriptionEvent, SubscriptionKey
from pipeline.tables import schema
from pipeline.tables.arrow import Chunked, Int64s
from pipeline.tables.home import Home
from pipeline.tables.stretches import Stretches
from pipeline.tables.topic_log import TopicLog

#: What of Spark's table is read, with the types that it must have.
CURSOR_COLUMNS = {
    "subscription": pa.string(),
    "topic": pa.string(),
    "shared": pa.bool_(),
    "selector": pa.string(),
    "floor": pa.int64(),
    "settled": pa.binary(),
    "group": pa.int64(),
    "log_version": pa.int64(),
}
_EVENT_COLUMNS = [
    "group",
    "subscription",
    "event",
    "floor",
    "topic",
    "shared",
    "selector",
    "no_local",
]
_SETTLEMENT_COLUMNS = ["group", "subscription", "final", "floor", "sequences"]
WHOLE_LOG = "the whole log"


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """One durable subscription: everything owed below `floor` is settled, and `settled` above."""

    key: SubscriptionKey
    definition: Definition
    floor: int
    settled: tuple[range, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that the gateway goes on from. `source` says in words what it was read from."""

    next_group: int
    next_sequence: int
    subscriptions: tuple[SubscriptionState, ...]
    source: str


@dataclass(slots=True)
class _Fold:
    """A subscription while it is folded; `group` is the last one that is in it."""

    definition: Definition
    group: int
    floor: int
    settled: Stretches

    def add(self, floor: int, settled: Stretches) -> None:
        self.floor = max(self.floor, floor)
        self.settled = self.settled.union(settled).from_floor(self.floor)


@dataclass(frozen=True, slots=True)
class _Event:
    """The last thing that happened to a subscription."""

    group: int
    deleted: bool
    floor: int
    definition: Definition

    @property
    def order(self) -> tuple[int, bool]:
        """By group; inside of one group a beginning comes after a deletion."""
        return (self.group, not self.deleted)


class _Unusable(Exception):
    """Why the table `cursors` can't be used."""


def load(home: Home, log: TopicLog) -> Snapshot:
    """The state as of the log's last commit. The caller has committed the journal before.

    Called on the committer's thread, or before it starts.
    """
    try:
        cursors = _cursors(home.cursors, log)
        source = f"cursors and the log after group {min(c.group for c in cursors.values())}"
    except _Unusable as why:
        cursors, source = {}, f"{WHOLE_LOG} ({why})"
    try:
        folds = _begin(cursors, log)
        _add_settlements(folds, log)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{log.path} can't be read: {error}") from error
    states = [
        SubscriptionState(SubscriptionKey.parse(name), f.definition, f.floor, f.settled.ranges())
        for name, f in sorted(folds.items())
    ]
    return Snapshot(log.journal_version + 1, log.sequence_version, tuple(states), source)


def _cursors(path: Path, log: TopicLog) -> dict[str, _Fold]:
    """Spark's rows. Raises _Unusable when there are none, or they aren't of this log as it is."""
    if not DeltaTable.is_deltatable(str(path)):
        raise _Unusable("there is no table cursors")
    try:
        table = DeltaTable(path).to_pyarrow_table(columns=list(CURSOR_COLUMNS))
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        raise _Unusable(f"the table cursors can't be read: {error}") from error
    for name, kind in CURSOR_COLUMNS.items():
        if table.schema.field(name).type != kind:
            raise _Unusable(f"{name} of cursors is {table.schema.field(name).type}, not {kind}")
    rows = table.to_pylist()
    if not rows:
        raise _Unusable("the table cursors is empty")
    version, group = max(r["log_version"] for r in rows), max(r["group"] for r in rows)
    if version > log.version or group > log.journal_version:
        raise _Unusable(
            f"cursors are of log version {version} and group {group}, "
            f"the log is at {log.version} and {log.journal_version}"
        )
    return {
        r["subscription"]: _Fold(
            Definition(r["topic"], r["shared"], r["selector"]),
            r["group"],
            r["floor"],
            _bitmap(r["subscription"], r["settled"]).from_floor(r["floor"]),
        )
        for r in rows
    }


def _bitmap(subscription: str, data: bytes) -> Stretches:
    try:
        values = BitMap64.deserialize(data).to_array()
    except (ValueError, TypeError) as error:
        raise _Unusable(f"the settled bitmap of {subscription} is damaged: {error}") from error
    return Stretches.of(np.frombuffer(values, np.int64))


def _begin(cursors: dict[str, _Fold], log: TopicLog) -> dict[str, _Fold]:
    """Each subscription that lives, from its cursor or from the event that began it.

    Events are few; all are read, also because a cursor doesn't have the whole definition.
    """
    folds = dict(cursors)
    for name, event in _last_events(log).items():
        known = folds.get(name)
        if event.deleted:
            folds.pop(name, None)
        elif known is None or known.group < event.group:
            folds[name] = _Fold(event.definition, event.group, event.floor, Stretches())
        else:
            known.definition = event.definition
    return folds


def _last_events(log: TopicLog) -> dict[str, _Event]:
    last: dict[str, _Event] = {}
    for table in _tables(log, schema.SUBSCRIPTION, 0, _EVENT_COLUMNS):
        for row in table.to_pylist():
            event = _Event(
                row["group"],
                row["event"] == SubscriptionEvent.DELETED,
                row["floor"],
                Definition(row["topic"], row["shared"], row["selector"], row["no_local"]),
            )
            known = last.get(row["subscription"])
            if known is None or event.order >= known.order:
                last[row["subscription"]] = event
    return last


def _add_settlements(folds: dict[str, _Fold], log: TopicLog) -> None:
    if not folds:
        return
    names = sorted(folds)
    since = np.array([folds[name].group for name in names], np.int64)
    for table in _tables(log, schema.SETTLEMENT, int(since.min()), _SETTLEMENT_COLUMNS):
        of_row = _indices(table["subscription"], names)
        late = (of_row >= 0) & (table["group"].to_numpy() > since[of_row])
        for nth, floor, settled in _sums(table.filter(pa.array(late)), of_row[late]):
            folds[names[nth]].add(floor, settled)


def _tables(log: TopicLog, record: str, after_group: int, columns: list[str]) -> Iterator[pa.Table]:
    """The rows of that record in groups after that one, and maybe before, a row group at a time."""
    for path in log.files(record, after_group):
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for i in range(file.num_row_groups):
                yield file.read_row_group(i, columns=columns, use_threads=False)


def _indices(column: Chunked, names: list[str]) -> Int64s:
    """For each row the index of its subscription in the names, -1 if it lives no more."""
    found = cast("Chunked", pc.index_in(column, pa.array(names, pa.string())))
    return found.fill_null(pa.scalar(-1, pa.int32())).to_numpy().astype(np.int64)


def _sums(table: pa.Table, of_row: Int64s) -> Iterator[tuple[int, int, Stretches]]:
    """For each subscription in the rows: its index, its highest floor, what is settled finally."""
    floors = table["floor"].to_numpy()
    final = table["final"].to_numpy()
    lists = table["sequences"].filter(table["final"])
    counts = pc.list_value_length(lists).to_numpy()
    values = pc.list_flatten(lists).to_numpy()
    of_value = np.repeat(of_row[final], counts)
    order = np.lexsort((values, of_value))
    values, of_value = values[order], of_value[order]
    for nth in np.unique(of_row).tolist():
        begin, end = np.searchsorted(of_value, [nth, nth + 1])
        yield nth, int(floors[of_row == nth].max()), Stretches.of(values[begin:end])
