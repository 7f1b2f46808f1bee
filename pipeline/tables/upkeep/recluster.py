"""Full files become as many new files, each with some of the topics: where a hundred topics
interleave, one of them can then be read without the others.

A file has the messages of some seconds or minutes, and so little of each topic when there are many.
`FAN_IN` neighbours are read together and written anew, topic by topic: a topic then lies in one
file for all of that time, in row groups of its own, and its readers don't open the other files.
Each row is rewritten once for this.

A step writes one file, and one commit at the end swaps all of them; until then no version names the
new files. A process that dies before leaves them to be removed as orphans.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.delta import commits, data_file
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.message_file import TOPIC_EXACT_MAX
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_writer import TableWriter
from distributary.pipeline.tables.upkeep import merge, tiers

#: Full files that are reclustered together.
FAN_IN: Final = 8
#: The tier of a reclustered file: it is never merged or reclustered again.
TIER: Final = tiers.LAST_TIER + 1
#: A file with fewer rows isn't opened to find out whether it is full.
ROWS_MIN: Final = 256
#: Files that are opened in one step; a footer takes about a millisecond.
LOOKS_MAX: Final = 32
#: Average bytes of a topic in a file from which on the topic is cheap to read without this.
TOPIC_BYTES_ENOUGH: Final = tiers.FULL_BYTES // 16


@dataclass(frozen=True, slots=True)
class Piece:
    """One file to be written: the rows of the topics `low` to `high` in some of the files."""

    files: tuple[AddedFile, ...]
    low: str
    high: str


@dataclass(slots=True)
class _Work:
    """The current work: the files to replace, the pieces still to be written, the files written."""

    files: tuple[AddedFile, ...]
    pieces: list[Piece]
    written: list[AddedFile] = field(default_factory=list)


class Recluster:
    """Reclusters full files, a bounded step at a time, on the committer's thread."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer, self._store = writer, writer.store
        self._work: _Work | None = None
        self._left: set[str] = set()  #: files for which it isn't worth the work
        self._full: dict[str, bool] = {}  #: for files that were opened: whether they are full

    def take(self, *, now: int, today: str, full: Collection[str]) -> tuple[int, int] | None:
        """Do one step; return how many files it wrote or replaced, and their bytes. None if there
        is nothing to do.

        `today` is the first day that isn't over; `full` are the paths of files that are known to be
        full although they are small. Raises OSError when there is no room; the next call continues.
        """
        work = self._work
        if work is None:
            return self._begin(today, full)
        if not set(work.files) <= set(self._writer.state.files):
            self._store.delete(file.path for file in work.written)
            self._work = None
            return len(work.written), 0
        if work.pieces:
            written = write(self._store, work.pieces[0])
            work.written.append(written)
            del work.pieces[0]
            return 1, written.size
        return self._swap(work, now)

    def _begin(self, today: str, full: Collection[str]) -> tuple[int, int] | None:
        found = {path for path, is_full in self._looked_into().items() if is_full}
        files = choose(
            self._writer.state.files, today=today, full=found | set(full), left=self._left
        )
        if not files:
            return None
        pieces = plan(self._store, files)
        if len(pieces) > 1:
            self._work = _Work(files, pieces)
        else:
            self._left.update(file.path for file in files)
        return 0, 0

    def _looked_into(self) -> dict[str, bool]:
        """Return whether files are full, by their real size: the log has only the compressed
        one."""
        files = [
            file.path
            for file in _candidates(self._writer.state.files)
            if file.rows >= ROWS_MIN and not tiers.is_full(file, ())
        ]
        new = [path for path in files if path not in self._full][:LOOKS_MAX]
        self._full |= {path: _is_full(self._store, path) for path in new}
        self._full = {path: self._full[path] for path in files if path in self._full}
        return self._full

    def _swap(self, work: _Work, now: int) -> tuple[int, int]:
        self._work = None

        def swap(added: list[AddedFile]) -> bytes:
            added += work.written
            return commits.encode(
                "OPTIMIZE", at=now, added=added, removed=work.files, data_change=False
            )

        gone = {file.path for file in work.files}
        self._writer.make(swap, lambda at, new: at.swapped(gone, new))
        return len(work.files), sum(file.size for file in work.files)


def choose(
    files: Sequence[AddedFile], *, today: str, full: Collection[str], left: Collection[str]
) -> tuple[AddedFile, ...]:
    """Choose the next neighbours: `FAN_IN` full files with the small ones between them; fewer when
    their day is over. Empty if there are none. Files in `left` are skipped."""
    for day, same in _days(files):
        some: list[AddedFile] = []
        count = 0
        for file in same:
            if file.path in left:
                some, count = [], 0
                continue
            some.append(file)
            count += tiers.is_full(file, full)
            if count == FAN_IN:
                return tuple(some)
        if day < today and count > 1:
            return tuple(some)
    return ()


def _days(files: Sequence[AddedFile]) -> Iterator[tuple[str, list[AddedFile]]]:
    messages = sorted(_candidates(files), key=lambda one: one.day)
    for day, same in groupby(messages, key=lambda one: one.day):
        yield day, list(same)


def _candidates(files: Sequence[AddedFile]) -> list[AddedFile]:
    return [file for file in files if file.record == topic_log_schema.MESSAGE and file.tier < TIER]


def _is_full(store: Store, path: str) -> bool:
    with store.parquet(path) as parquet:
        return merge.row_bytes(parquet.metadata) >= tiers.FULL_BYTES


def plan(store: Store, files: Sequence[AddedFile]) -> list[Piece]:
    """Plan the files to be written, of about `tiers.FULL_BYTES` of rows each; none if each topic
    has enough in every file already."""
    if len({name for file in files for name in (file.topic_low, file.topic_high)}) == 1:
        return []
    topics, sizes = _sizes(store, files)
    total = sizes.sum(axis=0)
    if len(topics) < 2 or total.sum() >= TOPIC_BYTES_ENOUGH * len(topics) * len(files):
        return []
    nth = (np.cumsum(total) - total) // tiers.FULL_BYTES
    begins = np.flatnonzero(np.diff(nth, prepend=-1))
    of_piece = np.add.reduceat(sizes, begins, axis=1)
    pieces: list[Piece] = []
    for at, (begin, last) in enumerate(
        zip(begins.tolist(), [*(begins[1:] - 1).tolist(), len(topics) - 1], strict=True)
    ):
        low, high = topics[begin].as_py(), topics[last].as_py()
        pieces += [Piece(some, low, high) for some in _bounded(files, of_piece[:, at])]
    return pieces


def _bounded(files: Sequence[AddedFile], sizes: Int64s) -> Iterator[tuple[AddedFile, ...]]:
    """Divide the files so that no part has too much of a topic that is big by itself."""
    some: list[AddedFile] = []
    total = 0
    for file, size in zip(files, sizes.tolist(), strict=True):
        if some and total + size > tiers.MERGE_BYTES_MAX:
            yield tuple(some)
            some, total = [], 0
        if size:
            some.append(file)
            total += size
    if some:
        yield tuple(some)


def _sizes(store: Store, files: Sequence[AddedFile]) -> tuple[Chunked, Int64s]:
    """Return all topics by name, and for each file (a row) each topic's bytes in it."""
    columns, weights = [], []
    for file in files:
        with store.parquet(file.path) as parquet:
            columns.append(parquet.read(columns=["topic"], use_threads=False)["topic"])
            weights.append(_row_weights(parquet.metadata))
    joined = pa.chunked_array([chunk for column in columns for chunk in column.chunks])
    names = joined.unique()
    topics = names.take(pc.sort_indices(names))
    codes = pc.index_in(joined, topics).to_numpy()
    count = len(topics)
    ends = np.cumsum([len(column) for column in columns])
    sizes = [
        np.bincount(part, weight, count).astype(np.int64)
        for part, weight in zip(np.split(codes, ends[:-1]), weights, strict=True)
    ]
    return topics, np.array(sizes)


def _row_weights(metadata: pq.FileMetaData) -> Int64s:
    """Return about how many bytes each row has: its row group's average."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = np.array([group.num_rows for group in groups], np.int64)
    size = np.array([group.total_byte_size for group in groups], np.int64)
    return np.repeat(size // np.maximum(rows, 1), rows)


def write(store: Store, piece: Piece) -> AddedFile:
    """Write the piece's rows to a new file, by topic and sequence."""
    kind = topic_log_schema.FILES[topic_log_schema.MESSAGE]
    parts = [part for file in piece.files for part in _rows_of(store, file, piece, kind)]
    table = merge.sorted_messages(pa.concat_tables(parts).combine_chunks())
    day = piece.files[0].day
    return data_file.write(store, table, record=topic_log_schema.MESSAGE, day=day, tier=TIER)


def _rows_of(store: Store, file: AddedFile, piece: Piece, kind: pa.Schema) -> Iterator[pa.Table]:
    topic = pc.field("topic")
    ours = (topic >= piece.low) & (topic <= piece.high)
    with store.parquet(file.path) as parquet:
        column = parquet.schema_arrow.get_field_index("topic")
        for i in range(parquet.metadata.num_row_groups):
            if _may_hold(parquet.metadata.row_group(i).column(column), piece):
                rows = parquet.read_row_group(i, columns=kind.names, use_threads=False)
                yield data_file.completed(rows.filter(ours), kind)


def _may_hold(column: pq.ColumnChunkMetaData, piece: Piece) -> bool:
    """Whether a row group may have rows of the piece; its upper bound may have been cut."""
    bounds = column.statistics
    if bounds is None or not bounds.has_min_max:
        return True
    low, high = str(bounds.min), str(bounds.max)
    return low <= piece.high and (high >= piece.low or len(high.encode()) > TOPIC_EXACT_MAX)
