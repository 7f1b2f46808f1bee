"""Groups as rows of `topic_log`: from frames to one Arrow table.

The columns come out of the frames' arrays by numpy and Arrow, which do the loops over messages.
Python loops here go over frames, runs and settlements only.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import StoreError
from pipeline.tables.frame import DecodedFrame, SettlementRow
from pipeline.tables.schema import MESSAGE, SCHEMA, SETTLEMENT, SUBSCRIPTION

Int64s: TypeAlias = npt.NDArray[np.int64]

#: Small blobs are joined up to this size: a copy of it holds the interpreter for some 0.1 ms,
#: and Arrow has few chunks. Bigger ones are taken as they lie.
CHUNK_BYTES = 1 << 20
#: Rows of several topics are put in the order of their topics up to this size: beyond it Arrow's
#: 32-bit offsets don't reach. Unsorted rows are read slower, never wrong.
SORT_BYTES_MAX = 1 << 30

_DAY_US = 86_400_000_000


def build(frames: Sequence[DecodedFrame]) -> pa.Table:
    """All rows of the frames in the table's schema: messages, then settlements, then events."""
    parts = [
        part
        for part in (_messages(frames), _settlements(frames), _subscriptions(frames))
        if part is not None
    ]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def _table(rows: int, columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """The columns in the schema's order, null where there is none."""
    arrays = [columns.get(f.name) for f in SCHEMA]
    return pa.Table.from_arrays(
        [
            pa.nulls(rows, field.type) if array is None else array
            for field, array in zip(SCHEMA, arrays, strict=True)
        ],
        schema=SCHEMA,
    )


def _of_frames(frames: Sequence[DecodedFrame], counts: Int64s) -> dict[str, pa.Array]:
    """The columns that are the same for all rows of one group."""
    groups = np.array([f.group for f in frames], np.int64)
    days = np.array([f.written_at // _DAY_US for f in frames], np.int32)
    return {
        "group": pa.array(np.repeat(groups, counts)),
        "day": pa.array(np.repeat(days, counts)).view(pa.date32()),
    }


def _times(values: Int64s, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return pa.array(values, pa.int64(), mask=mask).view(SCHEMA.field("published_at").type)


# Messages


def _messages(frames: Sequence[DecodedFrame]) -> pa.Table | None:
    frames = [f for f in frames if f.count]
    if not frames:
        return None
    counts = np.array([f.count for f in frames], np.int64)
    total = int(counts.sum())
    ends = np.cumsum(counts)
    firsts = np.array([f.first_sequence for f in frames], np.int64)
    written = np.array([f.written_at for f in frames], np.int64)
    lengths = np.frombuffer(b"".join([f.lengths for f in frames]), np.uint32)
    _check_lengths(frames, lengths, ends - counts)
    published = np.repeat(written, counts)
    ttl = np.frombuffer(b"".join([f.ttl for f in frames]), np.uint32).astype(np.int64)
    names, topics = _topics(frames)
    columns = _of_frames(frames, counts) | {
        "record": pa.repeat(MESSAGE, total),
        "topic": pa.array(names, pa.string()).take(pa.array(topics)),
        "sequence": pa.array(np.repeat(firsts - (ends - counts), counts) + np.arange(total)),
        "published_at": _times(published),
        "durable": pa.array(np.frombuffer(b"".join([f.durable for f in frames]), np.uint8) != 0),
        "priority": pa.array(np.frombuffer(b"".join([f.priority for f in frames]), np.int8)),
        "expires_at": _times(published + ttl * 1_000, ttl == 0),
        "message": pa.chunked_array(_message_chunks(frames, lengths)),
    }
    table = _table(total, columns)
    if len(names) > 1 and (np.diff(topics) < 0).any() and lengths.sum() < SORT_BYTES_MAX:
        return table.take(pa.array(np.argsort(topics, kind="stable")))
    return table


def _check_lengths(
    frames: Sequence[DecodedFrame], lengths: npt.NDArray[np.uint32], starts: Int64s
) -> None:
    due = np.add.reduceat(lengths.astype(np.int64), starts)
    wrong = np.flatnonzero(due != np.array([len(f.blob) for f in frames], np.int64))
    if len(wrong):
        raise StoreError(f"the lengths of group {frames[wrong[0]].group} don't fit its bytes")


def _topics(frames: Sequence[DecodedFrame]) -> tuple[list[str], Int64s]:
    """The topics' names in order, and for each message the index of its own."""
    names = sorted({name for f in frames for name in f.records.topics})
    index = {name: i for i, name in enumerate(names)}
    of_run = [index[f.records.topics[i]] for f in frames for i, _ in f.records.runs]
    counts = [count for f in frames for _, count in f.records.runs]
    return names, np.repeat(np.array(of_run, np.int64), np.array(counts, np.int64))


def _message_chunks(
    frames: Sequence[DecodedFrame], lengths: npt.NDArray[np.uint32]
) -> list[pa.Array]:
    chunks: list[pa.Array] = []
    blobs: list[memoryview] = []
    size = begin = end = 0
    for f in frames:
        if blobs and size + len(f.blob) > CHUNK_BYTES:
            chunks.append(_message_array(blobs, lengths[begin:end]))
            blobs, size, begin = [], 0, end
        blobs.append(f.blob)
        size += len(f.blob)
        end += f.count
    chunks.append(_message_array(blobs, lengths[begin:end]))
    return chunks


def _message_array(blobs: list[memoryview], lengths: npt.NDArray[np.uint32]) -> pa.Array:
    """One Arrow array over the blobs; over the journal's own bytes if there is just one."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    blob = blobs[0] if len(blobs) == 1 else b"".join(blobs)
    return pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(blob)]
    )


# Settlements and the life of subscriptions


def _settlements(frames: Sequence[DecodedFrame]) -> pa.Table | None:
    rows = [row for f in frames for row in f.records.settlements]
    if not rows:
        return None
    counts = np.array([len(f.records.settlements) for f in frames], np.int64)
    columns = _of_frames(frames, counts) | {
        "record": pa.repeat(SETTLEMENT, len(rows)),
        "topic": pa.array([r.topic for r in rows], pa.string()),
        "subscription": pa.array([r.subscription for r in rows], pa.string()),
        "consumer": pa.array([r.consumer for r in rows], pa.string()),
        "outcome": pa.array([r.outcome for r in rows], pa.string()),
        "final": pa.array([r.final for r in rows], pa.bool_()),
        "delivery_count": pa.array([r.delivery_count for r in rows], pa.int32()),
        "delivered_at": _times(np.array([r.delivered_at for r in rows], np.int64)),
        "settled_at": _times(np.array([r.settled_at for r in rows], np.int64)),
        "sequences": _sequences(rows),
        "floor": pa.array([r.floor for r in rows], pa.int64()),
    }
    return _table(len(rows), columns)


def _sequences(rows: Sequence[SettlementRow]) -> pa.Array:
    """The list column: each row's triples (first, step, count) written out, ascending."""
    triples = np.array([t for r in rows for t in r.sequences], np.int64).reshape(-1, 3)
    first, step, count = triples[:, 0], triples[:, 1], triples[:, 2]
    begin = np.cumsum(count) - count
    nth = np.arange(int(count.sum())) - np.repeat(begin, count)
    values = np.repeat(first, count) + np.repeat(step, count) * nth
    of_row = np.repeat(np.arange(len(rows)), np.array([len(r.sequences) for r in rows], np.int64))
    row = np.repeat(of_row, count)
    if ((np.diff(values) < 0) & (np.diff(row) == 0)).any():
        values = values[np.lexsort((values, row))]
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=len(rows)), out=offsets[1:])
    kind = SCHEMA.field("sequences").type
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), type=kind)


def _subscriptions(frames: Sequence[DecodedFrame]) -> pa.Table | None:
    rows = [row for f in frames for row in f.records.subscriptions]
    if not rows:
        return None
    counts = np.array([len(f.records.subscriptions) for f in frames], np.int64)
    written = np.array([f.written_at for f in frames], np.int64)
    columns = _of_frames(frames, counts) | {
        "record": pa.repeat(SUBSCRIPTION, len(rows)),
        "topic": pa.array([r.topic for r in rows], pa.string()),
        "subscription": pa.array([r.subscription for r in rows], pa.string()),
        "floor": pa.array([r.floor for r in rows], pa.int64()),
        "event": pa.array([r.event for r in rows], pa.string()),
        "shared": pa.array([r.shared for r in rows], pa.bool_()),
        "selector": pa.array([r.selector for r in rows], pa.string()),
        "no_local": pa.array([r.no_local for r in rows], pa.bool_()),
        "recorded_at": _times(np.repeat(written, counts)),
    }
    return _table(len(rows), columns)
