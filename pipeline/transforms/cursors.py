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
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.types import StructType

from pipeline.subscription import BEGINNINGS, SubscriptionEvent
from pipeline.transforms.schema import CURSORS, FAILURE

#: Sequence -> failed attempts, and the last group that says so.
Failures: TypeAlias = dict[int, tuple[int, int]]

#: Outcomes that have a count of their own.
COUNTED = ("accepted", "rejected", "released", "modified")

#: A subscription's settlements of one partition of the batch, summed up.
PARTIAL = StructType(
    [
        CURSORS["subscription"],
        CURSORS["floor"],
        CURSORS["settled"],
        CURSORS["failures"],
        *(CURSORS[outcome] for outcome in COUNTED),
    ]
)

#: A cursor before the columns that say as of when it is true.
STATE = StructType(
    [field for field in CURSORS if field.name not in ("group", "log_version", "updated_at")]
)

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

#: A bitmap with nothing in it.
EMPTY = BitMap64().serialize()


def cursors(existing: DataFrame, log: DataFrame, *, group: int, log_version: int) -> DataFrame:
    """All cursors as they are after `log`, whose last group is `group`.

    `existing` is the table `cursors` as it is; a subscription that it has and the result lacks
    is deleted.
    """
    began = incarnations(existing, log)
    settlements = _settlements(began, log).mapInArrow(partials, PARTIAL)
    folded = (
        began.drop("group")
        .groupBy("subscription")
        .cogroup(settlements.groupBy("subscription"))
        .applyInPandas(fold, STATE)
    )
    return (
        folded.withColumn("group", F.lit(group).cast("long"))
        .withColumn("log_version", F.lit(log_version).cast("long"))
        .withColumn("updated_at", F.current_timestamp())
        .select(*CURSORS.names)
    )


def incarnations(existing: DataFrame, log: DataFrame) -> DataFrame:
    """The cursors from which to go on: those there are, and those that begin in the log."""
    known = existing.select("subscription", F.col("group").alias("known"))
    last = (
        log.where((F.col("record") == "subscription") & F.col("event").isin(*DECISIVE))
        .groupBy("subscription")
        .agg(
            F.max_by(
                F.struct("topic", "shared", "selector", "floor", "event", "group"),
                F.struct("group", F.col("event") != "deleted"),
            ).alias("last")
        )
        .select("subscription", "last.*")
        .withColumn("settled", F.lit(bytearray(EMPTY)))
        .withColumn("settled_count", F.lit(0).cast("long"))
        .withColumn("failures", F.array().cast(CURSORS["failures"].dataType))
        .withColumns({outcome: F.lit(0).cast("long") for outcome in COUNTED})
    )
    begun = (
        last.join(known, on="subscription", how="left")
        .where((F.col("group") > F.col("known")) | F.col("known").isNull())
        .drop("known")
    )
    columns = [*STATE.names, "group"]
    kept = existing.join(begun.select("subscription"), on="subscription", how="left_anti")
    return kept.select(*columns).unionByName(
        begun.where(F.col("event") != "deleted").select(*columns)
    )


def _settlements(began: DataFrame, log: DataFrame) -> DataFrame:
    since = began.select("subscription", F.col("group").alias("since"))
    return (
        log.where(F.col("record") == "settlement")
        .select(*SETTLED)
        .join(F.broadcast(since), on="subscription", how="inner")
        .where(F.col("group") > F.col("since"))
        .select(*SETTLED)
    )


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
            pa.array([_rows(part.failures) for part in found], ARROW_FAILURES),
            *(
                pa.array([part.counts[outcome] for part in found], pa.int64())
                for outcome in COUNTED
            ),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=PARTIAL.names)


def fold(began: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    """One subscription's cursor and the sums of its settlements, as a cursor."""
    after = began.copy()
    floor = int(max([*began["floor"], *parts["floor"]]))
    settled = BitMap64()
    for stored in [*began["settled"], *parts["settled"]]:
        settled |= BitMap64.deserialize(bytes(stored))
    settled.remove_range(0, floor)
    settled.run_optimize()
    failures: Failures = {}
    for rows in [*began["failures"], *parts["failures"]]:
        _note(failures, {row["sequence"]: (row["failures"], row["group"]) for row in rows})
    owed = {one: said for one, said in failures.items() if one >= floor and one not in settled}
    after["floor"] = floor
    after["settled"] = [settled.serialize()]
    after["settled_count"] = len(settled)
    after["failures"] = pd.Series([_rows(owed)], index=after.index)
    for outcome in COUNTED:
        after[outcome] += int(parts[outcome].sum())
    return after[STATE.names]


def _note(failures: Failures, said: Mapping[int, tuple[int, int]]) -> None:
    """Of each message the highest count, as of the last group that says it."""
    for sequence, one in said.items():
        failures[sequence] = max(one, failures.get(sequence, one))


def _rows(failures: Failures) -> list[dict[str, int]]:
    return [
        dict(zip(FAILURE.names, (sequence, *failures[sequence]), strict=True))
        for sequence in sorted(failures)
    ]
