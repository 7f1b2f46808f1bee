"""One Parquet file of `topic_log`: the layout of its rows, and its entry in the log.

Rows of messages are sorted by topic and sequence, others by group. Paging reads one row group at a
time, so its rows and bytes are bounded, and it has one topic alone where that has rows enough.
The long computations here run inside of Arrow, without the interpreter.
"""

import time
import uuid
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import AddedFile, FileAttributes
from distributary.pipeline.tables.delta.store import Store

#: Rows of a row group; fewer when messages are big.
ROW_GROUP_ROWS_MAX: Final = 4096
ROW_GROUP_ROWS_MIN: Final = 16
#: Bytes of messages in a row group, about.
ROW_GROUP_BYTES: Final = 8 << 20
#: Rows from which on a topic has row groups of its own: smaller groups would cost a reader of all
#: topics more in footers than they save a reader of one topic.
TOPIC_ROWS_MIN: Final = 256
#: Bytes from which on a row group of small topics ends with a topic. With less, footers get big,
#: and each topic's reader reads them; with more, each topic's reader decodes its neighbours.
TOPICS_BYTES: Final = 512 << 10
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1
#: Values that repeat too seldom for a dictionary.
_NO_DICTIONARY: Final = ("message", "sequence")
#: Columns whose bounds or null counts tell which row groups, or columns of them, to skip.
_BOUNDED: Final = (
    "topic",
    "sequence",
    "group",
    "published_at",
    "priority",
    "expires_at",
    "deliver_at",
)


def write(store: Store, table: pa.Table, *, record: str, day: str, tier: int) -> AddedFile:
    """Write sorted rows into a new file of a partition; durable on return.

    Raises OSError when there is no room; then no file is left.
    """
    file, data = described(table, record=record, day=day, tier=tier)
    store.put(file.path, memoryview(data))
    return file


def described(table: pa.Table, *, record: str, day: str, tier: int) -> tuple[AddedFile, pa.Buffer]:
    """Encode sorted rows as a new file of a partition; return its entry in the log and its bytes.
    Nothing is written."""
    path = f"{commits.partition(record, day)}/{commits.file_name(tier, str(uuid.uuid4()))}"
    data = encode(table, record)
    topic, group = _bounds(table["topic"]), _bounds(table["group"])
    sequence = _bounds(table["sequence"]) if record == topic_log_schema.MESSAGE else (None, None)
    file = AddedFile(
        path,
        data.size,
        record,
        day,
        table.num_rows,
        sequence[0],
        sequence[1],
        topic[0],
        topic[1],
        group[0],
        group[1],
        time.time_ns() // 1_000_000,
        _attributes(table) if record == topic_log_schema.MESSAGE else None,
    )
    return file, data


def _attributes(table: pa.Table) -> FileAttributes:
    priority = _bounds(table["priority"])
    published = _bounds(pc.cast(table["published_at"], pa.int64()))
    return FileAttributes(
        *priority,
        table.num_rows - table["expires_at"].null_count,
        published[0] // 1_000 * 1_000,
        -(-published[1] // 1_000) * 1_000,
    )


def _bounds(column: Chunked) -> tuple[Any, Any]:
    return pc.min(column).as_py(), pc.max(column).as_py()


def encode(table: pa.Table, record: str) -> pa.Buffer:
    """Encode the rows as a Parquet file; each page has a checksum, which our readers verify."""
    kind = topic_log_schema.FILES[record]
    table = table.select(kind.names)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        kind,
        compression=COMPRESSION,
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=_dictionary_columns(kind),  # type: ignore[arg-type] # stubs: bool only
        write_page_checksum=True,
        write_statistics=[name for name in kind.names if name in _BOUNDED],
        store_schema=False,
    ) as writer:
        for begin, end in pairwise(_cuts(table, record)):
            writer.write_table(table.slice(begin, end - begin), row_group_size=end - begin)
    return sink.getvalue()


def _dictionary_columns(kind: pa.Schema) -> list[str]:
    return [name for name in kind.names if name not in _NO_DICTIONARY]


def completed(table: pa.Table, kind: pa.Schema) -> pa.Table:
    """Return the table with all columns of `kind`: a column that is absent from the file is null,
    as for all readers of Delta."""
    if table.schema.equals(kind):
        return table
    for name in kind.names:
        if name not in table.column_names:
            table = table.append_column(
                kind.field(name), pa.nulls(table.num_rows, kind.field(name).type)
            )
    return table.select(kind.names).cast(kind)


def _cuts(table: pa.Table, record: str) -> list[int]:
    """Return the first row of each row group, and the number of rows."""
    count = table.num_rows
    if record != topic_log_schema.MESSAGE:
        return [*range(0, count, ROW_GROUP_ROWS_MAX), count]
    size = table["message"].nbytes // max(count, 1) + 1
    rows = max(ROW_GROUP_ROWS_MIN, min(ROW_GROUP_ROWS_MAX, ROW_GROUP_BYTES // size))
    enough = max(ROW_GROUP_ROWS_MIN, TOPICS_BYTES // size)
    cuts: list[int] = []
    for begin, end in pairwise(_stretches(_topic_ends(table["topic"]), enough)):
        cuts += range(begin, end, rows)
    return [*cuts, count]


def _topic_ends(topic: Chunked) -> Int64s:
    """Return the end of each topic's rows; rows are sorted by topic."""
    codes = topic.combine_chunks().dictionary_encode().indices.to_numpy()
    return np.concatenate([np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])


def _stretches(ends: Int64s, enough: int) -> list[int]:
    """Return the borders of big topics; small ones share stretches of about `enough` rows."""
    counts = np.diff(ends, prepend=0)
    big = counts >= TOPIC_ROWS_MIN
    filled = np.diff(ends // enough, prepend=0) > 0
    borders = np.concatenate([[0], (ends - counts)[big], ends[big | filled], ends[-1:]])
    return cast("list[int]", np.unique(borders).tolist())
