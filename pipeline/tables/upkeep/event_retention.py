"""Retention of events of subscriptions: removal of those that can't matter any more.

The events of subscriptions are in the log, and each start reads all of them: a subscription that
is made and ended once a second would leave 63 million rows in a year. An event may be removed when

* its day is older than those that retention keeps, and its group is before every remaining message
  and settlement, so that no row of the log depends on the time in which it counted;
* and a later event, itself old by that rule, has overtaken it: one that begins an incarnation or
  ends the subscription, or, for events that do neither, the next such event. An end is removed
  together with all earlier events of the subscription.

Of a living subscription the event that began its incarnation and the last one remain; of an ended
one, none. Events of schemas stay: they are few, and old rows are read by them. A prepared or
decided transaction's event stays until the transaction has ended, and is removed with its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.model.subscription import (
    BEGINNINGS,
    ENDS_OF_TRANSACTIONS,
    SubscriptionEvent,
)
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.store import Store

#: Rows that one step reads, at most, unless none of them may go: half a second of a core.
ROWS_MAX: Final = 262_144
_COLUMNS: Final = ["group", "subscription", "event"]
_BEGINS: Final = pa.array(sorted(event.value for event in BEGINNINGS), pa.string())
_SCHEMA: Final = pa.scalar(SubscriptionEvent.SCHEMA.value, pa.string())
_ENDS: Final = pa.array(
    sorted(event.value for event in [*ENDS_OF_TRANSACTIONS, SubscriptionEvent.DELETED]), pa.string()
)

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Forgotten:
    """Files with rows to remove, and for each file the flags of its rows that stay."""

    files: tuple[AddedFile, ...]
    staying: tuple[Flags, ...]

    @property
    def rows(self) -> int:
        """The number of rows to remove."""
        return sum(int((~stay).sum()) for stay in self.staying)


def choose(store: Store, files: Sequence[AddedFile], *, before: str) -> Forgotten | None:
    """Choose events to remove from the oldest files; None if none may go. `files` are all files of
    the table, `before` is the first day to keep. Raises OSError when a file can't be read."""
    old, bound = _old(files, before)
    most = ROWS_MAX
    while old:
        part = _first(old, most)
        # Events in the files that aren't read are unknown, so they bound the groups, too.
        rest = min((f.group_low or 0 for f in old[len(part) :]), default=bound)
        found = _overtaken(store, part, min(bound, rest))
        if found is not None or len(part) == len(old):
            return found
        most *= 2
    return None


def write(store: Store, forgotten: Forgotten) -> list[AddedFile]:
    """Write the remaining rows to new files; a file without any has no successor."""
    written: list[AddedFile] = []
    kind = topic_log_schema.FILES[topic_log_schema.SUBSCRIPTION]
    for file, stay in zip(forgotten.files, forgotten.staying, strict=True):
        if not stay.any():
            continue
        with store.parquet(file.path) as parquet:
            rows = parquet.read(columns=kind.names, use_threads=False)
        left = data_file.completed(rows, kind).filter(pa.array(stay))
        written.append(
            data_file.write(store, left, record=file.record, day=file.day, tier=file.tier)
        )
    return written


def _old(files: Sequence[AddedFile], before: str) -> tuple[list[AddedFile], int]:
    """Return the files of old events, by group, and the group before which events must lie."""
    old: list[AddedFile] = []
    bound = 1 << 62
    for file in files:
        if file.record == topic_log_schema.SUBSCRIPTION and file.day < before:
            old.append(file)
        else:
            bound = min(bound, file.group_low or 0)
    return sorted(old, key=lambda file: (file.group_low or 0, file.path)), bound


def _first(files: Sequence[AddedFile], rows_max: int) -> Sequence[AddedFile]:
    """Return the first files that have at most `rows_max` rows together, at least one file."""
    count = total = 0
    while count < len(files) and (not count or total + files[count].rows <= rows_max):
        total += files[count].rows
        count += 1
    return files[:count]


def _overtaken(store: Store, files: Sequence[AddedFile], bound: int) -> Forgotten | None:
    tables = []
    for file in files:
        with store.parquet(file.path) as parquet:
            tables.append(parquet.read(columns=_COLUMNS, use_threads=False))
    staying = _staying(pa.concat_tables(tables), bound)
    cuts = np.cumsum([table.num_rows for table in tables])[:-1]
    parts = np.split(staying, cuts)
    touched = [nth for nth, stay in enumerate(parts) if not stay.all()]
    if not touched:
        return None
    return Forgotten(tuple(files[n] for n in touched), tuple(parts[n] for n in touched))


def _staying(table: pa.Table, bound: int) -> Flags:
    """Return which of these events stay."""
    event = table["event"]
    begins = pc.is_in(event, value_set=_BEGINS).to_numpy()
    deletes = pc.is_in(event, value_set=_ENDS).to_numpy()
    group = table["group"].to_numpy()
    names = table["subscription"].combine_chunks().dictionary_encode()
    of = names.indices.to_numpy().astype(np.int64)
    count = len(names.dictionary)
    old: Flags = (group < bound) & ~pc.equal(event, _SCHEMA).to_numpy()
    decisive = begins | deletes
    last = _last(of, group, old & decisive, count)
    last_begin = _last(of, group, old & begins, count)
    last_other = _last(of, group, old & ~decisive, count)
    overtaken = (group < last[of]) | (~decisive & (group < last_other[of]))
    # Within one group a beginning comes last: then the subscription lives.
    ended = deletes & (group == last[of]) & (last_begin[of] < last[of])
    return np.asarray(~(old & (overtaken | ended)), np.bool_)


def _last(of: Int64s, group: Int64s, which: Flags, count: int) -> Int64s:
    """Return each subscription's last group among the rows `which`; -1 if it has none."""
    found = np.full(count, -1, np.int64)
    np.maximum.at(found, of[which], group[which])
    return found
