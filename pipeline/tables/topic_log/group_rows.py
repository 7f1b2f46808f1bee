"""Groups as rows of `topic_log`: frames become one Arrow table for each record.

Numpy loops over messages; Python's loops go over frames, runs and settlements only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.arrow.arrow_types import Arrow, Int64s
from distributary.pipeline.tables.arrow.topic_log_schema import (
    MESSAGE,
    ROWS,
    SCHEMA,
    SETTLEMENT,
    SUBSCRIPTION,
)
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.frame import DecodedFrame, SettlementRow, SubscriptionRow

#: Arrow's offsets of bytes and of list elements have 32 bits.
OFFSET_MAX: Final = 2**31 - 1

_DAY_US = 86_400_000_000


def build(
    frames: Sequence[DecodedFrame], *, column_bytes_max: int = OFFSET_MAX
) -> dict[str, pa.Table]:
    """Return the frames' rows by record, with the record's columns and `day`: messages by topic and
    sequence, the others by group. Records without rows are left out. Messages of more than
    `column_bytes_max` bytes become several chunks of a column."""
    messages = _Messages.of([f for f in frames if f.count])
    settlements = [row for f in frames for row in f.records.settlements]
    events = [row for f in frames for row in f.records.subscriptions]
    parts: dict[str, dict[str, Arrow]] = {}
    if messages.count:
        parts[MESSAGE] = _message_columns(messages, column_bytes_max)
    if settlements:
        counts = [len(f.records.settlements) for f in frames]
        parts[SETTLEMENT] = _of_frames(frames, counts) | _settlement_columns(settlements)
    if events:
        counts = [len(f.records.subscriptions) for f in frames]
        parts[SUBSCRIPTION] = _of_frames(frames, counts) | _event_columns(frames, counts, events)
    return {
        record: pa.Table.from_arrays([columns[name] for name in kind.names], schema=kind)
        for record, columns in parts.items()
        for kind in [ROWS[record]]
    }


def _of_frames(frames: Sequence[DecodedFrame], counts: list[int]) -> dict[str, Arrow]:
    """Return the columns that are equal for all rows of a group, `counts` rows for each frame."""
    return _group_columns(
        np.repeat(np.array([f.group for f in frames], np.int64), counts),
        np.repeat(np.array([f.written_at for f in frames], np.int64), counts),
    )


def _group_columns(group: Int64s, written_at: Int64s) -> dict[str, Arrow]:
    day = pa.array((written_at // _DAY_US).astype(np.int32), pa.int32())
    return {"group": _longs(group), "day": day.view(pa.date32())}


def _longs(values: Int64s) -> Arrow:
    return pa.array(values, pa.int64())


def _times(values: Int64s, mask: npt.NDArray[np.bool_] | None = None) -> Arrow:
    micros: Arrow = pa.array(values, pa.int64(), mask=mask)
    times: Arrow = micros.view(SCHEMA.field("published_at").type)
    return times


# Messages


@dataclass(frozen=True, slots=True, eq=False)
class _Messages:
    """The messages of some frames in the order of the table; `pieces` joined are their bytes."""

    count: int
    group: Int64s
    written_at: Int64s
    sequence: Int64s
    topics: list[str]
    topic: Int64s
    lengths: Int64s
    durable: npt.NDArray[np.uint8]
    priority: npt.NDArray[np.int8]
    expires_at: Int64s  #: 0 if never
    deliver_at: Int64s  #: 0 if without delay
    pieces: list[memoryview]

    @classmethod
    def of(cls, frames: Sequence[DecodedFrame]) -> "_Messages":
        counts = np.array([f.count for f in frames], np.int64)
        firsts = np.array([f.first_sequence for f in frames], np.int64)
        begins = np.cumsum(counts) - counts
        total = int(counts.sum())
        lengths = _joined([f.lengths for f in frames], np.uint32).astype(np.int64)
        _check_lengths(frames, lengths, begins)
        names = sorted({name for f in frames for name in f.records.topics})
        run_topic, run_count = _runs(frames, names)
        row, pieces = _in_order(frames, lengths, run_topic, run_count)
        return cls(
            total,
            np.repeat(np.array([f.group for f in frames], np.int64), counts)[row],
            np.repeat(np.array([f.written_at for f in frames], np.int64), counts)[row],
            (np.repeat(firsts - begins, counts) + np.arange(total))[row],
            names,
            np.repeat(run_topic, run_count)[row],
            lengths[row],
            _joined([f.durable for f in frames], np.uint8)[row],
            _joined([f.priority for f in frames], np.int8)[row],
            _expiries(frames)[row],
            _times_of([f.records.deliver_at for f in frames], counts)[row],
            pieces,
        )


def _times_of(columns: Sequence[bytes | None], counts: Int64s) -> Int64s:
    """Return a column of times over all frames; zeros where a frame has none."""
    if not any(columns):
        return np.zeros(int(counts.sum()), np.int64)
    pairs = zip(columns, counts.tolist(), strict=True)
    return np.frombuffer(b"".join([c or bytes(frame.TIME_BYTES * n) for c, n in pairs]), np.int64)


def _expiries(frames: Sequence[DecodedFrame]) -> Int64s:
    """Return when each message expires. Frames of the first format have only the ttl."""
    said = [
        f.records.expires_at if f.records.expires_at is not None else _by_ttl(f) for f in frames
    ]
    return _times_of(said, np.array([f.count for f in frames], np.int64))


def _by_ttl(of: DecodedFrame) -> bytes:
    ttl = np.frombuffer(of.ttl, np.uint32).astype(np.int64)
    return np.where(ttl > 0, of.written_at + ttl * 1_000, 0).tobytes() if ttl.any() else b""


def _joined(columns: list[memoryview], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(b"".join(columns), kind)


def _check_lengths(frames: Sequence[DecodedFrame], lengths: Int64s, begins: Int64s) -> None:
    if not frames:
        return
    due = np.add.reduceat(lengths, begins)
    wrong = np.flatnonzero(due != np.array([len(f.blob) for f in frames], np.int64))
    if len(wrong):
        raise StoreError(f"the lengths of group {frames[wrong[0]].group} don't fit its bytes")


def _runs(frames: Sequence[DecodedFrame], names: list[str]) -> tuple[Int64s, Int64s]:
    """Return the index of each run's topic name, and each run's count."""
    index = {name: i for i, name in enumerate(names)}
    topics = [index[f.records.topics[i]] for f in frames for i, _ in f.records.runs]
    counts = [count for f in frames for _, count in f.records.runs]
    return np.array(topics, np.int64), np.array(counts, np.int64)


def _in_order(
    frames: Sequence[DecodedFrame], lengths: Int64s, run_topic: Int64s, run_count: Int64s
) -> tuple[Int64s | slice, list[memoryview]]:
    """Return an order of rows in which each topic is in one piece, and the bytes in that order.

    The rows of one topic, or of topics that don't interleave, keep their order.
    """
    if not (np.diff(run_topic) < 0).any():
        return slice(None), [f.blob for f in frames]
    order = np.argsort(run_topic, kind="stable")
    begins = np.cumsum(run_count) - run_count
    count = run_count[order]
    row = np.repeat(begins[order] - (np.cumsum(count) - count), count) + np.arange(count.sum())
    ends = np.concatenate([[0], np.cumsum(lengths)])
    begin, end = ends[begins], ends[begins + run_count]
    blobs = list(chain.from_iterable([f.blob] * len(f.records.runs) for f in frames))
    starts = np.repeat(
        np.cumsum([0, *(len(f.blob) for f in frames[:-1])]), [len(f.records.runs) for f in frames]
    )
    cuts = np.stack([begin - starts, end - starts], axis=1).tolist()
    return row, [blobs[i][cuts[i][0] : cuts[i][1]] for i in order.tolist()]


def _message_columns(messages: _Messages, bytes_max: int) -> dict[str, Arrow]:
    names: Arrow = pa.array(messages.topics, pa.string())
    return _group_columns(messages.group, messages.written_at) | {
        "topic": names.take(_longs(messages.topic)),
        "sequence": _longs(messages.sequence),
        "published_at": _times(messages.written_at),
        "durable": pa.array(messages.durable != 0, pa.bool_()),
        "priority": pa.array(messages.priority, pa.int8()),
        "expires_at": _times(messages.expires_at, messages.expires_at == 0),
        "message": _message_bytes(messages, bytes_max),
        "deliver_at": _times(messages.deliver_at, messages.deliver_at == 0),
    }


def _message_bytes(messages: _Messages, bytes_max: int) -> Arrow:
    """Make the column `message`, in chunks of at most `bytes_max` bytes and at least one message.
    The bytes are copied once, outside of the interpreter."""
    ends = np.cumsum(messages.lengths)
    blob = np.empty(int(ends[-1]), np.uint8)
    at = 0
    for piece in messages.pieces:
        blob[at : at + len(piece)] = piece
        at += len(piece)
    chunks: list[Arrow] = []
    first = begin = 0
    while first < messages.count:
        stop = max(int(np.searchsorted(ends, begin + bytes_max, side="right")), first + 1)
        offsets = np.zeros(stop - first + 1, np.int32)
        offsets[1:] = ends[first:stop] - begin
        end = begin + int(offsets[-1])
        buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(blob[begin:end].data)]
        chunks.append(pa.Array.from_buffers(pa.binary(), stop - first, buffers))
        first, begin = stop, end
    return chunks[0] if len(chunks) == 1 else cast("Arrow", pa.chunked_array(chunks))


# Settlements and the life of subscriptions


def _settlement_columns(rows: Sequence[SettlementRow]) -> dict[str, Arrow]:
    return {
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


def _sequences(rows: Sequence[SettlementRow]) -> Arrow:
    """Make the list column: each row's triples (first, step, count) written out, ascending."""
    triples = np.array([t for r in rows for t in r.sequences], np.int64).reshape(-1, 3)
    first, step, count = triples[:, 0], triples[:, 1], triples[:, 2]
    nth = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    values = np.repeat(first, count) + np.repeat(step, count) * nth
    row = np.repeat(
        np.repeat(np.arange(len(rows)), [len(r.sequences) for r in rows]),
        count,
    )
    if ((np.diff(values) < 0) & (np.diff(row) == 0)).any():
        values = values[np.lexsort((values, row))]
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=len(rows)), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.data)]
    kind = SCHEMA.field("sequences").type
    return pa.Array.from_buffers(kind, len(rows), buffers, children=[_longs(values)])


def _event_columns(
    frames: Sequence[DecodedFrame], counts: list[int], rows: Sequence[SubscriptionRow]
) -> dict[str, Arrow]:
    written = np.repeat(np.array([f.written_at for f in frames], np.int64), counts)
    return {
        "topic": pa.array([r.topic for r in rows], pa.string()),
        "subscription": pa.array([r.subscription for r in rows], pa.string()),
        "floor": pa.array([r.floor for r in rows], pa.int64()),
        "event": pa.array([r.event for r in rows], pa.string()),
        "shared": pa.array([r.shared for r in rows], pa.bool_()),
        "selector": pa.array([r.selector for r in rows], pa.string()),
        "no_local": pa.array([r.no_local for r in rows], pa.bool_()),
        "recorded_at": _times(written),
        "paused": pa.array([r.paused for r in rows], pa.bool_()),
        "policy": pa.array([r.policy or None for r in rows], pa.string()),
        "origin": pa.array([r.origin for r in rows], pa.string()),
        "created_by": pa.array([r.created_by for r in rows], pa.string()),
        "dropped": pa.array([r.dropped for r in rows], pa.int64()),
        "by": pa.array([r.by for r in rows], pa.string()),
        "message": pa.array([r.work for r in rows], pa.binary()),
    }
