"""What the messages of the table are like, by its statistics as far as they say it.

Files and row groups that can't matter aren't read; of the others only the columns in question, a
row group at a time. What is given is of one state of the table, on any thread.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.tables import commits, page_traits, schema
from pipeline.tables.arrow import Int64s
from pipeline.tables.commits import AddedFile
from pipeline.tables.paging import TOPIC_EXACT_MAX
from pipeline.tables.store import Store
from pipeline.traits import PRIORITY, Traits

#: A part of a topic's messages: the topic, the sequence behind the last message, how many they are,
#: about how many bytes they have, and when the last one was published (microseconds).
Volume: TypeAlias = tuple[str, int, int, int, int]

#: Where at least one message in so many is unusual, what all of a topic say is less than a list.
MANY: Final = 16

#: What makes a message wait its turn elsewhere than behind those before it, or not at all.
_ORDERING: Final = ("priority", "expires_at")


def messages_of(files: Iterable[AddedFile]) -> list[AddedFile]:
    """The files of messages by their lowest sequence."""
    found = [file for file in files if file.record == schema.MESSAGE]
    return sorted(found, key=lambda file: file.low or 0)


def survey(store: Store, files: Sequence[AddedFile], since: int) -> Iterator[tuple[str, Traits]]:
    """Of the sequences from `since` on: the topic's messages of a priority above 4, and those that
    expire, perhaps with others between them; what each says of these two, ascending for each topic,
    in parts."""
    for file in files:
        if not _reaches(file.high, since) or _plain(file):
            continue
        with store.parquet(file.path) as parquet:
            at = _places(parquet)
            for nth in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(nth)
                due = [name for name in page_traits.said(group, at) if name in _ORDERING]
                if due and _reaches(_bounds(group, at["sequence"])[1], since):
                    columns = ["sequence", "topic", *due]
                    yield from _unusual(
                        parquet.read_row_group(nth, columns=columns, use_threads=False), since
                    )


def _plain(file: AddedFile) -> bool:
    has = file.traits
    return has is not None and has.priority_high <= PRIORITY and not has.expiring


def _unusual(table: pa.Table, since: int) -> Iterator[tuple[str, Traits]]:
    columns, sequences = page_traits.columns_of(table), table["sequence"].to_numpy()
    if columns is None:
        return
    late = sequences >= since
    which = np.flatnonzero(((columns.priority > PRIORITY) | (columns.expires_at > 0)) & late)
    if len(which) * MANY >= len(sequences) and (topic := _only_one(table)) is not None:
        every = np.flatnonzero(late)
        own = sequences[every]
        if own[-1] - own[0] == len(own) - 1 and (np.diff(own) == 1).all():
            dense = page_traits.traits(columns.take(every), int(own[0]), None, 0, len(own))
            assert dense is not None  # noqa: S101 (some of these rows are unusual)
            yield topic, dense
            return
    some = columns.take(which)
    for topic, rows in _by_topic(table.take(pa.array(which, pa.int64())), sequences[which]):
        listed = array("q", sequences[which][rows].tobytes())
        of_topic = page_traits.traits(some.take(rows), listed[0], listed, 0, len(listed))
        assert of_topic is not None  # noqa: S101 (each of these rows is unusual)
        yield topic, of_topic


def _only_one(table: pa.Table) -> str | None:
    """The topic of all of these rows, if it is one."""
    names = pc.unique(table["topic"])
    return cast("str", names[0].as_py()) if len(names) == 1 else None


def _by_topic(table: pa.Table, sequences: Int64s) -> Iterator[tuple[str, Int64s]]:
    """For each topic the indices of its rows, by sequence."""
    names = table["topic"].combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    for code, name in enumerate(cast("list[str]", names.dictionary.to_pylist())):
        rows = np.flatnonzero(codes == code)
        yield name, rows[np.argsort(sequences[rows], kind="stable")]


def volumes(store: Store, files: Sequence[AddedFile], since: int) -> Iterator[Volume]:
    """How much there is from `since` on, in parts, ascending for each topic."""
    for file in files:
        if not _reaches(file.high, since):
            continue
        with store.parquet(file.path) as parquet:
            at = _places(parquet)
            for nth in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(nth)
                size = group.column(at["message"]).total_uncompressed_size
                topic = _only_topic(group, at["topic"])
                low, high = _bounds(group, at["sequence"])
                _, newest = _bounds(group, at["published_at"])
                if topic and newest and isinstance(low, int) and low >= since:
                    stop = int(str(high)) + 1
                    yield topic, stop, group.num_rows, size, commits.microseconds(newest)
                elif _reaches(high, since):
                    columns = ["sequence", "topic", "published_at"]
                    table = parquet.read_row_group(nth, columns=columns, use_threads=False)
                    yield from _counted(table, since, size / max(group.num_rows, 1))


def _counted(table: pa.Table, since: int, size: float) -> Iterator[Volume]:
    which = np.flatnonzero(table["sequence"].to_numpy() >= since)
    table = table.take(pa.array(which, pa.int64()))
    sequences, published = table["sequence"].to_numpy(), page_traits.times(table["published_at"])
    for topic, rows in _by_topic(table, sequences):
        last, count = rows[-1], len(rows)
        yield topic, int(sequences[last]) + 1, count, round(count * size), int(published[last])


def _only_topic(group: pq.RowGroupMetaData, at: int) -> str | None:
    """The topic of all rows, if the bounds tell: they may have been cut."""
    low, high = _bounds(group, at)
    exact = isinstance(low, str) and low == high and len(low.encode()) <= TOPIC_EXACT_MAX
    return cast("str", low) if exact else None


def first_at(store: Store, files: Sequence[AddedFile], time: int, *, day: str) -> int | None:
    """The lowest sequence that was published at this time (microseconds) or later; None if none
    was. `day` is the UTC day of the time."""
    best: int | None = None
    for file in files:
        if file.low is None or (best is not None and file.low >= best):
            continue
        has = file.traits
        if file.day < day or (has is not None and has.published_high < time):
            continue
        if file.day > day or (has is not None and has.published_low >= time):
            best = file.low
            continue
        found = _first_in(store, file, time, best)
        best = found if found is not None else best
    return best


def _first_in(store: Store, file: AddedFile, time: int, best: int | None) -> int | None:
    """The lowest sequence below `best` of what the file has from that time on."""
    with store.parquet(file.path) as parquet:
        at = _places(parquet)
        for nth in range(parquet.num_row_groups):
            low, _ = _bounds(parquet.metadata.row_group(nth), at["sequence"])
            if best is not None and isinstance(low, int) and low >= best:
                continue
            columns = ["sequence", "published_at"]
            table = parquet.read_row_group(nth, columns=columns, use_threads=False)
            later = table["sequence"].to_numpy()[page_traits.times(table["published_at"]) >= time]
            if len(later):
                lowest = int(later.min())
                best = lowest if best is None else min(best, lowest)
    return best


def _places(parquet: pq.ParquetFile) -> dict[str, int]:
    metadata = parquet.metadata
    return {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}


def _bounds(group: pq.RowGroupMetaData, at: int) -> tuple[object, object]:
    found = group.column(at).statistics
    return (found.min, found.max) if found is not None and found.has_min_max else (None, None)


def _reaches(high: object, since: int) -> bool:
    """Whether something from `since` on may lie below this bound; None is no bound."""
    return not isinstance(high, int) or high >= since
