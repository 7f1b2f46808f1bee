"""Spans of messages whose trace is sampled, made from the gateway's events.

A message's trace context is read where its bytes are at hand: when it is durable, and at each
delivery. So messages that only wait take no memory, and messages published before a start are
traced like all others; deliveries in flight at a start are not.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence

from distributary.ingest.native.trace_finder import TraceFinder
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.settings import Traces
from distributary.ingest.tracing.span_export import SpanExport
from distributary.pipeline.log.memory_stream import Logged
from distributary.pipeline.model.message import Group
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.tracing.trace_span import Published, TracedDelivery, TracedMessage
from distributary.pipeline.tracing.traced_deliveries import TracedDeliveries, TracedOutcome
from distributary.pipeline.tracing.tracer import Reader, SpanDrop, TraceCounts

#: Seconds between two looks at spans that wait for the exporter.
TICK_SECONDS = 0.1
#: Spans of a delivery: itself, and its settlement.
_OF_DELIVERY = 2
_US = 1_000_000


class MessageTracing:
    """Implements `Tracer`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Traces, instance: str) -> None:
        """`instance` is the gateway's own name. Raises InvalidRequest when the exporter's library
        isn't installed."""
        self.counts = TraceCounts()
        self._loop, self._per_second = loop, limits.spans_per_second_max
        self._export = SpanExport(loop, limits, instance, self.counts)
        self._deliveries = TracedDeliveries(limits.deliveries_max, limits.follow_seconds * _US)
        self._finder = TraceFinder(self._per_second)
        self._allowed = float(self._per_second)  # spans that may be begun until the next tick
        self._timer: asyncio.TimerHandle | None = None

    @property
    def followed(self) -> int:
        return len(self._deliveries)

    def open(self) -> None:
        self._export.open()
        self._tick()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._export.close()

    def _tick(self) -> None:
        """Give spans to the exporter, forget deliveries that are too old, renew the allowance."""
        self._export.add(self._deliveries.due(clock.now()))
        self._export.flush()
        most = self._per_second
        self._allowed = min(self._allowed + most * TICK_SECONDS, most)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    # Events of messages.

    def durable(self, group: Group, batches: Sequence[tuple[str, RecordBatch]]) -> None:
        now = clock.now()
        for topic, batch in batches:
            self._published(topic, batch, range(batch.first, batch.stop), group.written_at, now)
        if not self._deliveries:
            return
        for one in group.settlements:
            said = TracedOutcome(one.outcome, one.final, one.delivered_at, one.settled_at, now)
            for run in one.sequences:
                self._export.add(self._deliveries.settled(one.subscription, run, said))

    def kept(self, topic: str, batch: RecordBatch, at: int) -> None:
        self._published(topic, batch, range(batch.first, batch.stop), at, at, in_memory=True)

    def delivered(
        self, to: Reader, batch: RecordBatch, run: Run, delivery_count: int, at: int
    ) -> None:
        stream = to.stream

        def sequence_of(number: int) -> int:
            entry = stream.find(number) if stream is not None else None
            if isinstance(entry, Logged):
                return entry.sequence_of(number)
            return number if stream is None else _in_memory(number)

        for number, message in self._found(batch, run, _OF_DELIVERY, sequence_of):
            delivery = TracedDelivery(message, to.name, to.topic, to.consumer, delivery_count, at)
            self._export.add(self._deliveries.delivered(to.key, number, delivery))

    def settled(
        self, key: Hashable, run: Run, outcome: Outcome, *, final: bool, delivered_at: int, at: int
    ) -> None:
        said = TracedOutcome(outcome, final, delivered_at, at, at)
        self._export.add(self._deliveries.settled(key, run, said))

    def _published(
        self,
        topic: str,
        batch: RecordBatch,
        run: range,
        began: int,
        ended: int,
        *,
        in_memory: bool = False,
    ) -> None:
        place = _in_memory if in_memory else int
        for _, message in self._found(batch, run, 1, place):
            self._export.add((Published(message, topic, began, ended),))

    def _found(
        self, batch: RecordBatch, run: Run, spans: int, sequence_of: Callable[[int], int]
    ) -> list[tuple[int, TracedMessage]]:
        """Return the run's traced messages with their numbers, as many as the allowance permits at
        `spans` each."""
        most = int(self._allowed) // spans
        found, left_out = self._finder.find(batch, run, most, sequence_of)
        self._allowed -= spans * len(found)
        self.counts.dropped[SpanDrop.RATE] += left_out
        return found


def _in_memory(number: int) -> int:
    """Return the place (`TracedMessage.sequence`) of a message that is in memory alone."""
    return -1 - number
