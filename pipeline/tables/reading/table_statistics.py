"""Statistics about the messages of the table: priorities, expiries, volumes, times.

Files and row groups that can't matter aren't read; of the others only the needed columns, a few row
groups at a time. All arguments are of one state of the table; any thread may call.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from distributary.pipeline.dispatch.priority_index import Ahead
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.tables.arrow import freed_memory, topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.arrow.bitmaps import Lanes
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.data_file import ROW_GROUP_ROWS_MAX
from distributary.pipeline.tables.delta.message_file import TOPIC_EXACT_MAX
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.reading import page_attributes

#: Messages of a priority above 4, by priority, in the form of `Ahead`.
Packed: TypeAlias = dict[int, tuple[dict[int, bytes], list[range]]]


class Volume(NamedTuple):
    """A part of a topic's messages. Between its bounds other topics' messages may lie; there is a
    message of the topic at both ends."""

    topic: str
    first: int
    stop: int  #: the sequence after the last message
    messages: int
    bytes: int  #: about
    published_at: int  #: of the last message, in microseconds


#: Row groups that are read together: a call for each took ten times as long.
ROW_GROUPS: Final = 64
#: Files after which freed memory is given back.
FILES: Final = 8
#: Most parts in which the messages of a topic are counted, where a row group has several topics.
PARTS_MAX: Final = 64
#: A higher priority in a header counts as this one.
HIGHEST: Final = 9

#: Columns that change a message's place in the order of delivery, or end its delivery.
_ORDERING: Final = ("priority", "expires_at")


def messages_of(files: Iterable[AddedFile]) -> list[AddedFile]:
    """Return the files of messages by their lowest sequence."""
    found = [file for file in files if file.record == topic_log_schema.MESSAGE]
    return sorted(found, key=lambda file: file.low or 0)


def priority_statistics(store: Store, files: Sequence[AddedFile], since: int) -> Iterator[Ahead]:
    """Return, for sequences from `since` on, the messages of a priority above 4 and those that
    expire; ascending for each topic, in parts."""
    due = [file for file in files if _reaches(file.high, since) and not _plain(file)]
    for file, parquet in _opened(store, due):
        yield from _dense(parquet, file, since) if _is_dense(file) else _listed(parquet, since)


def _opened(store: Store, files: Iterable[AddedFile]) -> Iterator[tuple[AddedFile, pq.ParquetFile]]:
    """Yield each file, open until the next one."""
    for nth, file in enumerate(files, 1):
        with store.parquet(file.path) as parquet:
            yield file, parquet
        if not nth % FILES:
            freed_memory.give_back()


def _plain(file: AddedFile) -> bool:
    has = file.attributes
    return has is not None and has.priority_high <= PRIORITY and not has.expiring


def _is_dense(file: AddedFile) -> bool:
    """Whether its statistics tell the sequence of each row: all of its sequences belong to one
    topic. Files with attributes have their rows by sequence."""
    if file.attributes is None or file.low is None or file.high is None:
        return False
    return file.high - file.low + 1 == file.rows and _exact(file.topic_low, file.topic_high)


def _dense(parquet: pq.ParquetFile, file: AddedFile, since: int) -> Iterator[Ahead]:
    """Return the attributes of a dense file; only the attribute columns are read."""
    has, first, topic = file.attributes, file.low, file.topic_low
    assert has is not None and first is not None and topic is not None  # noqa: S101, PT018
    columns = ["priority"] if has.priority_high > PRIORITY else []
    columns += ["expires_at"] if has.expiring else []
    for part in _together([*range(parquet.num_row_groups)]):
        table = parquet.read_row_groups(part, columns=columns, use_threads=False)
        begin = max(since - first, 0)
        if begin < table.num_rows and (found := page_attributes.columns_of(table)) is not None:
            late = found.take(slice(begin, None))
            high = _masks(first + begin, late.priority)
            places = np.arange(len(late.expires_at))
            yield Ahead(topic, high, _lapses(first + begin + places, places, late.expires_at))
        first += table.num_rows


def _masks(first: int, priority: npt.NDArray[np.uint8]) -> Packed:
    """Return the messages of each high priority; `priority` begins at sequence `first`."""
    found = {}
    for level, which in _levels(priority):
        lanes = Lanes()
        lanes.add_mask(first, which.view(np.uint8))
        found[level] = lanes.packed, lanes.full
    return found


def _levels(priority: npt.NDArray[np.uint8]) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Yield each high priority in use, and the messages that have it."""
    known = np.minimum(priority, HIGHEST)
    for level in range(PRIORITY + 1, HIGHEST + 1):
        which = known == level
        if which.any():
            yield level, which


def _lapses(sequences: Int64s, rows: Int64s, expires_at: Int64s) -> list[tuple[int, int, int]]:
    """Return the stretches in which some of these messages expire, each within a row group."""
    some = np.flatnonzero(expires_at)
    if not len(some):
        return []
    sequences, rows, expires_at = sequences[some], rows[some], expires_at[some]
    begins = np.flatnonzero(np.diff(rows // ROW_GROUP_ROWS_MAX, prepend=-1))
    earliest = np.minimum.reduceat(expires_at, begins).tolist()
    starts = np.minimum.reduceat(sequences, begins).tolist()
    lasts = np.maximum.reduceat(sequences, begins).tolist()
    return [(at, start, last + 1) for at, start, last in zip(earliest, starts, lasts, strict=True)]


def _listed(parquet: pq.ParquetFile, since: int) -> Iterator[Ahead]:
    """Return the attributes of any file, by the statistics of its row groups."""
    at, due = _places(parquet), dict[int, list[str]]()
    for nth in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(nth)
        names = [name for name in page_attributes.said(group, at) if name in _ORDERING]
        if names and _reaches(_bounds(group, at["sequence"])[1], since):
            due[nth] = names
    for part in _together([*due]):
        names = sorted({name for nth in part for name in due[nth]})
        columns = ["sequence", "topic", *names]
        yield from _unusual(
            parquet.read_row_groups(part, columns=columns, use_threads=False), since
        )


def _together(row_groups: list[int]) -> Iterator[list[int]]:
    for begin in range(0, len(row_groups), ROW_GROUPS):
        yield row_groups[begin : begin + ROW_GROUPS]


def _unusual(table: pa.Table, since: int) -> Iterator[Ahead]:
    columns, sequences = page_attributes.columns_of(table), table["sequence"].to_numpy()
    if columns is None:
        return
    late = sequences >= since
    which = np.flatnonzero(((columns.priority > PRIORITY) | (columns.expires_at > 0)) & late)
    some = columns.take(which)
    for topic, rows in _by_topic(table.take(pa.array(which, pa.int64())), sequences[which]):
        own = sequences[which[rows]]
        high = {}
        for level, those in _levels(some.priority[rows]):
            lanes = Lanes()
            lanes.add(own[those])
            high[level] = lanes.packed, lanes.full
        yield Ahead(topic, high, _lapses(own, which[rows], some.expires_at[rows]))


def _by_topic(table: pa.Table, sequences: Int64s) -> Iterator[tuple[str, Int64s]]:
    """Yield for each topic the indices of its rows, by sequence."""
    names = table["topic"].combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    for code, name in enumerate(cast("list[str]", names.dictionary.to_pylist())):
        rows = np.flatnonzero(codes == code)
        yield name, rows[np.argsort(sequences[rows], kind="stable")]


def volumes(store: Store, files: Sequence[AddedFile], since: int) -> Iterator[Volume]:
    """Return the volumes of messages from `since` on, in parts, ascending for each topic."""
    late = [file for file in files if _reaches(file.high, since)]
    for _, parquet in _opened(store, late):
        at = _places(parquet)
        for nth in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(nth)
            size = group.column(at["message"]).total_uncompressed_size
            topic = _only_topic(group, at["topic"])
            low, high = _bounds(group, at["sequence"])
            _, newest = _bounds(group, at["published_at"])
            if topic and newest and isinstance(low, int) and low >= since:
                stop = int(str(high)) + 1
                at_last = commits.microseconds(newest)
                yield Volume(topic, low, stop, group.num_rows, size, at_last)
            elif _reaches(high, since):
                columns = ["sequence", "topic", "published_at"]
                table = parquet.read_row_group(nth, columns=columns, use_threads=False)
                yield from _counted(table, since, size / max(group.num_rows, 1))


def _counted(table: pa.Table, since: int, size: float) -> Iterator[Volume]:
    which = np.flatnonzero(table["sequence"].to_numpy() >= since)
    table = table.take(pa.array(which, pa.int64()))
    sequences, published = (
        table["sequence"].to_numpy(),
        page_attributes.times(table["published_at"]),
    )
    for topic, rows in _by_topic(table, sequences):
        for part in _parts(rows, sequences[rows]):
            begin, last, count = part[0], part[-1], len(part)
            stop = int(sequences[last]) + 1
            yield Volume(
                topic,
                int(sequences[begin]),
                stop,
                count,
                round(count * size),
                int(published[last]),
            )


def _parts(rows: Int64s, sequences: Int64s) -> list[Int64s]:
    """Divide a topic's rows where other topics' messages lie between: counts from any of these
    parts on are exact. Where they are too many, some have a part together."""
    begins = np.flatnonzero(np.diff(sequences) != 1) + 1
    return np.split(rows, begins[:: len(begins) // PARTS_MAX + 1])


def _only_topic(group: pq.RowGroupMetaData, at: int) -> str | None:
    """Return the topic of all rows, if the bounds tell."""
    low, high = _bounds(group, at)
    return cast("str", low) if _exact(low, high) else None


def _exact(low: object, high: object) -> bool:
    """Whether these bounds of topics mean one topic: they may have been cut."""
    return isinstance(low, str) and low == high and len(low.encode()) <= TOPIC_EXACT_MAX


def first_at(store: Store, files: Sequence[AddedFile], time: int, *, day: str) -> int | None:
    """Return the lowest sequence that was published at `time` (microseconds) or later; None if
    there is none. `day` is the UTC day of the time."""
    best: int | None = None
    for file in files:
        if file.low is None or (best is not None and file.low >= best):
            continue
        has = file.attributes
        if file.day < day or (has is not None and has.published_high < time):
            continue
        if file.day > day or (has is not None and has.published_low >= time):
            best = file.low
            continue
        found = _first_in(store, file, time, best)
        best = found if found is not None else best
    return best


def _first_in(store: Store, file: AddedFile, time: int, best: int | None) -> int | None:
    """Return the file's lowest sequence from that time on, if it is below `best`; else `best`."""
    with store.parquet(file.path) as parquet:
        at = _places(parquet)
        for nth in range(parquet.num_row_groups):
            low, _ = _bounds(parquet.metadata.row_group(nth), at["sequence"])
            if best is not None and isinstance(low, int) and low >= best:
                continue
            columns = ["sequence", "published_at"]
            table = parquet.read_row_group(nth, columns=columns, use_threads=False)
            later = table["sequence"].to_numpy()[
                page_attributes.times(table["published_at"]) >= time
            ]
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
    """Whether a sequence from `since` on may lie below this bound; None is no bound."""
    return not isinstance(high, int) or high >= since
