"""Finds the messages of a batch whose trace is sampled (`traces.c`)."""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from distributary.ingest.native.pump import of_batch
from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.codec.amqp_types import DecodeBudget, DecodeError, DecodeLimits, read
from distributary.pipeline.codec.buffers import Bytes
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
        total: int = lib.pump_find_traced(*of_batch(batch, run), self._room, most)
        assert total >= 0, f"{run} isn't all in the batch {batch.first} to {batch.stop - 1}"  # noqa: S101
        found: list[tuple[int, TracedMessage]] = []
        for nth in range(min(total, most)):
            one = self._room[nth]
            number = int(one.sequence)
            found.append((number, _message(batch.blob, one, sequence_of(number))))
        return found, max(total - most, 0)


def _message(blob: Bytes, found: Any, sequence: int) -> TracedMessage:
    parent = bytes(blob[found.parent_at : found.parent_at + PARENT_CHARS]).decode("ascii")
    state = bytes(blob[found.state_at : found.state_at + found.state_size])
    context = read_context(parent, state.decode("ascii", "replace"))
    assert context is not None, f"{parent} isn't sampled"  # noqa: S101
    message_id = _id(bytes(blob[found.id_at : found.id_at + found.id_size]))
    return TracedMessage(context, sequence, int(found.size), message_id)


def _id(data: bytes) -> str:
    """A message-id as JMS clients show it; empty where there is none."""
    try:
        value = read(data, 0, _SCALAR)[0] if data else None
    except (DecodeError, IndexError, struct.error, UnicodeDecodeError):
        return ""
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | UUID):
        return ""
    return (identifier(value) or "")[:ID_CHARS_MAX]
