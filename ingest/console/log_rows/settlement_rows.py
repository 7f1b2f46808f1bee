"""Settlements of one message in the log, for all subscriptions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile, microseconds

_COLUMNS: Final = (
    "group",
    "subscription",
    "consumer",
    "outcome",
    "final",
    "delivery_count",
    "delivered_at",
    "settled_at",
    "floor",
)
_FLOORS: Final = ("group", "subscription", "floor")
#: Outcomes that only say that a message wasn't for the subscription: there was no delivery.
NEVER_OWED: Final = frozenset({Outcome.LOCAL, Outcome.FORBIDDEN, Outcome.REDRIVEN})


@dataclass(frozen=True, slots=True)
class SettlementOfOne:
    """One settlement of one message. `consumer` is empty, and `delivered_at` None, where no
    consumer had it; where no-local left it out `consumer` is the container that published it."""

    subscription: str
    consumer: str
    outcome: Outcome
    final: bool
    delivery_count: int
    delivered_at: int | None
    settled_at: int
    floor: int
    group: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The settlements of a message by group, up to the group `reached`: later ones weren't looked
    at if that isn't the last."""

    rows: tuple[SettlementOfOne, ...]
    reached: int


@dataclass(frozen=True, slots=True)
class Floors:
    """The floors that settlements say, of whichever subscription."""

    rows: pa.Table

    def highest(self, subscription: str, began: int, ended: int | None) -> int:
        """The highest floor that settlements of an incarnation say; 0 if there was none."""
        own = pc.equal(self.rows["subscription"], pa.scalar(subscription, pa.string()))
        own = pc.and_(own, pc.greater(self.rows["group"], pa.scalar(began, pa.int64())))
        if ended is not None:
            own = pc.and_(own, pc.less_equal(self.rows["group"], pa.scalar(ended, pa.int64())))
        return int(pc.max(self.rows.filter(own)["floor"]).as_py() or 0)


def settled(files: LogFiles, sequence: int, since: int) -> Settled:
    """The settlements of a message that was published in the group `since`. Files are read by
    group until there is none left, or the request has read as much as it may."""
    found: list[SettlementOfOne] = []
    reached = files.view.state.group
    for file in files_since(files, since):
        if files.full:
            reached = max((file.group_low or 0) - 1, since)
            break
        for one in files.row_groups(file):
            if one.group is not None and one.group[1] < since:
                continue
            lists = files.read(one, ("sequences",))["sequences"].combine_chunks()
            rows = rows_with(lists, sequence)
            if len(rows):
                found += _of(files.read(one, _COLUMNS).take(rows))
        files.close(file.path)
    found.sort(key=lambda row: (row.group, row.final, row.settled_at))
    return Settled(tuple(found), reached)


def floors_since(files: LogFiles, since: int) -> Floors:
    """All that settlements of this group and later ones say; less where the request has read as
    much as it may: then a floor may be higher than is said here."""
    kind = topic_log_schema.FILES[topic_log_schema.SETTLEMENT]
    found = [pa.schema([kind.field(name) for name in _FLOORS]).empty_table()]
    for file in files_since(files, since):
        found += [
            files.read(one, _FLOORS)
            for one in files.row_groups(file)
            if not files.full and (one.group is None or one.group[1] >= since)
        ]
        files.close(file.path)
    return Floors(pa.concat_tables(found))


def files_since(files: LogFiles, group: int) -> list[AddedFile]:
    """The files of settlements that may have rows of this group or a later one, by group."""
    due = [
        file
        for file in files.view.of(topic_log_schema.SETTLEMENT)
        if file.group_high is None or file.group_high >= group
    ]
    return sorted(due, key=lambda file: (file.group_low or 0, file.path))


def rows_with(lists: Any, sequence: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The numbers of the rows of a column of lists that have this sequence."""
    hits = np.flatnonzero(lists.flatten().to_numpy() == sequence)
    offsets = lists.offsets.to_numpy() - lists.offsets[0].as_py()
    return np.unique(np.searchsorted(offsets, hits, side="right") - 1)


def _of(table: pa.Table) -> Iterator[SettlementOfOne]:
    for row in table.to_pylist():
        outcome, consumer = Outcome(row["outcome"]), row["consumer"] or ""
        handed = bool(consumer) and outcome not in NEVER_OWED
        yield SettlementOfOne(
            row["subscription"],
            consumer,
            outcome,
            row["final"],
            row["delivery_count"],
            microseconds(row["delivered_at"]) if handed else None,
            microseconds(row["settled_at"]),
            row["floor"],
            row["group"],
        )
