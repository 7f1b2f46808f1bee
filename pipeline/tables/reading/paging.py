"""Reading messages back from `topic_log`, a page at a time, in the order of their sequences.

The commits' statistics (files) and Parquet's footers (row groups) tell where messages may be. Files
and row groups usually follow each other, but may overlap: a commit stores its topics one after the
other. So a page is complete only below the lowest sequence that an unread row group may have, and
never claims more.

Everything here is for one reader thread; the given files are an immutable tuple.
"""

import heapq
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.subscriptions.hint import HintFilter
from distributary.pipeline.tables.arrow.arrow_types import Arrow, Chunked, Int32s, Int64s
from distributary.pipeline.tables.arrow.topic_rows import rows_of
from distributary.pipeline.tables.delta.message_file import TOPIC_EXACT_MAX, MessageFile, between
from distributary.pipeline.tables.reading import page_attributes
from distributary.pipeline.tables.reading.message_page import Page
from distributary.pipeline.tables.reading.page_attributes import Columns

#: Open Parquet files that are kept with their footers; each is a file descriptor.
FILES_OPEN_MAX = 64
#: Decoded row groups that are kept: the next page begins in the row group where the last one ended.
UNITS_KEPT_MAX = 2
#: A page may read this many times its size to get past row groups that overlap.
OVERREAD_MAX = 4
#: Row groups that one page reads where a hint says that few of their messages are wanted, at most:
#: other readers wait for it meanwhile.
FILTERED_UNITS_MAX = 8
#: Consecutive messages from which on a stretch gets a batch of its own; where stretches are shorter
#: on average, one batch lists its sequences instead. A batch costs about ten microseconds until it
#: is delivered.
STRETCH_MIN = 32


@dataclass(frozen=True, slots=True, order=True)
class _Unit:
    """One row group, which is read as a whole."""

    low: int
    high: int
    path: str
    index: int
    topic_low: str | None = field(compare=False)
    topic_high: str | None = field(compare=False)
    attributes: tuple[str, ...] = field(compare=False)  #: attribute columns with non-default values


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of one topic or pattern: message i is `blob[offsets[i]:offsets[i + 1]]`."""

    sequences: Int64s
    offsets: Int32s
    blob: memoryview
    array: Arrow
    attributes: Columns | None = None

    @property
    def size(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])


class Pager:
    """Reads pages out of the files under `root`; keeps a bounded number of footers and rows."""

    def __init__(self, root: Path, parquet: Callable[[str], pq.ParquetFile]) -> None:
        self._root, self._parquet = root, parquet
        self._open: OrderedDict[str, tuple[pq.ParquetFile, tuple[_Unit, ...]]] = OrderedDict()
        self._kept: OrderedDict[tuple[_Unit, str], _Rows] = OrderedDict()

    def page(
        self,
        files: Sequence[MessageFile],
        head: int,
        *,
        topic: str,
        start: int,
        bytes_max: int,
        hint_filter: HintFilter | None = None,
    ) -> Page:
        """Return messages of `topic`, which may be a pattern, from `start` on: about `bytes_max`,
        at least one if there is one.

        `head` is the first sequence that isn't committed in `files`. With `hint_filter` the page
        has only messages that the filter names, and ends where the filter does.
        """
        row_filter = None if hint_filter is None else RowFilter(hint_filter)
        head = head if hint_filter is None else min(head, hint_filter.stop)
        if start >= head:
            return Page((), start)
        with self._forgetting():
            parts, limit = self._gather(files, head, topic, start, bytes_max, row_filter)
        return _cut(parts, start, limit, bytes_max, filtered=hint_filter is not None)

    def topics(self, files: Sequence[MessageFile], sequences: Sequence[int]) -> dict[int, str]:
        """Return the topic of each of these messages (ascending) that `files` have."""
        with self._forgetting():
            return self._topics(files, sequences)

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget the kept footers and rows after a read error: a footer has no checksum, so a kept
        one may have been read from wrong bytes, and would fail each time."""
        try:
            yield
        except (OSError, pa.ArrowException):
            for parquet, _ in self._open.values():
                parquet.close()
            self._open.clear()
            self._kept.clear()
            raise

    def _topics(self, files: Sequence[MessageFile], sequences: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        wanted = np.array(sequences, np.int64)
        for file in files:
            if not np.any((wanted >= file.low) & (wanted <= file.high)):
                continue
            for unit in self._footer(file)[1]:
                here = wanted[(wanted >= unit.low) & (wanted <= unit.high)]
                if not len(here):
                    continue
                parquet, columns = self._footer(file)[0], ["sequence", "topic"]
                table = parquet.read_row_group(unit.index, columns=columns, use_threads=False)
                rows = table.filter(pc.is_in(table["sequence"], pa.array(here)))
                names = map(str, rows["topic"].to_pylist())
                found.update(zip(rows["sequence"].to_numpy().tolist(), names, strict=True))
        return found

    def _gather(
        self,
        files: Sequence[MessageFile],
        head: int,
        topic: str,
        start: int,
        bytes_max: int,
        row_filter: "RowFilter | None",
    ) -> tuple[list[_Rows], int]:
        """Return row groups in order until the page is full, and the sequence up to which they
        are complete."""
        parts: list[_Rows] = []
        size = read = 0
        lowest, highest = head, start - 1
        for unit in self._units(files, topic, start, row_filter):
            if unit.low >= head:
                break
            settled = unit.low > highest
            full = size >= bytes_max or read >= FILTERED_UNITS_MAX
            if full and (settled or (size >= OVERREAD_MAX * bytes_max and lowest < unit.low)):
                return parts, unit.low
            rows = self._read(unit, topic)
            if row_filter is not None:
                read += 1
                highest = max(highest, unit.high)
                rows = row_filter.rows(rows)
            begin = int(np.searchsorted(rows.sequences, start))
            if begin == len(rows.sequences):
                continue
            parts.append(rows)
            size += int(rows.offsets[-1] - rows.offsets[begin])
            lowest = min(lowest, int(rows.sequences[begin]))
            highest = max(highest, int(rows.sequences[-1]))
        return parts, head

    def _units(
        self, files: Sequence[MessageFile], topic: str, start: int, row_filter: "RowFilter | None"
    ) -> Iterator[_Unit]:
        """Yield row groups that may hold the topic from `start` on, by their lowest sequence; with
        a filter only those with a sequence that it names."""
        waiting: list[_Unit] = []
        first = bisect_left(files, start, key=lambda file: file.reach)
        for i in range(first, len(files)):
            file = files[i]
            if file.high < start or not file.may_hold(topic):
                continue
            if row_filter is not None and not row_filter.any(max(file.low, start), file.high):
                continue
            while waiting and waiting[0].low < file.low:
                yield heapq.heappop(waiting)
            for unit in self._footer(file)[1]:
                if unit.high < start or not between(topic, unit.topic_low, unit.topic_high):
                    continue
                if row_filter is None or row_filter.any(max(unit.low, start), unit.high):
                    heapq.heappush(waiting, unit)
        while waiting:
            yield heapq.heappop(waiting)

    def _footer(self, file: MessageFile) -> tuple[pq.ParquetFile, tuple[_Unit, ...]]:
        found = self._open.get(file.path)
        if found is None:
            parquet = self._parquet(file.path)
            found = parquet, _row_groups(file, parquet.metadata)
            self._open[file.path] = found
            if len(self._open) > FILES_OPEN_MAX:
                _, (oldest, _) = self._open.popitem(last=False)
                oldest.close()
        self._open.move_to_end(file.path)
        return found

    def _read(self, unit: _Unit, topic: str) -> _Rows:
        rows = self._kept.get((unit, topic))
        if rows is None:
            rows = self._read_from_disk(unit, topic)
            self._kept[unit, topic] = rows
            if len(self._kept) > UNITS_KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end((unit, topic))
        return rows

    def _read_from_disk(self, unit: _Unit, topic: str) -> _Rows:
        found = self._open.get(unit.path)
        parquet = found[0] if found else self._parquet(unit.path)
        only = unit.topic_low == unit.topic_high == topic and len(topic.encode()) <= TOPIC_EXACT_MAX
        columns = ["sequence", "message", *unit.attributes] + ([] if only else ["topic"])
        try:
            table = parquet.read_row_group(unit.index, columns=columns, use_threads=False)
        except OSError as error:  # e.g. a wrong checksum; Arrow doesn't name the file
            raise OSError(f"{self._root / unit.path}, row group {unit.index}: {error}") from error
        if not only:
            table = table.filter(rows_of(topic, table["topic"]))
        columns_of_attributes = page_attributes.columns_of(table) if unit.attributes else None
        return _sorted(table["sequence"].to_numpy(), table["message"], columns_of_attributes)


class RowFilter:
    """Selects the rows that a hint names."""

    __slots__ = ("_wanted",)

    def __init__(self, hint_filter: HintFilter) -> None:
        self._wanted = np.frombuffer(hint_filter.sequences, np.int64)

    def any(self, low: int, high: int) -> bool:
        """Whether the hint names any sequence from `low` to `high`, both included."""
        at = int(np.searchsorted(self._wanted, low))
        return at < len(self._wanted) and int(self._wanted[at]) <= high

    def rows(self, rows: _Rows) -> _Rows:
        """Return the rows that the hint names."""
        at = np.searchsorted(self._wanted, rows.sequences)
        named = np.zeros(len(at), np.bool_)
        inside = at < len(self._wanted)
        named[inside] = self._wanted[at[inside]] == rows.sequences[inside]
        which = np.flatnonzero(named)
        taken = pa.chunked_array([rows.array]).take(pa.array(which, pa.int64()))
        attributes = rows.attributes and rows.attributes.take(which)
        return _rows(rows.sequences[which], taken, attributes)


def _row_groups(file: MessageFile, metadata: pq.FileMetaData) -> tuple[_Unit, ...]:
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    at = {name: i for i, name in enumerate(names)}
    units = []
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        low, high = _bounds(group.column(at["sequence"]))
        topic_low, topic_high = _bounds(group.column(at["topic"]))
        units.append(
            _Unit(
                file.low if low is None else int(low),
                file.high if high is None else int(high),
                file.path,
                i,
                topic_low,
                topic_high,
                page_attributes.said(group, at),
            )
        )
    return tuple(units)


def _bounds(column: pq.ColumnChunkMetaData) -> tuple[Any, Any]:
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None, None
    return statistics.min, statistics.max


def _sorted(sequences: Int64s, messages: Chunked, attributes: Columns | None) -> _Rows:
    """Return the rows by sequence; without a copy if they are in that order already."""
    if (np.diff(sequences) > 0).all():
        return _rows(sequences, messages, attributes)
    order = np.argsort(sequences)
    return _rows(sequences[order], messages.take(order), attributes and attributes.take(order))


def _rows(sequences: Int64s, messages: Chunked, attributes: Columns | None) -> _Rows:
    """Return the rows over Arrow's own buffers, without a copy if they lie in one chunk."""
    if not len(messages):
        return _Rows(sequences, np.zeros(1, np.int32), memoryview(b""), pa.nulls(0, pa.binary()))
    chunks = messages.chunks
    array: Arrow = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    _, offsets, blob = array.buffers()
    view = np.frombuffer(memoryview(offsets or b""), np.int32)[array.offset :][: len(array) + 1]
    return _Rows(sequences, view, memoryview(blob or b""), array, attributes)


def _cut(
    parts: list[_Rows], start: int, limit: int, bytes_max: int, *, filtered: bool = False
) -> Page:
    """Return the rows in [start, limit) as batches, cut where `bytes_max` is reached."""
    if any(a.sequences[-1] >= b.sequences[0] for a, b in pairwise(parts)):
        parts = [_merged(parts)]
    batches: list[RecordBatch] = []
    left = bytes_max
    for rows in parts:
        begin, end = np.searchsorted(rows.sequences, [start, limit])
        sizes = rows.offsets[begin : end + 1] - rows.offsets[begin]
        fits = int(np.searchsorted(sizes, left, side="right")) - 1
        if not batches:
            fits = max(fits, 1)
        stop = min(int(end), int(begin) + fits)
        batches += _batches(rows, int(begin), stop, filtered=filtered)
        if stop < end:
            return Page(tuple(batches), int(rows.sequences[stop]))
        if end > begin:
            left -= int(sizes[-1])
    return Page(tuple(batches), limit)


def _merged(parts: list[_Rows]) -> _Rows:
    sequences = np.concatenate([rows.sequences for rows in parts])
    attributes = page_attributes.joined([(rows.attributes, len(rows.sequences)) for rows in parts])
    return _sorted(sequences, pa.chunked_array([rows.array for rows in parts]), attributes)


def _batches(rows: _Rows, begin: int, stop: int, *, filtered: bool) -> list[RecordBatch]:
    """Make batches of the rows begin .. stop - 1: one for each stretch of consecutive sequences, or
    one for all rows when the stretches are short."""
    if begin >= stop:
        return []
    sequences = rows.sequences[begin:stop]
    cuts = (np.flatnonzero(np.diff(sequences) != 1) + 1).tolist()
    offsets = rows.offsets[begin : stop + 1].data.cast("B")
    if cuts and len(sequences) < STRETCH_MIN * (len(cuts) + 1):
        listed = array("q", sequences.tobytes())
        found = page_attributes.attributes(rows.attributes, listed[0], listed, begin, stop)
        return [RecordBatch(listed[0], len(listed), rows.blob, offsets, listed, found, filtered)]
    firsts = sequences[[0, *cuts]].tolist()
    edges = pairwise([0, *cuts, stop - begin])
    return [
        RecordBatch(
            first,
            b - a,
            rows.blob,
            offsets[4 * a : 4 * (b + 1)],
            attributes=page_attributes.attributes(
                rows.attributes, first, None, begin + a, begin + b
            ),
            filtered=filtered,
        )
        for first, (a, b) in zip(firsts, edges, strict=True)
    ]
