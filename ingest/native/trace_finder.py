"""Search for messages of a batch whose trace is sampled (`traces.c`)."""

import struct
from collections.abc import Callable

from distributary.ingest.native.pump import of_batch
from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.tracing.trace_span import TracedMessage

#: Characters of a traceparent that are read.
PARENT_CHARS = 55
#: Most bytes of an encoded message-id; a longer one counts as missing.
ID_BYTES_MAX = 1_024
#: `pump_traced`.
_ROW = struct.Struct("=Q6I")


class TraceFinder:
    """Searches batches. One serves a whole loop: it uses the same room for results each time."""

    def __init__(self, most: int) -> None:
        """`most`: most messages that one search finds."""
        self._most = most
        self._room = ffi.new("pump_traced[]", most)

    def find(
        self, batch: RecordBatch, run: Run, most: int, sequence_of: Callable[[int], int]
    ) -> tuple[list[tuple[int, TracedMessage]], int]:
        """Return those of the batch's messages with these numbers whose trace is sampled, with
        their numbers, `most` at most; and how many more there are. `sequence_of` returns a number's
        sequence in the log (`TracedMessage`)."""
        most = min(max(most, 0), self._most)
        total: int = lib.pump_find_traced(*of_batch(batch, run), self._room, most)
        assert total >= 0, f"{run} isn't all in the batch {batch.first} to {batch.stop - 1}"  # noqa: S101
        found: list[tuple[int, TracedMessage]] = []
        if total:
            blob, rows = batch.blob, ffi.buffer(self._room, _ROW.size * min(total, most))
            for number, size, parent, state, state_size, at, id_size in _ROW.iter_unpack(rows):
                message = TracedMessage(
                    bytes(blob[parent : parent + PARENT_CHARS]),
                    bytes(blob[state : state + state_size]),
                    sequence_of(number),
                    size,
                    bytes(blob[at : at + id_size]) if id_size <= ID_BYTES_MAX else b"",
                )
                found.append((number, message))
        return found, max(total - most, 0)
