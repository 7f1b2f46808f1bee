"""A subscription's backlog over the last hours, from the log: the messages that came and were
settled in each bucket of time, and how many waited at its end.

Counted backwards from the messages that wait now: as many waited at the end of a bucket as at the
end of the next one, less those that came in the next one, plus those that were settled in it. With
a selector it is an upper bound: messages that aren't selected count as come, and as waiting until
the floor passes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.log_reader import AsOf, Snapshot
from distributary.ingest.console.log_rows.message_rows import message_of
from distributary.ingest.console.log_rows.settlement_rows import files_since
from distributary.ingest.console.log_rows.subscription_lives import Event, Incarnation
from distributary.ingest.console.records.browsing import sequence_at
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.arrow.topic_rows import rows_of
from distributary.pipeline.tables.delta.message_file import between
from distributary.pipeline.tables.reading.table_statistics import messages_of

#: Buckets of one picture.
BUCKETS: Final = 120


@dataclass(frozen=True, slots=True)
class Bucket:
    """From `begins_at` (microseconds) on, as long as all of them are: what `came`, was `settled`,
    and what was `owed` at its end, None where that isn't known."""

    begins_at: int
    came: int
    settled: int
    owed: int | None


@dataclass(frozen=True, slots=True)
class BacklogHistory:
    """Buckets of `width` microseconds, the last one until now. `began`: the incarnation began in
    this time, with this event; before it another one was owed something else. `whole` is false
    where not all of it could be read: then nothing is said of what was owed."""

    buckets: tuple[Bucket, ...]
    width: int
    began: Event | None
    at_most: bool
    whole: bool
    as_of: AsOf


def history_of(
    files: LogFiles,
    snapshot: Snapshot,
    incarnation: Incarnation,
    *,
    now: int,
    seconds: int,
    owed: int | None,
) -> BacklogHistory:
    """The last `seconds` of an incarnation that lives; `owed` is what it is owed as of the
    snapshot, None if that isn't known. Raises Replaced and StoreError."""
    width = max(seconds * 1_000_000 // BUCKETS, 1)
    begin = now - now % width - (BUCKETS - 1) * width
    since = max(begin, incarnation.began.at)
    first = sequence_at(snapshot, since)
    came = _histogram(_came(files, incarnation, first, since), begin, width)
    group = _group_of(files, first, snapshot)
    settled = _histogram(_settled(files, incarnation, group, since), begin, width)
    whole = not files.full
    at_end: list[int | None] = [None] * BUCKETS
    if whole and owed is not None:
        change = came - settled
        later = np.concatenate([np.cumsum(change[::-1])[::-1][1:], [0]])
        at_end = [max(int(owed - one), 0) for one in later]
    begins = [begin + nth * width for nth in range(BUCKETS)]
    buckets = [
        Bucket(at, int(came[nth]), int(settled[nth]), at_end[nth] if at + width > since else None)
        for nth, at in enumerate(begins)
    ]
    began = incarnation.began if incarnation.began.at > begin else None
    at_most = incarnation.selector is not None
    return BacklogHistory(tuple(buckets), width, began, at_most, whole, snapshot.as_of)


def _histogram(parts: Iterator[tuple[Int64s, Int64s]], begin: int, width: int) -> Int64s:
    """Counts by bucket, of times with how many each."""
    counts = np.zeros(BUCKETS, np.int64)
    for times, many in parts:
        nth = np.clip((times - begin) // width, 0, BUCKETS - 1)
        counts += np.bincount(nth, weights=many, minlength=BUCKETS).astype(np.int64)
    return counts


def _group_of(files: LogFiles, sequence: int, snapshot: Snapshot) -> int:
    """No settlement of a group before this one is younger than that message."""
    if sequence >= snapshot.as_of.sequence:
        return 0  # nothing was published since: the times of settlements alone say it
    message = message_of(files, sequence)
    return 0 if message is None else message.group


def _came(
    files: LogFiles, incarnation: Incarnation, first: int, since: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """When messages came; what it was owed from before its beginning came with that."""
    topic, start = incarnation.topic, max(incarnation.floor, 0)
    back = incarnation.began.at >= since and start < first
    for file in messages_of(files.view.state.files):
        least = start if back else max(start, first)
        if (file.high or 0) < least or not between(topic, file.topic_low, file.topic_high):
            continue
        for one in files.row_groups(file):
            bounds = one.topic or (None, None)
            high = least if one.sequence is None else int(one.sequence[1])
            if files.full or high < least or not between(topic, bounds[0], bounds[1]):
                continue
            table = files.read(one, ("sequence", "topic", "published_at"))
            own = rows_of(topic, table["topic"]).to_numpy(zero_copy_only=False)
            own &= table["sequence"].to_numpy() >= least
            times = pc.cast(table["published_at"], pa.int64()).to_numpy()[own]
            yield np.maximum(times, since), np.ones(len(times), np.int64)
        files.close(file.path)


def _settled(
    files: LogFiles, incarnation: Incarnation, group: int, since: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """When messages were settled for good."""
    name = pa.scalar(incarnation.subscription, pa.string())
    least = max(group, incarnation.began.group + 1)
    columns = ("group", "subscription", "final", "settled_at")
    for file in files_since(files, least):
        for one in files.row_groups(file):
            if files.full or (one.group is not None and one.group[1] < least):
                continue
            table = files.read(one, columns)
            own = pc.and_(pc.equal(table["subscription"], name), table["final"])
            own = pc.and_(own, pc.greater_equal(table["group"], pa.scalar(least, pa.int64())))
            if not pc.any(own).as_py():
                continue
            lists = files.read(one, ("sequences",))["sequences"].filter(own)
            times = pc.cast(table["settled_at"].filter(own), pa.int64()).to_numpy()
            young = times >= since
            yield times[young], pc.list_value_length(lists).to_numpy()[young].astype(np.int64)
        files.close(file.path)
