"""Retention by time and by bytes: files that can go before their day is over, as no subscription is
owed any message in them.

Messages are removed from the first sequence on, without a gap, as with days
(`pipeline.tables.upkeep.day_retention`); here all served subscriptions and Spark's tables must have
them first. Settlements are removed when none of their messages can be left. A file with other rows,
too, is cut: its remaining rows are written anew, a bounded number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.upkeep import merge, tiers

#: The least share of a cut file's sequences that must go: at most one row is rewritten for each row
#: that is removed.
CUT_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a removal: `floor` is the first sequence that any subscription may be owed, `group`
    the last one in Spark's tables, None where there are none. Messages go that were published
    before `before` (microseconds), and the oldest above `bytes_max` (0: no limit). Messages
    published before `unread_before` count as read by Spark's job."""

    floor: int
    group: int | None
    before: int
    bytes_max: int
    unread_before: int


@dataclass(frozen=True, slots=True)
class Going:
    """Files to remove, and files of which only the rows from `floor` on stay."""

    files: tuple[AddedFile, ...]
    cut: tuple[AddedFile, ...] = ()
    floor: int = 0

    @property
    def messages(self) -> int:
        """The number of messages in the removed files."""
        return sum(file.rows for file in self.files if file.record == topic_log_schema.MESSAGE)


def choose(files: Sequence[AddedFile], bounds: Bounds) -> Going | None:
    """Choose what one commit can remove now; None if nothing."""
    messages = sorted(_of(files, topic_log_schema.MESSAGE), key=lambda file: file.low or 0)
    over = sum(f.size for f in messages if _high(f) < bounds.floor) - bounds.bytes_max
    count, reach, taken = 0, -1, 0
    for nth, file in enumerate(messages):
        too_many = bool(bounds.bytes_max) and taken < over
        if not _may_go(file, bounds, too_many=too_many):
            break
        taken += file.size
        reach = max(reach, _high(file))
        if nth + 1 == len(messages) or reach < (messages[nth + 1].low or 0):
            count = nth + 1
    going, rest = messages[:count], messages[count:]
    cut = _cut(rest, bounds)
    if cut:
        going += [file for file in rest if _high(file) < bounds.floor]
    kept = [file for file in messages if file not in going]
    first = min((file.group_low or 0 for file in kept), default=None)
    going += [
        file
        for file in _of(files, topic_log_schema.SETTLEMENT)
        if _read(file, bounds) and (first is None or _group(file) < first)
    ]
    return Going(tuple(going), cut, bounds.floor) if going or cut else None


def write(store: Store, going: Going) -> list[AddedFile]:
    """Write the remaining rows of the cut files to new files."""
    kind = topic_log_schema.FILES[topic_log_schema.MESSAGE]
    written = []
    for file in going.cut:
        with store.parquet(file.path) as parquet:
            rows = parquet.read(columns=kind.names, use_threads=False)
        left = data_file.completed(rows, kind).filter(pc.field("sequence") >= going.floor)
        left = merge.sorted_messages(left.combine_chunks())
        written.append(
            data_file.write(store, left, record=file.record, day=file.day, tier=file.tier)
        )
    return written


def _of(files: Sequence[AddedFile], record: str) -> list[AddedFile]:
    return [file for file in files if file.record == record]


def _high(file: AddedFile) -> int:
    return 1 << 62 if file.high is None else file.high


def _group(file: AddedFile) -> int:
    return 1 << 62 if file.group_high is None else file.group_high


def _age(file: AddedFile) -> int:
    """Return when the last of its messages was published, microseconds; if that isn't known, when
    the file was written."""
    attributes = file.attributes
    return file.written_at * 1_000 if attributes is None else attributes.published_high


def _read(file: AddedFile, bounds: Bounds) -> bool:
    """Whether Spark's tables have the whole file, or have had time enough to read it."""
    known = bounds.group is None or _group(file) <= bounds.group
    return known or _age(file) < bounds.unread_before


def _may_go(file: AddedFile, bounds: Bounds, *, too_many: bool) -> bool:
    old = too_many or _age(file) < bounds.before
    return old and _high(file) < bounds.floor and _read(file, bounds)


def _cut(rest: Sequence[AddedFile], bounds: Bounds) -> tuple[AddedFile, ...]:
    """Return the files that reach over the floor, if their rows below it can go and the files are
    small enough together: else the rows wait until all rows of their file lie below."""
    below = [file for file in rest if (file.low or 0) < bounds.floor]
    over = tuple(file for file in below if _high(file) >= bounds.floor)
    gone = sum(bounds.floor - (file.low or 0) for file in over)
    span = sum(_high(file) + 1 - (file.low or 0) for file in over)
    small = (
        sum(file.rows for file in over) <= tiers.MERGE_ROWS_MAX
        and sum(file.size for file in over) <= tiers.FULL_BYTES
    )
    due = all(_age(file) < bounds.before and _read(file, bounds) for file in below)
    return over if over and due and small and gone >= CUT_SHARE * span else ()
