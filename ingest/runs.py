"""Runs of messages: joined by topic for a group, and as the slabs that are delivered."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from ingest import pump
from pipeline.dead_letter import Copy
from pipeline.message import Bytes, Group, MessageRun, Slab
from pipeline.traits import PRIORITY, Traits


def by_topic(runs: Sequence[MessageRun]) -> tuple[MessageRun, ...]:
    """One run for each topic, in the order in which the topics came: fewer and longer slabs."""
    if len(runs) <= 1:
        return tuple(runs)
    topics: dict[str, list[MessageRun]] = {}
    for run in runs:
        topics.setdefault(run.topic, []).append(run)
    return tuple(_joined(topic, same) for topic, same in topics.items())


def _joined(topic: str, runs: list[MessageRun]) -> MessageRun:
    if len(runs) == 1:
        return runs[0]
    counts = [run.count for run in runs]
    return MessageRun(
        topic,
        sum(counts),
        b"".join([run.blob for run in runs]),
        b"".join([run.lengths for run in runs]),
        b"".join([run.durable for run in runs]),
        b"".join([run.priority for run in runs]),
        b"".join([run.ttl for run in runs]),
        _times([run.expires_at for run in runs], counts),
        _times([run.deliver_at for run in runs], counts),
    )


def _times(columns: list[Bytes], counts: list[int]) -> bytes:
    """A column that is empty where it is all zeros."""
    if not any(columns):
        return b""
    pairs = zip(columns, counts, strict=True)
    return b"".join([column or bytes(8 * count) for column, count in pairs])


def part(run: MessageRun, start: int, stop: int, begin: int, end: int) -> MessageRun:
    """Messages `start .. stop - 1` of a run, whose bytes lie from `begin` to `end` of its blob."""
    if start == 0 and stop == run.count:
        return run
    return MessageRun(
        run.topic,
        stop - start,
        run.blob[begin:end],
        run.lengths[4 * start : 4 * stop],
        run.durable[start:stop],
        run.priority[start:stop],
        run.ttl[4 * start : 4 * stop],
        run.expires_at[8 * start : 8 * stop],
        run.deliver_at[8 * start : 8 * stop],
    )


def slabs_of(group: Group) -> tuple[tuple[str, Slab], ...]:
    """The group's messages as they will be delivered, each run's topic with its slab."""
    slabs = []
    first = group.first_sequence
    for run in group.messages:
        offsets, grouped = pump.laid_out(run.blob, run.lengths, run.count)
        slab = Slab(first, run.count, run.blob, offsets)
        slabs.append((run.topic, _with_traits(slab, run, grouped)))
        first += run.count
    return tuple(slabs)


def _with_traits(slab: Slab, run: MessageRun, grouped: bool) -> Slab:
    """The slab of a run with the traits of its messages; the same slab if all are plain."""
    usual = bytes(run.priority).count(PRIORITY) == slab.count
    if usual and not (run.expires_at or run.deliver_at or grouped):
        return slab
    marked = b"" if usual else run.priority
    groups = pump.groups(slab) if grouped else b""
    traits = Traits(slab.first, None, marked, run.expires_at, run.deliver_at, groups)
    return replace(slab, traits=traits)


def message_at(slab: Slab, sequence: int) -> bytes:
    """The bytes of a message of the slab."""
    listed = slab.sequences
    at = sequence - slab.first if listed is None else bisect_left(listed, sequence)
    assert listed is None or listed[at] == sequence, f"{sequence} isn't in its slab"  # noqa: S101
    offsets = memoryview(slab.offsets).cast("B").cast("i")
    return bytes(slab.blob[offsets[at] : offsets[at + 1]])


def run_of(topic: str, copies: Sequence[Copy]) -> MessageRun:
    """Copies as messages of this topic; they neither expire nor wait."""
    return MessageRun(
        topic,
        len(copies),
        b"".join([one.data for one in copies]),
        array("I", [len(one.data) for one in copies]).tobytes(),
        bytes([one.durable for one in copies]),
        bytes([one.priority for one in copies]),
        bytes(4 * len(copies)),
    )
