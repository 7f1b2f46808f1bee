"""Spans: what happened to one message, from when to when, and what caused it.

Names and attributes are those of OpenTelemetry's semantic conventions for messaging; what they have
no word for begins with `distributary.`. The ids of spans follow from what they are of: whoever
knows the message knows its span of publishing, also after a restart.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.tracing.trace_context import TraceContext

SYSTEM: Final = "distributary"
_DESTINATION: Final = "messaging.destination.name"
#: Outcomes that are errors to whoever looks at a trace.
FAILURES: Final = frozenset(
    {
        *(Outcome.REJECTED, Outcome.MODIFIED, Outcome.LOST),
        *(Outcome.EXPIRED, Outcome.DEAD_LETTERED, Outcome.DROPPED),
    }
)


class SpanKind(StrEnum):
    """Who waits for whom."""

    SERVER = "server"  #: a peer asked for it
    CLIENT = "client"  #: the gateway asked a peer, and waits for its outcome


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are bytes, times microseconds since the epoch; `link` is the span of the
    delivery before, in the same trace, empty if there is none; `error` says what failed, empty if
    nothing did."""

    name: str
    kind: SpanKind
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    state: str
    began: int
    ended: int
    attributes: dict[str, str | int] = field(default_factory=dict)
    link: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class TracedMessage:
    """A message whose trace is sampled. `sequence` is its place in the log; -1 and below: it is in
    memory alone. `size` is in bytes."""

    context: TraceContext
    sequence: int
    size: int
    message_id: str = ""
    publish_id: bytes = field(init=False)  #: of its span of publishing

    def __post_init__(self) -> None:
        place = self.sequence.to_bytes(8, "big", signed=True)
        made = _id(self.context.trace_id, self.context.parent_id, place)
        object.__setattr__(self, "publish_id", made)


@dataclass(frozen=True, slots=True)
class TracedDelivery:
    """One delivery of a message: what of, to which consumer, when, after so many failed ones.
    `subscription` is the id of a named one; `topic` may be a pattern."""

    message: TracedMessage
    subscription: str
    topic: str
    consumer: str
    delivery_count: int
    delivered_at: int
    link: bytes = b""
    span_id: bytes = field(init=False)

    def __post_init__(self) -> None:
        named = f"{self.subscription}\0{self.consumer}\0{self.delivered_at}".encode()
        object.__setattr__(self, "span_id", _id(self.message.publish_id, named))


def publish_span(message: TracedMessage, topic: str, began: int, ended: int) -> Span:
    """From when its group was closed, the message's time of publishing, to when it was durable."""
    context = message.context
    return Span(
        f"publish {topic}",
        SpanKind.SERVER,
        context.trace_id,
        message.publish_id,
        context.parent_id,
        context.state,
        began,
        max(ended, began),
        _attributes(message, topic, "publish", "send"),
    )


def deliver_span(delivery: TracedDelivery, ended: int, *, settled: bool) -> Span:
    """From when it was handed to the engine to when the consumer's outcome came; without one
    (`settled` is False) to when the gateway ceased to look for it."""
    message, context = delivery.message, delivery.message.context
    said = _of_delivery(delivery, "deliver", "deliver")
    if not settled:
        said["distributary.outcome"] = "none"
    if delivery.delivery_count:
        said["distributary.delivery_count"] = delivery.delivery_count
    return Span(
        f"deliver {delivery.topic}",
        SpanKind.CLIENT,
        context.trace_id,
        delivery.span_id,
        message.publish_id,
        context.state,
        delivery.delivered_at,
        max(ended, delivery.delivered_at),
        said,
        delivery.link,
    )


def settle_span(delivery: TracedDelivery, outcome: Outcome, began: int, ended: int) -> Span:
    """From when the outcome came to when it was durable; a subscription that isn't recorded has
    both at once."""
    context, failed = delivery.message.context, outcome in FAILURES
    said = _of_delivery(delivery, "settle", "settle")
    said["distributary.outcome"] = outcome.value
    if failed:
        said["error.type"] = outcome.value
    return Span(
        f"settle {delivery.topic}",
        SpanKind.SERVER,
        context.trace_id,
        _id(delivery.span_id, outcome.value.encode(), began.to_bytes(8, "big")),
        delivery.span_id,
        context.state,
        began,
        max(ended, began),
        said,
        error=outcome.value if failed else "",
    )


def _attributes(
    message: TracedMessage, topic: str, operation: str, kind: str
) -> dict[str, str | int]:
    said: dict[str, str | int] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.message.envelope.size": message.size,
    }
    if message.message_id:
        said["messaging.message.id"] = message.message_id
    if message.sequence >= 0:
        said["distributary.sequence"] = message.sequence
    said["messaging.destination.template" if is_pattern(topic) else _DESTINATION] = topic
    return said


def _of_delivery(delivery: TracedDelivery, operation: str, kind: str) -> dict[str, str | int]:
    said = _attributes(delivery.message, delivery.topic, operation, kind)
    if delivery.subscription:
        said["messaging.destination.subscription.name"] = delivery.subscription
    if delivery.consumer:
        said["messaging.client.id"] = delivery.consumer
    return said


def _id(*parts: bytes) -> bytes:
    """Eight bytes that follow from these; not all of them zero."""
    found = blake2b(b"\0".join(parts), digest_size=8).digest()
    return found if any(found) else b"\0\0\0\0\0\0\0\1"
