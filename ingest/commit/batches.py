"""Runs of messages: joined by topic for a group, and turned into the batches that are delivered."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from distributary.ingest.native import pump
from distributary.pipeline.amqp.dead_letter import Copy
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run

#: The offset of a batch's first message.
_ZERO = bytes(4)


def joined(runs: Sequence[PublishBatch], patterns: PatternIndex) -> tuple[PublishBatch, ...]:
    """Join messages into fewer and longer runs: one for each topic, in the order in which the
    topics came. Where a pattern matches any of the topics a subscription sees the order over
    topics: then only adjacent runs of one topic are joined."""
    if len(runs) <= 1:
        return tuple(runs)
    if patterns and any(patterns.of(run.topic) for run in runs):
        same = groupby(runs, key=lambda run: run.topic)
        return tuple(_joined(topic, list(some)) for topic, some in same)
    topics: dict[str, list[PublishBatch]] = {}
    for run in runs:
        topics.setdefault(run.topic, []).append(run)
    return tuple(_joined(topic, some) for topic, some in topics.items())


def _joined(topic: str, runs: list[PublishBatch]) -> PublishBatch:
    if len(runs) == 1:
        return runs[0]
    counts = [run.count for run in runs]
    return PublishBatch(
        topic,
        sum(counts),
        b"".join([run.blob for run in runs]),
        b"".join([run.lengths for run in runs]),
        b"".join([run.durable for run in runs]),
        b"".join([run.priority for run in runs]),
        b"".join([run.ttl for run in runs]),
        _times([run.expires_at for run in runs], counts),
        _times([run.deliver_at for run in runs], counts),
        all(run.plain for run in runs),
    )


def _times(columns: list[Bytes], counts: list[int]) -> bytes:
    """Join columns of times. An empty column stands for zeros alone, also in the result."""
    if not any(columns):
        return b""
    pairs = zip(columns, counts, strict=True)
    return b"".join([column or bytes(8 * count) for column, count in pairs])


def part(run: PublishBatch, start: int, stop: int, begin: int, end: int) -> PublishBatch:
    """Return messages `start .. stop - 1` of a run; their bytes are `begin .. end - 1` of it."""
    if start == 0 and stop == run.count:
        return run
    return PublishBatch(
        run.topic,
        stop - start,
        run.blob[begin:end],
        run.lengths[4 * start : 4 * stop],
        run.durable[start:stop],
        run.priority[start:stop],
        run.ttl[4 * start : 4 * stop],
        run.expires_at[8 * start : 8 * stop],
        run.deliver_at[8 * start : 8 * stop],
        run.plain,
    )


def parts_without(run: PublishBatch, places: Sequence[int]) -> list[tuple[PublishBatch, int]]:
    """Return the parts of a run without the messages at these places (ascending), and the place of
    each part's beginning in the run."""
    if not places:
        return [(run, 0)]
    offsets = array("i", bytes(pump.offsets(run.lengths, run.count)))
    found: list[tuple[PublishBatch, int]] = []
    start = 0
    for stop in (*places, run.count):
        if stop > start:
            found.append((part(run, start, stop, offsets[start], offsets[stop]), start))
        start = stop + 1
    return found


def batches_of(group: Group) -> tuple[tuple[str, RecordBatch], ...]:
    """Return the group's messages as they will be delivered: each run's topic with its batch."""
    batches = []
    first = group.first_sequence
    for run in group.messages:
        count = run.count
        if run.plain:
            offsets = _ZERO + run.lengths if count == 1 else pump.offsets(run.lengths, count)
            batch = RecordBatch(first, count, run.blob, offsets)
        else:
            offsets, grouped = pump.laid_out(run.blob, run.lengths, count)
            batch = _with_attributes(RecordBatch(first, count, run.blob, offsets), run, grouped)
        batches.append((run.topic, batch))
        first += count
    return tuple(batches)


def _with_attributes(batch: RecordBatch, run: PublishBatch, grouped: bool) -> RecordBatch:
    """Return the batch of a run with the header attributes of its messages; the same batch if all
    are plain."""
    usual = bytes(run.priority).count(PRIORITY) == batch.count
    if usual and not (run.expires_at or run.deliver_at or grouped):
        return batch
    marked = b"" if usual else run.priority
    groups = pump.groups(batch) if grouped else b""
    attributes = HeaderAttributes(batch.first, None, marked, run.expires_at, run.deliver_at, groups)
    return replace(batch, attributes=attributes)


def message_at(batch: RecordBatch, sequence: int) -> bytes:
    """Return a message of the batch."""
    listed = batch.sequences
    at = sequence - batch.first if listed is None else bisect_left(listed, sequence)
    assert listed is None or listed[at] == sequence, f"{sequence} isn't in its batch"  # noqa: S101
    offsets = memoryview(batch.offsets).cast("B").cast("i")
    return bytes(batch.blob[offsets[at] : offsets[at + 1]])


def size_of(batch: RecordBatch, run: Run) -> int:
    """Return the number of bytes of these messages of the batch."""
    listed, first = batch.sequences, batch.first
    offsets = memoryview(batch.offsets).cast("B").cast("i")
    if listed is None and isinstance(run, range) and run.step == 1:
        return offsets[run.stop - first] - offsets[run.start - first] if run else 0
    places = (one - first if listed is None else bisect_left(listed, one) for one in run)
    return sum(offsets[at + 1] - offsets[at] for at in places)


def run_of(topic: str, copies: Sequence[Copy]) -> PublishBatch:
    """Return copies as a run of this topic; they have neither expiry nor delay."""
    return PublishBatch(
        topic,
        len(copies),
        b"".join([one.data for one in copies]),
        array("I", [len(one.data) for one in copies]).tobytes(),
        bytes([one.durable for one in copies]),
        bytes([one.priority for one in copies]),
        bytes(4 * len(copies)),
    )
