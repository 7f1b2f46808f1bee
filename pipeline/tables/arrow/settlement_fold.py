"""The settlement rows of a log, summed up for many subscriptions at once.

The one fold of settlements into cursors: a restart of the gateway and the job `materialize` both
use it. `verify` and the audit fold by themselves, on purpose: they judge what comes out of here.

Rule 1: a settlement belongs to the incarnation that began in a group before its own, or to none.
Rule 2: a message that came back has as many failed attempts behind it as the record says were
        before it, and one more if it came back as modified; it counts for as long as it is owed.
        The highest count is right: with each delivery it can only grow. A message that came back
        from a lost consumer is in doubt for as long as it is owed.
Rule 3: rows may come in whatever order. A million sequences take a fraction of a second, and memory
        is taken for what is settled above the floors only.
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
#: After so many settled sequences the bitmaps are looked through for stretches, which cost little.
STRETCHES_EVERY: Final = 1 << 24


@dataclass(slots=True)
class Standing:
    """A subscription while it is folded: settlements of groups after `group` are added to it.

    `settled` are final ones from the floor on. `failures` are of sequences that came back with
    failed attempts behind them, `lost` those that came back from lost consumers; of one that is
    settled or below the floor they mean nothing. After the last `add` comes a `trim`.
    """

    group: int
    floor: int
    settled: BitMap64 = field(default_factory=BitMap64)
    failures: dict[int, Failures] = field(default_factory=dict)
    lost: BitMap64 = field(default_factory=BitMap64)

    def add(self, more: "Standing") -> None:
        """Add what settlements of the same incarnation come to."""
        self.floor = max(self.floor, more.floor)
        self.settled |= more.settled
        self.lost |= more.lost
        for sequence, one in more.failures.items():
            self.failures[sequence] = max(one, self.failures.get(sequence, one))

    def trim(self) -> None:
        """Leave out what says nothing: below the floor, and what is said of the settled."""
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
    """Deliveries that came back with failed attempts behind them, in columns."""

    of: Int64s
    sequence: Int64s
    count: Int64s
    group: Int64s


class Settlements:
    """Sums up rows for subscriptions: of each the group after which rows belong to its incarnation,
    and the lowest floor that matters. Of others it takes no notice."""

    def __init__(self, since: Mapping[str, tuple[int, int]]) -> None:
        self._names = pa.array(since, pa.string())
        self._since = np.array([group for group, _ in since.values()], np.int64)
        self._floors = np.array([floor for _, floor in since.values()], np.int64)
        self._sums: dict[int, Standing] = {}  #: of those that have rows, by their index
        self._failed: list[_Failed] = []
        self._failed_count = 0
        self._settled_count = 0

    def add(self, rows: pa.Table) -> pa.Table:
        """Rows with the columns COLUMNS. Returns those of them that count."""
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
        """All rows were added: what they come to, of each subscription that has any."""
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
        """For each row the index of its subscription, -1 if it isn't asked for."""
        found = cast("Chunked", pc.index_in(column, self._names))
        return found.fill_null(pa.scalar(-1, pa.int32())).to_numpy().astype(np.int64)

    def _add_final(self, lists: Chunked, of_row: Int64s) -> None:
        """Each subscription's lists together into its bitmap, without what is below its floor."""
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
    """The rows' sequences behind each other, and whose each one is."""
    counts = pc.list_value_length(rows["sequences"]).to_numpy()
    return np.repeat(of_row, counts), pc.list_flatten(rows["sequences"]).to_numpy()


def _latest(parts: list[_Failed]) -> _Failed:
    """Of each sequence of each subscription the highest count, as of the last group that says
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
