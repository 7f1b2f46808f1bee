"""Rows of `backlog`, from the numbers of messages that came in one bucket and went in another."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import (
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.views.file_sums import Numbers, numbered

#: Counts of a bucket.
COUNTS: Final = ("owed", "came", "settled", "dropped")
BACKLOG: Final = StructType(
    [
        StructField("subscription", StringType()),
        StructField("begins_at", TimestampType()),
        StructField("ends_at", TimestampType()),
        *(StructField(name, LongType()) for name in COUNTS),
        StructField("oldest_at", TimestampType()),
        StructField("oldest_seconds", DoubleType()),
    ]
)
#: Later than every time, behind every bucket.
_NEVER: Final = 2**63 - 1
#: The column with the first and the last bucket, and the end of the last one: a struct with
#: `first`, `last` and `ends`, equal in all rows.
FRAME: Final = "frame"
_NUMBERS: Final = ("began", "came_in", "went_in", "n", "oldest_at")


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of one subscription: each is `n` messages of the incarnation `began` that came in one
    bucket and went in another, the oldest published at `oldest_at`; or, where `n` is 0, the first
    and the last bucket of that incarnation."""

    began: Numbers
    came_in: Numbers
    went_in: Numbers
    n: Numbers
    oldest_at: Numbers
    was_settled: "NDArray[np.bool_]"

    def some(self, which: "NDArray[Any]") -> Self:
        return type(self)(*(getattr(self, name)[which] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Turns all parts of some subscriptions (ALIKE and FRAME) into their rows of BACKLOG.

    Needs memory for all parts of these subscriptions, unsorted and sorted, some 150 bytes each,
    and for the buckets of one subscription. A subscription has at most as many parts as messages,
    and as pairs of buckets: few, if buckets are wide or messages are settled soon."""

    width_us: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = [one for one in batches if one.num_rows]
        if not read:
            return
        rows = pa.Table.from_batches(read)
        codes, names = numbered(rows, "subscription")
        order = np.argsort(codes, kind="stable")
        columns = {name: _number(rows, name)[order] for name in _NUMBERS}
        frame = rows.slice(0, 1).flatten()
        first, last, ends = (
            int(_number(frame, f"{FRAME}.{name}")[0]) for name in ("first", "last", "ends")
        )
        settled = np.asarray(pc.coalesce(rows["was_settled"], pa.scalar(value=False)))[order]
        parts = _Parts(**columns, was_settled=settled)
        begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            name = names[int(codes[order[begin]])]
            yield self._rows(name, parts.some(np.arange(begin, end)), first, last, ends)

    def _rows(self, name: str, parts: _Parts, first: int, last: int, ends: int) -> pa.RecordBatch:
        size = max(last - first + 1, 0)
        lived, some = parts.some(parts.n == 0), parts.some(parts.n > 0)
        oldest, there = np.full(size, _NEVER), np.zeros(size, bool)
        begin, end = np.maximum(lived.came_in, first), np.minimum(lived.went_in, last)
        for at, to in zip(begin - first, end - first + 1, strict=True):
            there[at : max(at, to)] = True
        counts = _changes(some, there, first)
        for began in np.unique(some.began):
            _oldest(some.some(some.began == began), oldest, there, first, last)
        at = np.flatnonzero(there)
        oldest = oldest[at]
        ends_at = np.minimum((at + first + 1) * self.width_us, ends)
        none = oldest == _NEVER
        columns: list[Any] = [
            pa.repeat(pa.scalar(name, pa.string()), len(at)),
            *(pa.array(one) for one in ((at + first) * self.width_us, ends_at)),
            *(pa.array(one[at]) for one in (np.cumsum(counts[0]), *counts[1:])),
            pa.array(oldest, mask=none),
            pa.array((ends_at - oldest) / 1_000_000, mask=none),
        ]
        schema = arrow_schema(BACKLOG)
        cast_to = (column.cast(one.type) for column, one in zip(columns, schema, strict=True))
        return pa.RecordBatch.from_arrays(list(cast_to), schema=schema)


def _number(rows: pa.Table, name: str) -> Numbers:
    column: Any = pc.cast(rows[name], pa.int64())
    found: Numbers = column.fill_null(_NEVER).to_numpy()
    return found


def _changes(some: _Parts, there: "NDArray[np.bool_]", first: int) -> Numbers:
    """Return the counts of each bucket, by COUNTS; `owed` is the change of the number of owed
    messages. Messages from before the first bucket raise its `owed`, but not its `came`."""
    size = len(there)
    counts = np.zeros((len(COUNTS), size), np.int64)
    for buckets, n, rows in (
        (some.came_in, some.n, [(1, True)]),
        (some.went_in, -some.n, [(2, some.was_settled), (3, ~some.was_settled)]),
    ):
        at = np.where(buckets == _NEVER, size, np.maximum(buckets, first) - first)
        mine = at < size
        there[at[mine]] = True
        np.add.at(counts[0], at[mine], n[mine])
        for row, which in rows:
            counted = mine & (buckets >= first) & which
            np.add.at(counts[row], at[counted], some.n[counted])
    return counts


def _oldest(
    some: _Parts, oldest: Numbers, there: "NDArray[np.bool_]", first: int, last: int
) -> None:
    """Return the buckets at whose end these messages were the oldest. In one incarnation messages
    come in the order of publication, so each is the oldest once all before it are gone."""
    order = np.lexsort((some.came_in, some.oldest_at))
    gone = some.went_in[order]
    before = np.concatenate([[first], np.maximum.accumulate(gone)[:-1]])
    begin = np.maximum(np.maximum(some.came_in[order], first), before)
    end = np.minimum(gone - 1, last)
    for nth in np.flatnonzero(begin <= end):
        part = slice(begin[nth] - first, end[nth] - first + 1)
        oldest[part] = np.minimum(oldest[part], some.oldest_at[order[nth]])
        there[part] = True
