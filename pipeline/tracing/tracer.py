"""Interface by which the gateway reports its messages' events to tracing, if that is configured."""

from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from distributary.pipeline.log.memory_stream import MemoryStream
from distributary.pipeline.model.message import Group
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run


class SpanDrop(StrEnum):
    """Reason why a span isn't at the collector."""

    RATE = "rate"  #: more than the limit of a second
    FULL = "full"  #: too many waited for the exporter
    COLLECTOR = "collector"  #: the collector didn't take it
    EXPORTER = "exporter"  #: it was at the exporter when that ended


class TraceCounts(msgspec.Struct, eq=False):
    """Spans since the process began: those that the collector took, and the others by reason. A
    message or delivery for which there was no room counts as one."""

    exported: int = 0
    dropped: dict[SpanDrop, int] = msgspec.field(default_factory=lambda: dict.fromkeys(SpanDrop, 0))


class Reader(msgspec.Struct, frozen=True, eq=False):
    """A receiver of messages: its subscription's key (the id of one in the log, else its own), id
    ("": it has none), topic and stream; and the consumer."""

    key: Hashable
    name: str
    topic: str
    stream: MemoryStream | None
    consumer: str


class Tracer(Protocol):
    """Follows messages whose trace is sampled. All methods run on the loop's thread."""

    counts: TraceCounts

    @property
    def followed(self) -> int:
        """The number of deliveries that are followed until they are settled."""

    def durable(self, group: Group, batches: Sequence[tuple[str, RecordBatch]]) -> None:
        """Take note that a group is durable; `batches` are its messages by topic."""

    def kept(self, topic: str, batch: RecordBatch, at: int) -> None:
        """Take note of messages that came at this time and stay in memory; the batch has their
        numbers."""

    def delivered(
        self, to: Reader, batch: RecordBatch, run: Run, delivery_count: int, at: int
    ) -> None:
        """Take note that these messages of a batch were handed to a consumer at this time."""

    def settled(
        self, key: Hashable, run: Run, outcome: Outcome, *, final: bool, delivered_at: int, at: int
    ) -> None:
        """Take note of the outcome of messages of a subscription that isn't recorded in the log."""

    def open(self) -> None:
        """Start: the gateway begins to serve."""

    async def close(self) -> None:
        """Stop: hand the remaining steps over, and end the exporter."""
