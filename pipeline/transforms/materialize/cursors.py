"""Cursors folded from the log: floor and settled sequences of each durable subscription.

Rule 1: an event of BEGINNINGS at group G begins an incarnation: it has the event's floor, which may
        be lower than before, nothing settled, and counts of zero. `deleted` ends it; all other
        events leave the owed messages as they are. If one group has several events of one
        subscription, an event that begins an incarnation wins: a cursor kept too long can still be
        deleted, a lost one can't be restored.
Rule 2: `pipeline.tables.arrow.settlement_fold` folds settlements, here as at a restart of the
        gateway.
Rule 3: groups up to a cursor's own are in it already and don't change it again, so folding the same
        rows twice changes nothing.

Settlements are summed up by one pass over each partition. The sums, a row for each subscription and
partition, are folded in the driver: a shuffle would cost a small batch more than all of its work.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import StructType

from distributary.pipeline.log.failures import Failures
from distributary.pipeline.model.subscription import BEGINNINGS, SubscriptionEvent
from distributary.pipeline.tables.arrow.settlement_fold import COLUMNS, Settlements, Standing
from distributary.pipeline.transforms.schema.spark_schema import CURSORS, FAILURE

#: Outcomes that have a count of their own.
COUNTED = ("accepted", "rejected", "released", "modified")

#: A subscription's settlements of one partition of the rows, summed up.
PARTIAL = StructType(
    [
        CURSORS["subscription"],
        CURSORS["floor"],
        CURSORS["settled"],
        CURSORS["failures"],
        CURSORS["lost"],
        *(CURSORS[outcome] for outcome in COUNTED),
    ]
)

#: Columns that are read of an event that begins an incarnation, ends it, or changes its sharing.
EVENT = ("subscription", "group", "event", "topic", "shared", "selector", "floor")

#: The events that begin an incarnation, end it, or change its sharing.
DECISIVE = sorted(
    event.value for event in [*BEGINNINGS, SubscriptionEvent.DELETED, SubscriptionEvent.CONFIGURED]
)

ARROW_FAILURES = pa.list_(
    pa.struct([("sequence", pa.int64()), ("failures", pa.int32()), ("group", pa.int64())])
)
_ARROW = {
    "subscription": pa.string(),
    "topic": pa.string(),
    "shared": pa.bool_(),
    "selector": pa.string(),
    "floor": pa.int64(),
    "settled": pa.binary(),
    "settled_count": pa.int64(),
    "failures": ARROW_FAILURES,
    "lost": pa.binary(),
    **dict.fromkeys(COUNTED, pa.int64()),
    "group": pa.int64(),
    "log_version": pa.int64(),
    "updated_at": pa.timestamp("us", "UTC"),
}

#: A bitmap with nothing in it.
EMPTY = BitMap64().serialize()


@dataclass(frozen=True, slots=True)
class Cursor:
    """One row of `cursors` as of `group`, which is at first the group that began it."""

    subscription: str
    topic: str
    shared: bool
    selector: str | None
    floor: int
    group: int
    settled: bytes = EMPTY
    settled_count: int = 0
    failures: dict[int, Failures] = field(default_factory=dict)
    lost: bytes = EMPTY
    counts: tuple[int, ...] = (0,) * len(COUNTED)

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(
            row.subscription,
            row.topic,
            row.shared,
            row.selector,
            row.floor,
            row.group,
            bytes(row.settled),
            row.settled_count,
            {one.sequence: Failures(one.failures, one.group) for one in row.failures},
            EMPTY if row.lost is None else bytes(row.lost),
            tuple(row[outcome] for outcome in COUNTED),
        )

    def after(self, parts: Iterable[Mapping[str, Any]]) -> "Cursor":
        """The cursor with these sums of its settlements (rows of PARTIAL)."""
        standing, counts = self._standing(), list(self.counts)
        for part in parts:
            failures = {
                one["sequence"]: Failures(one["failures"], one["group"]) for one in part["failures"]
            }
            settled, lost = map(BitMap64.deserialize, (part["settled"], part["lost"]))
            standing.add(Standing(self.group, part["floor"], settled, failures, lost))
            counts = [had + part[of] for had, of in zip(counts, COUNTED, strict=True)]
        return replace(self._at(standing), counts=tuple(counts))

    def from_floor(self, floor: int) -> "Cursor":
        """The cursor with all below `floor` settled."""
        if floor <= self.floor:
            return self
        standing = self._standing()
        standing.floor = floor
        return self._at(standing)

    def _standing(self) -> Standing:
        settled, lost = map(BitMap64.deserialize, (self.settled, self.lost))
        return Standing(self.group, self.floor, settled, dict(self.failures), lost)

    def _at(self, standing: Standing) -> "Cursor":
        standing.trim()
        standing.settled.run_optimize()
        return replace(
            self,
            floor=standing.floor,
            settled=standing.settled.serialize(),
            settled_count=len(standing.settled),
            failures=standing.failures,
            lost=standing.lost.serialize(),
        )


#: Group and floor by subscription: rows of later groups are its incarnation's.
Since: TypeAlias = Mapping[str, tuple[int, int]]

#: All cursors, by subscription.
Cursors: TypeAlias = dict[str, Cursor]


def cursors(existing: DataFrame, log: DataFrame, *, group: int, log_version: int) -> DataFrame:
    """All cursors as they are after `log`, whose last group is `group`.

    `existing` is the present table `cursors`; a subscription that it has and the result lacks is
    deleted. Both are read at once; their sums are held in memory.
    """
    after = fold(found(existing.collect()), log, group=group)
    return rows(existing.sparkSession, after, log_version=log_version)


def found(existing: Iterable[Row]) -> Cursors:
    """Return the cursors in rows of the table `cursors`."""
    return {row.subscription: Cursor.of(row) for row in existing}


def fold(before: Cursors, log: DataFrame, *, group: int) -> Cursors:
    """The cursors after the rows of `log`, whose last group is `group`."""
    began = begin(before, events(log))
    return settle(began, sums(began, log), group=group)


def events(log: DataFrame) -> list[Row]:
    """Return the events that begin, end or change incarnations."""
    decisive = (F.col("record") == "subscription") & F.col("event").isin(*DECISIVE)
    return log.where(decisive).select(*EVENT).collect()


def begin(before: Cursors, said: Iterable[Row]) -> Cursors:
    """The present cursors, changed by the events: begun, deleted, or with another sharing. Events
    that aren't DECISIVE, such as a pause or a schema, change none."""
    began = dict(before)
    decisive = (event for event in said if event.event in DECISIVE)
    for event in sorted(decisive, key=lambda row: (row.group, row.event != "deleted")):
        known = before.get(event.subscription)
        if known is not None and event.group <= known.group:
            continue
        if event.event == "deleted":
            began.pop(event.subscription, None)
        elif event.event == SubscriptionEvent.CONFIGURED:
            if (present := began.get(event.subscription)) is not None:
                began[event.subscription] = replace(present, shared=event.shared)
        else:
            began[event.subscription] = Cursor(
                event.subscription,
                event.topic,
                event.shared,
                event.selector,
                event.floor,
                event.group,
            )
    return began


def since(began: Cursors) -> Since:
    """By subscription the group and floor behind which settlements belong to its cursor."""
    return {name: (cursor.group, cursor.floor) for name, cursor in began.items()}


def sums(began: Cursors, log: DataFrame) -> pa.Table:
    """The settlements in `log` that belong to these cursors, as rows of PARTIAL."""
    settlements = log.where(F.col("record") == "settlement").select(*COLUMNS)
    summing = partial(partials, since=since(began))
    found: pa.Table = settlements.mapInArrow(summing, PARTIAL).toArrow()
    return found


def settle(began: Cursors, summed: pa.Table | None, *, group: int) -> Cursors:
    """The cursors with their settlements (None: there are none), as of `group`."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for part in [] if summed is None else summed.to_pylist():
        parts.setdefault(part["subscription"], []).append(part)
    return {
        name: replace(cursor.after(parts[name]) if name in parts else cursor, group=group)
        for name, cursor in began.items()
    }


def rows(spark: SparkSession, after: Cursors, *, log_version: int) -> DataFrame:
    """The table `cursors` with these rows."""
    return spark.createDataFrame(listed(after, log_version=log_version), CURSORS)


def listed(after: Cursors, *, log_version: int) -> pa.Table:
    """The rows of the table `cursors`."""
    some = [after[name] for name in sorted(after)]
    columns = {
        **{
            name: [getattr(one, name) for one in some]
            for name in CURSORS.names
            if name in Cursor.__slots__
        },
        **{of: [one.counts[at] for one in some] for at, of in enumerate(COUNTED)},
        "failures": [_listed(one.failures) for one in some],
        "log_version": [log_version] * len(some),
        "updated_at": [datetime.now(UTC)] * len(some),
    }
    return pa.table({name: pa.array(columns[name], _ARROW[name]) for name in CURSORS.names})


def partials(batches: Iterable[pa.RecordBatch], since: Since) -> Iterator[pa.RecordBatch]:
    """Settlement rows as rows of PARTIAL: one for each subscription of `since` (its group and
    floor) that has settlements."""
    settlements, counts = Settlements(since), Counter[tuple[str, str]]()
    for batch in batches:
        counted = settlements.add(pa.Table.from_batches([batch]))
        for row in _counts(counted).to_pylist():
            counts[row["subscription"], row["outcome"]] += row["count_sum"]
    if sums := settlements.sums():
        found = list(sums.values())
        columns: list[pa.Array[Any]] = [
            pa.array(list(sums), pa.string()),
            pa.array([part.floor for part in found], pa.int64()),
            pa.array([part.settled.serialize() for part in found], pa.binary()),
            pa.array([_listed(part.failures) for part in found], ARROW_FAILURES),
            pa.array([part.lost.serialize() for part in found], pa.binary()),
            *(
                pa.array([counts[name, outcome] for name in sums], pa.int64())
                for outcome in COUNTED
            ),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=PARTIAL.names)


def _counts(rows: pa.Table) -> pa.Table:
    """Deliveries by subscription and outcome."""
    lengths = pc.list_value_length(rows["sequences"])
    counted = rows.select(["subscription", "outcome"]).append_column("count", lengths)
    return counted.group_by(["subscription", "outcome"]).aggregate([("count", "sum")])


def _listed(failures: Mapping[int, Failures]) -> list[dict[str, int]]:
    return [
        dict(zip(FAILURE.names, (sequence, one.count, one.group), strict=True))
        for sequence, one in sorted(failures.items())
    ]
