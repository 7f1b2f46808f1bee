"""The settlement rows of a log, summed up for many subscriptions together.

The product's only fold of settlements into cursors: the gateway's restart and the job `materialize`
use it. `verify` and the audit have folds of their own, so that they can judge this one.

Rule 1: a settlement belongs to the incarnation that began in a group before its own, or to none.
Rule 2: the failed attempts of a returned message are the count in its record, plus one if it came
        back as modified; they count for as long as the message is owed. The highest count is right:
        each delivery can only raise it. A message that came back from a lost consumer is in doubt
        for as long as it is owed.
Rule 3: rows may come in any order. A million sequences take a fraction of a second; only settled
        sequences above the floors take memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.pipeline.log.failures import Failures
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.arrow.bitmaps import bitmap_of

COLUMNS: Final = [
    "group",
    "subscription",
    "outcome",
    "final",
    "delivery_count",
    "floor",
    "sequences",
]
#: Failed deliveries that are held, at most: some 40 bytes each.
FAILED_MAX: Final = 1 << 20
#: Settled sequences after which the bitmaps are compressed again: stretches take little memory.
STRETCHES_EVERY: Final = 1 << 24


@dataclass(slots=True)
class Standing:
    """A subscription's state during the fold: settlements of groups after `group` are added to it.

    `settled` are final settlements from the floor on. `failures` are sequences that came back with
    failed attempts, `lost` those that came back from lost consumers; entries of settled sequences
    and of those below the floor mean nothing. Call `trim` after the last `add`.
    """

    group: int
    floor: int
    settled: BitMap64 = field(default_factory=BitMap64)
    failures: dict[int, Failures] = field(default_factory=dict)
    lost: BitMap64 = field(default_factory=BitMap64)

    def add(self, more: "Standing") -> None:
        """Add the sum of other settlements of the same incarnation."""
        self.floor = max(self.floor, more.floor)
        self.settled |= more.settled
        self.lost |= more.lost
        for sequence, one in more.failures.items():
            self.failures[sequence] = max(one, self.failures.get(sequence, one))

    def trim(self) -> None:
        """Remove all entries below the floor, and failures and losses of settled sequences."""
        self.settled.remove_range(0, self.floor)
        if self.lost:
            self.lost.remove_range(0, self.floor)
            self.lost -= self.settled
        self.failures = {
            sequence: one
            for sequence, one in self.failures.items()
            if sequence >= self.floor and sequence not in self.settled
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Failed:
    """Deliveries that came back with failed attempts, in columns."""

    of: Int64s
    sequence: Int64s
    count: Int64s
    group: Int64s


class Settlements:
    """Sums up rows for the subscriptions in `since`: for each the group after which rows belong to
    its incarnation, and the lowest floor that matters. Rows of other subscriptions are ignored."""

    def __init__(self, since: Mapping[str, tuple[int, int]]) -> None:
        self._names = pa.array(since, pa.string())
        self._since = np.array([group for group, _ in since.values()], np.int64)
        self._floors = np.array([floor for _, floor in since.values()], np.int64)
        self._sums: dict[int, Standing] = {}  #: of those that have rows, by their index
        self._failed: list[_Failed] = []
        self._failed_count = 0
        self._settled_count = 0

    def add(self, rows: pa.Table) -> pa.Table:
        """Add rows with the columns COLUMNS. Returns the rows that counted."""
        of_row = self._indices(rows["subscription"])
        late = of_row >= 0
        late[late] = rows["group"].to_numpy()[late] > self._since[of_row[late]]
        if not late.all():
            rows, of_row = rows.filter(pa.array(late)), of_row[late]
        if not len(of_row):
            return rows
        for nth in np.unique(of_row).tolist():
            if nth not in self._sums:
                self._sums[nth] = Standing(int(self._since[nth]), 0)
        np.maximum.at(self._floors, of_row, rows["floor"].to_numpy())
        final = rows["final"].to_numpy()
        self._add_final(rows["sequences"].filter(rows["final"]), of_row[final])
        self._add_failed(rows, of_row, ~final)
        self._add_lost(rows, of_row)
        return rows

    def sums(self) -> dict[str, Standing]:
        """Return the sum of each subscription that has rows; call it after the last `add`."""
        failed = _latest(self._failed)
        for of, sequence, count, group in zip(
            failed.of.tolist(),
            failed.sequence.tolist(),
            failed.count.tolist(),
            failed.group.tolist(),
            strict=True,
        ):
            self._sums[of].failures[sequence] = Failures(count, group)
        for nth, one in self._sums.items():
            one.floor = int(self._floors[nth])
            one.trim()
        return {self._names[nth].as_py(): one for nth, one in self._sums.items()}

    def _indices(self, column: Chunked) -> Int64s:
        """Return the index of each row's subscription, -1 for subscriptions not in `since`."""
        found = cast("Chunked", pc.index_in(column, self._names))
        return found.fill_null(pa.scalar(-1, pa.int32())).to_numpy().astype(np.int64)

    def _add_final(self, lists: Chunked, of_row: Int64s) -> None:
        """Add each subscription's lists to its bitmap, without sequences below its floor."""
        if not len(of_row):
            return
        order = np.argsort(of_row, kind="stable")
        lists, of_row = lists.take(order), of_row[order]
        values = pc.list_flatten(lists).to_numpy()
        ends = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())])
        found, begins = np.unique(of_row, return_index=True)
        cuts = ends[np.append(begins, len(of_row))].tolist()
        for nth, begin, end in zip(found.tolist(), cuts, cuts[1:], strict=False):
            floor, settled = int(self._floors[nth]), self._sums[nth].settled
            own = values[begin:end]
            settled |= bitmap_of(np.sort(own[own >= floor]))
            settled.remove_range(0, floor)
        self._settled_count += len(values)
        if self._settled_count >= STRETCHES_EVERY:
            self._settled_count = 0
            for one in self._sums.values():
                one.settled.run_optimize()

    def _add_lost(self, rows: pa.Table, of_row: Int64s) -> None:
        lost = pc.equal(rows["outcome"], pa.scalar(Outcome.LOST.value, pa.string())).to_numpy()
        if not lost.any():
            return
        lists = rows["sequences"].filter(pa.array(lost))
        for nth, one in zip(of_row[lost].tolist(), lists, strict=True):
            own = np.sort(one.values.to_numpy())
            self._sums[nth].lost |= bitmap_of(own[own >= int(self._floors[nth])])

    def _add_failed(self, rows: pa.Table, of_row: Int64s, back: npt.NDArray[np.bool_]) -> None:
        counts = rows["delivery_count"].to_numpy().astype(np.int64)
        modified = pc.equal(rows["outcome"], pa.scalar(Outcome.MODIFIED.value, pa.string()))
        counts += modified.to_numpy()
        some = back & (counts > 0)
        if not some.any():
            return
        rows, of_row, counts = rows.filter(pa.array(some)), of_row[some], counts[some]
        lengths = pc.list_value_length(rows["sequences"]).to_numpy()
        of_value, values = _flat(rows, of_row)
        groups = rows["group"].to_numpy()
        failed = _Failed(of_value, values, np.repeat(counts, lengths), np.repeat(groups, lengths))
        self._failed.append(failed)
        self._failed_count += len(values)
        if self._failed_count >= FAILED_MAX:
            latest = _latest(self._failed)
            self._failed = [_only(latest, latest.sequence >= self._floors[latest.of])]
            self._failed_count = 0


def _flat(rows: pa.Table, of_row: Int64s) -> tuple[Int64s, Int64s]:
    """Return the rows' sequences in one array, and the subscription index of each sequence."""
    counts = pc.list_value_length(rows["sequences"]).to_numpy()
    return np.repeat(of_row, counts), pc.list_flatten(rows["sequences"]).to_numpy()


def _latest(parts: list[_Failed]) -> _Failed:
    """Return the highest count of each subscription's sequence, with the last group that records
    it."""
    nothing = np.zeros(0, np.int64)
    of = np.concatenate([nothing, *(part.of for part in parts)])
    sequence = np.concatenate([nothing, *(part.sequence for part in parts)])
    count = np.concatenate([nothing, *(part.count for part in parts)])
    group = np.concatenate([nothing, *(part.group for part in parts)])
    order = np.lexsort((group, count, sequence, of))
    every = _only(_Failed(of, sequence, count, group), order)
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(every.of) != 0) | (np.diff(every.sequence) != 0)
    return _only(every, last)


def _only(failed: _Failed, which: Int64s | npt.NDArray[np.bool_]) -> _Failed:
    return _Failed(
        failed.of[which], failed.sequence[which], failed.count[which], failed.group[which]
    )
