"""Finds the messages of a batch whose trace is sampled (`traces.c`)."""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any
from uuid import UUID

from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.codec.amqp_types import DecodeBudget, DecodeError, DecodeLimits, read
from distributary.pipeline.codec.rendering import identifier
from distributary.pipeline.model.message import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.tracing.trace_context import read_context
from distributary.pipeline.tracing.trace_span import TracedMessage

#: Characters of a message-id in a span.
ID_CHARS_MAX = 256
#: Characters of a traceparent that are read.
PARENT_CHARS = 55

#: An id has no other values in it.
_SCALAR = DecodeBudget(0, DecodeLimits(values_max=0))


class TraceFinder:
    """Looks at batches. One for a loop: what it finds lies in the same room each time."""

    def __init__(self, most: int) -> None:
        """`most`: messages that one look finds."""
        self._most = most
        self._room = ffi.new("pump_traced[]", most)

    def find(
        self, batch: RecordBatch, run: Run, most: int, sequence_of: Callable[[int], int]
    ) -> tuple[list[tuple[int, TracedMessage]], int]:
        """Those of the batch's messages with these numbers whose trace is sampled, with their
        numbers, `most` at most; and how many more there are. `sequence_of` gives a number's place
        in the log (`TracedMessage`)."""
        most = min(max(most, 0), self._most)
        total = lib.pump_find_traced(
            ffi.from_buffer(batch.blob),
            ffi.from_buffer("int32_t[]", batch.offsets),
            *_indices(batch, run),
            self._room,
            most,
        )
        found: list[tuple[int, TracedMessage]] = []
        for nth in range(min(total, most)):
            one = self._room[nth]
            listed = batch.sequences
            number = batch.first + one.index if listed is None else listed[one.index]
            if _has(run, number):
                found.append((number, _message(batch, one, sequence_of(number))))
        return found, max(total - most, 0)


def _message(batch: RecordBatch, found: Any, sequence: int) -> TracedMessage:
    blob, offsets = batch.blob, memoryview(batch.offsets).cast("B").cast("i")
    parent = bytes(blob[found.parent_at : found.parent_at + PARENT_CHARS]).decode("ascii")
    state = bytes(blob[found.state_at : found.state_at + found.state_size])
    context = read_context(parent, state.decode("ascii", "replace"))
    assert context is not None, f"{parent} isn't sampled"  # noqa: S101
    message_id = _id(bytes(blob[found.id_at : found.id_at + found.id_size]))
    size = offsets[found.index + 1] - offsets[found.index]
    return TracedMessage(context, sequence, size, message_id)


def _has(run: Run, number: int) -> bool:
    if isinstance(run, range):
        return number in run
    at = bisect_left(run, number)
    return at < len(run) and run[at] == number


def _indices(batch: RecordBatch, run: Run) -> tuple[int, int, int]:
    """First index, step and count of what is looked at: the run, or all from its first to its last
    message."""
    if not run:
        return 0, 1, 0
    if batch.sequences is not None:
        first, last = run[0], run[-1]
        at = bisect_left(batch.sequences, first)
        return at, 1, bisect_right(batch.sequences, last) - at
    if isinstance(run, array):
        return run[0] - batch.first, 1, run[-1] - run[0] + 1
    return run.start - batch.first, run.step, len(run)


def _id(data: bytes) -> str:
    """A message-id as JMS clients show it; empty where there is none."""
    try:
        value = read(data, 0, _SCALAR)[0] if data else None
    except (DecodeError, IndexError, struct.error, UnicodeDecodeError):
        return ""
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | UUID):
        return ""
    return (identifier(value) or "")[:ID_CHARS_MAX]
