"""Cursors folded from the log: where each durable subscription stands.

Rule 1: an event of BEGINNINGS at group G begins an incarnation: the event's floor, which may be
        lower than before, nothing settled, counts zero. `deleted` ends it; all other events change
        nothing of what is owed. If one group has several events of one subscription, one that
        begins an incarnation wins: what stays too long can be deleted, what is lost can't be had
        again.
Rule 2: a settlement belongs to the incarnation that began in a group before its own, or to none.
Rule 3: a message that came back has as many failed attempts behind it as the record says were
        before it, and one more if it came back as modified; it counts for as long as it is owed.
Rule 4: what a cursor has in it already (groups up to its own) changes it no more, so folding the
        same rows twice changes nothing.

Settlements are summed up where they lie, by one pass over each partition; what is left is a row for
each subscription and partition, and those are folded in the driver: a shuffle would cost a small
batch more than all of its work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.types import StructType

from distributary.pipeline.model.subscription import BEGINNINGS, SubscriptionEvent
from distributary.pipeline.transforms.schema.spark_schema import CURSORS, FAILURE

#: Sequence -> failed attempts, and the last group that says so.
Failures: TypeAlias = dict[int, tuple[int, int]]

#: Outcomes that have a count of their own.
COUNTED = ("accepted", "rejected", "released", "modified")

#: A subscription's settlements of one partition of the rows, summed up.
PARTIAL = StructType(
    [
        CURSORS["subscription"],
        CURSORS["floor"],
        CURSORS["settled"],
        CURSORS["failures"],
        *(CURSORS[outcome] for outcome in COUNTED),
    ]
)

#: What is read of an event that begins an incarnation, or ends it.
EVENT = ("subscription", "group", "event", "topic", "shared", "selector", "floor")

#: The events that begin an incarnation, or end it.
DECISIVE = sorted(event.value for event in [*BEGINNINGS, SubscriptionEvent.DELETED])

#: What of a settlement is summed up.
SETTLED = (
    "subscription",
    "group",
    "outcome",
    "final",
    "delivery_count",
    "floor",
    "sequences",
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
    **dict.fromkeys(COUNTED, pa.int64()),
    "group": pa.int64(),
    "log_version": pa.int64(),
    "updated_at": pa.timestamp("us", "UTC"),
}

#: A bitmap with nothing in it.
EMPTY = BitMap64().serialize()


@dataclass(frozen=True, slots=True)
class Cursor:
    """One row of `cursors`, as of `group`; a new incarnation is as of the group it began in."""

    subscription: str
    topic: str
    shared: bool
    selector: str | None
    floor: int
    group: int
    settled: bytes = EMPTY
    settled_count: int = 0
    failures: Failures = field(default_factory=dict)
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
            {one.sequence: (one.failures, one.group) for one in row.failures},
            tuple(row[outcome] for outcome in COUNTED),
        )

    def after(self, parts: Iterable[Mapping[str, Any]]) -> "Cursor":
        """With these sums of its settlements (rows of PARTIAL)."""
        floor, counts = self.floor, list(self.counts)
        settled, failures = BitMap64.deserialize(self.settled), dict(self.failures)
        for part in parts:
            floor = max(floor, part["floor"])
            settled |= BitMap64.deserialize(part["settled"])
            _note(
                failures,
                {one["sequence"]: (one["failures"], one["group"]) for one in part["failures"]},
            )
            counts = [had + part[of] for had, of in zip(counts, COUNTED, strict=True)]
        return replace(self, counts=tuple(counts), **_above(floor, settled, failures))

    def from_floor(self, floor: int) -> "Cursor":
        """Where nothing below `floor` is left to be owed."""
        if floor <= self.floor:
            return self
        settled = BitMap64.deserialize(self.settled)
        return replace(self, **_above(floor, settled, self.failures))


#: All cursors, by subscription.
Cursors: TypeAlias = dict[str, Cursor]


def cursors(existing: DataFrame, log: DataFrame, *, group: int, log_version: int) -> DataFrame:
    """All cursors as they are after `log`, whose last group is `group`.

    `existing` is the table `cursors` as it is; a subscription that it has and the result lacks
    is deleted. Both are read at once, what is summed up of them is held in memory.
    """
    after = fold(found(existing), log, group=group)
    return rows(existing.sparkSession, after, log_version=log_version)


def found(existing: DataFrame) -> Cursors:
    """What the table `cursors` says."""
    return {row.subscription: Cursor.of(row) for row in existing.collect()}


def fold(before: Cursors, log: DataFrame, *, group: int) -> Cursors:
    """The cursors after the rows of `log`, whose last group is `group`."""
    began = begin(before, events(log))
    return settle(began, sums(began, log), group=group)


def events(log: DataFrame) -> list[Row]:
    """What begins and ends incarnations."""
    decisive = (F.col("record") == "subscription") & F.col("event").isin(*DECISIVE)
    return log.where(decisive).select(*EVENT).collect()


def begin(before: Cursors, said: Iterable[Row]) -> Cursors:
    """The cursors from which to go on: those there are, and those that begin with an event."""
    began = dict(before)
    for event in sorted(said, key=lambda row: (row.group, row.event != "deleted")):
        known = before.get(event.subscription)
        if known is not None and event.group <= known.group:
            continue
        if event.event == "deleted":
            began.pop(event.subscription, None)
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


def sums(began: Cursors, log: DataFrame) -> pa.Table:
    """The settlements in `log` that belong to these cursors, as rows of PARTIAL."""
    since = {name: cursor.group for name, cursor in began.items()}
    settlements = log.where(F.col("record") == "settlement").select(*SETTLED)
    found: pa.Table = settlements.mapInArrow(_partials_since(since), PARTIAL).toArrow()
    return found


def settle(began: Cursors, summed: pa.Table | None, *, group: int) -> Cursors:
    """The cursors with their settlements, as of `group`; None if there are none."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for part in [] if summed is None else summed.to_pylist():
        parts.setdefault(part["subscription"], []).append(part)
    return {
        name: replace(cursor.after(parts[name]) if name in parts else cursor, group=group)
        for name, cursor in began.items()
    }


def rows(spark: SparkSession, after: Cursors, *, log_version: int) -> DataFrame:
    """The table `cursors` with these rows."""
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
    table = pa.table({name: pa.array(columns[name], _ARROW[name]) for name in CURSORS.names})
    return spark.createDataFrame(table, CURSORS)


def _above(floor: int, settled: BitMap64, failures: Failures) -> dict[str, Any]:
    """The fields that say what is settled from the floor on."""
    settled.remove_range(0, floor)
    settled.run_optimize()
    return {
        "floor": floor,
        "settled": settled.serialize(),
        "settled_count": len(settled),
        "failures": {
            one: said for one, said in failures.items() if one >= floor and one not in settled
        },
    }


@dataclass(slots=True)
class Sum:
    """What many settlements of one subscription come to."""

    floor: int = 0
    settled: BitMap64 = field(default_factory=BitMap64)
    failures: Failures = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def add(self, rows: pa.RecordBatch) -> None:
        """Settlements of this subscription; a loop over the sequences of failed ones only."""
        self.floor = max(self.floor, pc.max(rows.column("floor")).as_py())
        final = pc.list_flatten(rows.column("sequences").filter(rows.column("final")))
        self.settled |= BitMap64(final.to_numpy().astype(np.uint64))
        lengths = pc.list_value_length(rows.column("sequences"))
        for outcome in COUNTED:
            matching = lengths.filter(
                pc.equal(rows.column("outcome"), pa.scalar(outcome, pa.string()))
            )
            self.counts[outcome] += pc.sum(matching).as_py() or 0
        self._add_failed(rows)

    def _add_failed(self, rows: pa.RecordBatch) -> None:
        modified = pc.equal(rows.column("outcome"), pa.scalar("modified", pa.string()))
        counts = pc.add(rows.column("delivery_count"), modified.cast(pa.int32()))
        back = pc.and_(pc.invert(rows.column("final")), pc.greater(counts, pa.scalar(0)))
        groups, sequences = (rows.column(name).filter(back) for name in ("group", "sequences"))
        for count, group, lot in zip(counts.filter(back), groups, sequences, strict=True):
            said = (count.as_py(), group.as_py())
            _note(self.failures, dict.fromkeys(lot.as_py(), said))


def _partials_since(
    since: Mapping[str, int],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Those of settlements that come in a group after the one given for their subscription."""
    known = pa.array(list(since), pa.string())
    groups = pa.array(list(since.values()), pa.int64())

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from partials(_since(batch, known, groups) for batch in batches)

    return summed


def _since(batch: pa.RecordBatch, known: Any, groups: Any) -> pa.RecordBatch:
    begun = pc.take(groups, pc.index_in(batch.column("subscription"), value_set=known))
    # Null, for a subscription that isn't there, is not counted either.
    return batch.filter(pc.greater(batch.column("group"), begun))


def partials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Settlement rows in Arrow, one row of PARTIAL out per subscription."""
    sums: dict[str, Sum] = {}
    for batch in batches:
        names = batch.column("subscription")
        for name in cast("list[str]", names.unique().to_pylist()):
            sums.setdefault(name, Sum()).add(
                batch.filter(pc.equal(names, pa.scalar(name, pa.string())))
            )
    if sums:
        found = list(sums.values())
        columns: list[pa.Array[Any]] = [
            pa.array(list(sums), pa.string()),
            pa.array([part.floor for part in found], pa.int64()),
            pa.array([part.settled.serialize() for part in found], pa.binary()),
            pa.array([_listed(part.failures) for part in found], ARROW_FAILURES),
            *(
                pa.array([part.counts[outcome] for part in found], pa.int64())
                for outcome in COUNTED
            ),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=PARTIAL.names)


def _note(failures: Failures, said: Mapping[int, tuple[int, int]]) -> None:
    """Of each message the highest count, as of the last group that says it."""
    for sequence, one in said.items():
        failures[sequence] = max(one, failures.get(sequence, one))


def _listed(failures: Failures) -> list[dict[str, int]]:
    return [
        dict(zip(FAILURE.names, (sequence, *failures[sequence]), strict=True))
        for sequence in sorted(failures)
    ]
