"""Standings of subscriptions by the log: the floor, the settled and the given-up sequences.

The fold is that of a start (`pipeline.tables.arrow.settlement_fold`). The result for a subscription
is kept, and goes on with the groups that came since; the first time Spark's `cursors`, if they are
there, save most of the reading.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.settlement_rows import NEVER_OWED, files_since
from distributary.ingest.console.log_rows.subscription_lives import Incarnation
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.arrow.bitmaps import Bitmap, bitmap_of, read_bitmap
from distributary.pipeline.tables.arrow.settlement_fold import COLUMNS, Settlements, Standing

#: Subscriptions whose state is kept: some hundred bytes each, more where much is settled above a
#: floor.
KEPT_MAX: Final = 256
#: The final outcomes of owed messages that no consumer accepted.
_GIVEN_UP: Final = pa.array(
    [one.value for one in Outcome if one is not Outcome.ACCEPTED and one not in NEVER_OWED],
    pa.string(),
)


@dataclass(frozen=True, slots=True)
class KnownStanding:
    """Standing of an incarnation after `group`. `given_up` are sequences that ended without being
    accepted, as far back as rows were read: after the group `given_up_since`."""

    incarnation: Incarnation
    group: int
    floor: int
    settled: Bitmap
    given_up: Bitmap = field(default_factory=Bitmap)
    given_up_since: int = 0

    def waits(self, sequences: Int64s) -> npt.NDArray[np.bool_]:
        """A mask of the sequences that aren't settled; some of them may never have been owed."""
        waits: npt.NDArray[np.bool_] = sequences >= self.floor
        if self.settled and waits.any():
            above = np.array(self.settled.to_array(), np.int64)
            at = np.searchsorted(above, sequences)
            at[at == len(above)] = 0
            waits &= above[at] != sequences
        return waits


class Standings:
    """Keeps them; for any number of threads. `cursors` is the address of Spark's table, `options`
    what deltalake needs beyond it."""

    def __init__(self, cursors: str = "", options: Mapping[str, str] = {}) -> None:
        self._cursors, self._options = cursors, dict(options)
        self._lock = Lock()
        self._kept: OrderedDict[str, KnownStanding] = OrderedDict()

    def of(self, files: LogFiles, incarnation: Incarnation) -> KnownStanding | None:
        """The standing of an incarnation that lives, as of the files' snapshot; None if the request
        may not read as much as that takes. Raises Replaced and StoreError."""
        name, group = incarnation.subscription, files.view.state.group
        with self._lock:
            known = self._kept.get(name)
        if known is None or known.incarnation != incarnation or known.group > group:
            known = self._begin(incarnation, group)
        if known.group < group:
            later = _folded(files, known)
            if later is None:
                return None
            known = later
        with self._lock:
            self._kept[name] = known
            self._kept.move_to_end(name)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return known

    def _begin(self, incarnation: Incarnation, group: int) -> KnownStanding:
        began = incarnation.began.group
        row = self._cursor(incarnation.subscription)
        if row is not None and began <= int(row["group"]) <= group:
            settled = read_bitmap(bytes(row["settled"]))
            at = int(row["group"])
            return KnownStanding(incarnation, at, int(row["floor"]), settled, given_up_since=at)
        return KnownStanding(incarnation, began, incarnation.floor, Bitmap(), given_up_since=began)

    def _cursor(self, subscription: str) -> "dict[str, Any] | None":
        """Spark's row; None where there is none, or none that can be read: the log says it all."""
        try:
            there = self._cursors and DeltaTable.is_deltatable(self._cursors, self._options)
            if not there:
                return None
            [row] = (
                DeltaTable(self._cursors, storage_options=self._options)
                .to_pyarrow_table(
                    columns=["group", "floor", "settled"],
                    filters=[("subscription", "=", subscription)],
                )
                .to_pylist()
            )
        except (DeltaError, OSError, ValueError, pa.ArrowException):
            return None
        else:
            return row


def _folded(files: LogFiles, known: KnownStanding) -> KnownStanding | None:
    """With what came after its group; None if that is too much to read."""
    name = known.incarnation.subscription
    fold = Settlements({name: (known.group, known.floor)})
    given_up = known.given_up.copy()
    for file in files_since(files, known.group + 1):
        for one in files.row_groups(file):
            if files.full:
                return None
            if one.group is not None and one.group[1] <= known.group:
                continue
            own = pc.equal(
                files.read(one, ("subscription",))["subscription"], pa.scalar(name, pa.string())
            )
            if pc.any(own).as_py():
                rows = fold.add(files.read(one, COLUMNS).filter(own))
                given_up |= _given_up(rows)
        files.close(file.path)
    whole = Standing(known.group, known.floor, known.settled.copy())
    if (sums := fold.sums().get(name)) is not None:
        whole.add(sums)
        whole.trim()
    return replace(
        known,
        group=files.view.state.group,
        floor=whole.floor,
        settled=whole.settled,
        given_up=given_up,
    )


def _given_up(rows: pa.Table) -> Bitmap:
    """Sequences of final settlements that aren't accepts."""
    some = rows.filter(pc.and_(rows["final"], pc.is_in(rows["outcome"], value_set=_GIVEN_UP)))
    return bitmap_of(np.sort(pc.list_flatten(some["sequences"]).to_numpy()))
