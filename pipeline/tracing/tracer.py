"""What the gateway tells of its messages to whoever traces them, if anybody does."""

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
    """Why a span isn't at the collector."""

    RATE = "rate"  #: there were more than may be in a second
    FULL = "full"  #: too many waited for the exporter
    COLLECTOR = "collector"  #: the collector didn't take it
    EXPORTER = "exporter"  #: it was at the exporter when that ended


class TraceCounts(msgspec.Struct, eq=False):
    """Spans since the process began: those that the collector took, and the others by why. A
    message or delivery for which there was no room counts as one."""

    exported: int = 0
    dropped: dict[SpanDrop, int] = msgspec.field(default_factory=lambda: dict.fromkeys(SpanDrop, 0))


class Reader(msgspec.Struct, frozen=True, eq=False):
    """Who is handed messages: its subscription, by a key that is its own (the id of one that the
    log knows), by its id ("": it has none), topic and stream; and the consumer."""

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
        """Deliveries that are followed until they are settled."""

    def durable(self, group: Group, batches: Sequence[tuple[str, RecordBatch]]) -> None:
        """This group is on the disk; `batches` are its messages by topic."""

    def kept(self, topic: str, batch: RecordBatch, at: int) -> None:
        """These messages came at this time, and stay in memory; the batch has their numbers."""

    def delivered(
        self, to: Reader, batch: RecordBatch, run: Run, delivery_count: int, at: int
    ) -> None:
        """These of the batch's messages were handed to a consumer at this time."""

    def settled(
        self, key: Hashable, run: Run, outcome: Outcome, *, final: bool, delivered_at: int, at: int
    ) -> None:
        """These messages of a subscription that isn't recorded in the log have this outcome."""

    def open(self) -> None:
        """The gateway begins to serve."""

    async def close(self) -> None:
        """The gateway has ended: hand over what there is, and end the exporter."""
