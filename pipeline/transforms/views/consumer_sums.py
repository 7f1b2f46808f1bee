"""Outcomes and times to settle of each consumer, summed up in Arrow: first of parts of the
deliveries, then of all.

Rule: times to settle are counted in steps; a time and its double are STEPS steps apart. Each step
      keeps its longest time, so a percentile is a measured time, and at most a step too long.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.views.file_sums import Numbers, numbered, numbers

#: Outcomes of a delivery to a consumer; a column each.
OUTCOMES: Final = (
    "accepted",
    "rejected",
    "released",
    "lost",
    "modified",
    "dead_lettered",
    "expired",
    "dropped",
)
#: Percentile -> its column.
PERCENTILES: Final = {
    0.5: "settle_seconds_p50",
    0.9: "settle_seconds_p90",
    0.99: "settle_seconds_p99",
}
#: Number of steps between a time to settle and its double: steps of 1.1 %.
STEPS: Final = 64
#: A delivery to a lost consumer has the time of the loss for both: no time to settle.
UNTIMED: Final = ("released", "lost")

#: Columns of a delivery that are read.
READ: Final = ("subscription", "consumer", "outcome", "delivered_at", "settled_at")
_KEY: Final = ("subscription", "consumer", "outcome")
_SEEN: Final = ("first_seen", "last_seen")
#: Some deliveries of one consumer with one outcome; `times` are pairs of a step's longest time in
#: microseconds and the number of deliveries in it. The other times are microseconds since 1970, as
#: Python doesn't know every time zone that a session may have.
PARTIAL: Final = StructType(
    [
        *(StructField(name, StringType()) for name in _KEY),
        StructField("n", LongType()),
        *(StructField(name, LongType()) for name in _SEEN),
        StructField("times", BinaryType()),
    ]
)
CONSUMERS: Final = StructType(
    [
        StructField("subscription", StringType()),
        StructField("consumer", StringType()),
        StructField("deliveries", LongType()),
        *(StructField(outcome, LongType()) for outcome in OUTCOMES),
        *(StructField(name, DoubleType()) for name in PERCENTILES.values()),
        *(StructField(name, TimestampType()) for name in _SEEN),
    ]
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DeliverySums:
    """Turns rows of acks into rows of PARTIAL: of deliveries settled from `since` to `until`
    (exclusive), except those with the outcomes `without`."""

    since: datetime | None
    until: datetime | None
    without: Collection[str] = ()

    def __call__(
        self, known: pa.RecordBatch | None, parts: Iterable[pa.Table]
    ) -> Iterator[pa.RecordBatch]:
        del known
        for rows in parts:
            some = self._deliveries(rows)
            if some.num_rows:
                yield _partial(some)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the same for batches of Spark."""
        return self(None, (pa.Table.from_batches([one]) for one in batches))

    def _deliveries(self, rows: pa.Table) -> pa.Table:
        mine: Any = pc.is_valid(rows["delivered_at"])
        settled = pc.cast(rows["settled_at"], pa.int64())
        if self.since is not None:
            mine = pc.and_(mine, pc.greater_equal(settled, _us(self.since)))
        if self.until is not None:
            mine = pc.and_(mine, pc.less(settled, _us(self.until)))
        if self.without:
            other = pc.is_in(rows["outcome"], value_set=pa.array(sorted(self.without)))
            mine = pc.and_(mine, pc.invert(other))
        return rows if pc.all(mine).as_py() else rows.filter(mine)


def _us(at: datetime) -> Any:
    return pa.scalar((at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1), pa.int64())


def _partial(rows: pa.Table) -> pa.RecordBatch:
    """Sum up deliveries to one row for each consumer and outcome."""
    texts_of = [numbered(rows, name) for name in _KEY]
    key = np.zeros(rows.num_rows, np.int64)
    for codes, texts in texts_of:
        key = key * len(texts) + codes
    delivered, settled = (numbers(rows, name) for name in READ[3:])
    outcomes, said = texts_of[-1]
    timed = np.array([one not in UNTIMED for one in said])[outcomes]
    took = np.where(timed, settled - delivered, -1)
    columns: dict[str, pa.Array[Any]] = {
        "key": pa.array(key),
        "step": pa.array(_steps(took)),
        "took": pa.array(took),
        "at": pa.array(delivered),
        "to": pa.array(settled),
    }
    found = (
        pa.table(columns)
        .group_by(["key", "step"], use_threads=False)
        .aggregate([([], "count_all"), ("took", "max"), ("at", "min"), ("to", "max")])
        .sort_by("key")
    )
    key, n, longest, first, last = (
        found[name].to_numpy() for name in ("key", "count_all", "took_max", "at_min", "to_max")
    )
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    rest, names = key[begins], list[list[str]]()
    for _, texts in reversed(texts_of):
        names.insert(0, [texts[one] for one in (rest % len(texts)).tolist()])
        rest //= len(texts)
    times = [
        both[:, both[0] >= 0].tobytes()
        for both in np.split(np.stack([longest, n]), begins[1:], axis=1)
    ]
    return pa.RecordBatch.from_arrays(
        [
            *(pa.array(one, pa.string()) for one in names),
            pa.array(np.add.reduceat(n, begins)),
            pa.array(np.minimum.reduceat(first, begins)),
            pa.array(np.maximum.reduceat(last, begins)),
            pa.array(times, pa.binary()),
        ],
        names=PARTIAL.names,
    )


def _steps(took: Numbers) -> Numbers:
    """Return the number of each time's step; -1 without a time."""
    steps = np.floor(np.log2(np.maximum(took, 1)) * STEPS).astype(np.int64)
    return np.where(took < 0, -1, steps)


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge all rows of PARTIAL into one row of CONSUMERS for each consumer."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            found.setdefault((row["subscription"], row["consumer"]), []).append(row)
    if not found:
        return
    rows = [
        {
            "subscription": subscription,
            "consumer": consumer,
            "deliveries": sum(one["n"] for one in parts),
            **{
                outcome: sum(one["n"] for one in parts if one["outcome"] == outcome)
                for outcome in OUTCOMES
            },
            **_percentiles([np.frombuffer(one["times"], np.int64).reshape(2, -1) for one in parts]),
            "first_seen": min(one["first_seen"] for one in parts),
            "last_seen": max(one["last_seen"] for one in parts),
        }
        for (subscription, consumer), parts in found.items()
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(CONSUMERS))


def _percentiles(times: list[Numbers]) -> dict[str, float | None]:
    """Return percentiles in seconds: each is the longest time of the first step that reaches it."""
    longest, n = np.concatenate(times, axis=1)
    if not len(n):
        return dict.fromkeys(PERCENTILES.values())
    step, nth = np.unique(_steps(longest), return_inverse=True)
    most = np.zeros(len(step), np.int64)
    np.maximum.at(most, nth, longest)
    upto = np.cumsum(np.bincount(nth, weights=n).astype(np.int64))
    reached = [int(np.searchsorted(upto, np.ceil(upto[-1] * share))) for share in PERCENTILES]
    return {
        name: float(most[at]) / 1_000_000
        for name, at in zip(PERCENTILES.values(), reached, strict=True)
    }
