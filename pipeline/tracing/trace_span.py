"""Spans: the events of a message, with their times and causes.

The gateway's loop makes steps, which have little more than the event's facts; `span_of` makes spans
of them, in the exporter. Names and attributes are those of OpenTelemetry's semantic conventions for
messaging; our own attributes begin with `distributary.`. Ids of spans are computed from the message
and the event: so the id of a message's publish span is known after a restart, too.

Steps are tuples with names, which cost a fifth of other frozen values. Times are microseconds since
the epoch.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias, assert_never
from uuid import UUID

from distributary.pipeline.codec.amqp_types import DecodeBudget, DecodeError, DecodeLimits, read
from distributary.pipeline.codec.rendering import identifier
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.tracing.trace_context import TraceContext, read_context

SYSTEM: Final = "distributary"
_DESTINATION: Final = "messaging.destination.name"
#: Outcomes that are shown as errors in a trace.
FAILURES: Final = frozenset(
    {
        *(Outcome.REJECTED, Outcome.MODIFIED, Outcome.LOST),
        *(Outcome.EXPIRED, Outcome.DEAD_LETTERED, Outcome.DROPPED),
    }
)
#: Characters of a message-id in a span; an id has no other values in it.
ID_CHARS_MAX: Final = 256
_SCALAR: Final = DecodeBudget(0, DecodeLimits(values_max=0))


class TracedMessage(NamedTuple):
    """A message whose trace is sampled: its traceparent and tracestate, its sequence (negative: it
    is in memory alone), its size in bytes, and its encoded message-id (empty: it has none)."""

    parent: bytes
    state: bytes
    sequence: int
    size: int
    message_id: bytes = b""


class TracedDelivery(NamedTuple):
    """One delivery of a message: its consumer, its time, and the failed attempts before it.
    `subscription` is the id of a named one; `topic` may be a pattern. `before` is the consumer and
    the time of the delivery before it, if that is known."""

    message: TracedMessage
    subscription: str
    topic: str
    consumer: str
    delivery_count: int
    delivered_at: int
    before: tuple[str, int] | None = None


class Published(NamedTuple):
    """A message became durable at `ended`; `began` is when its group was closed, its time of
    publishing."""

    message: TracedMessage
    topic: str
    began: int
    ended: int


class Delivered(NamedTuple):
    """A delivery got its outcome, or (`settled` is False) is forgotten without one."""

    delivery: TracedDelivery
    ended: int
    settled: bool


class Settled(NamedTuple):
    """The outcome of a delivery came at `began` and was durable at `ended`. For a subscription that
    isn't in the log both are the same time."""

    delivery: TracedDelivery
    outcome: Outcome
    began: int
    ended: int


Step: TypeAlias = Published | Delivered | Settled


class Packet(NamedTuple):
    """Steps on their way to the exporter."""

    published: list[Published]
    delivered: list[Delivered]
    settled: list[Settled]


def packet_of(steps: "list[Step]") -> Packet:
    """Return the steps sorted by their kinds."""
    packet = Packet([], [], [])
    for step in steps:
        match step:
            case Published():
                packet.published.append(step)
            case Delivered():
                packet.delivered.append(step)
            case Settled():
                packet.settled.append(step)
            case _ as never:
                assert_never(never)
    return packet


class SpanKind(StrEnum):
    """Direction of a request."""

    SERVER = "server"  #: a peer's request
    CLIENT = "client"  #: the gateway's delivery, which waits for the peer's outcome


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are bytes; `link` is the span of the delivery before, in the same trace, or
    empty; `error` says what failed, or is empty."""

    name: str
    kind: SpanKind
    context: TraceContext
    span_id: bytes
    parent_id: bytes
    began: int
    ended: int
    attributes: dict[str, str | int]
    link: bytes = b""
    error: str = ""


def span_of(step: Step) -> Span | None:
    """Return the span of a step; None if its message's traceparent is malformed."""
    match step:
        case Published(message=message) as published:
            context = _context(message)
            return None if context is None else _publish(published, context)
        case Delivered(delivery=delivery) as delivered:
            context = _context(delivery.message)
            return None if context is None else _deliver(delivered, context)
        case Settled(delivery=delivery) as settled:
            context = _context(delivery.message)
            return None if context is None else _settle(settled, context)
        case _ as never:
            assert_never(never)


def _context(message: TracedMessage) -> TraceContext | None:
    state = message.state.decode("ascii", "replace")
    return read_context(message.parent.decode("ascii", "replace"), state)


def _publish(step: Published, context: TraceContext) -> Span:
    return Span(
        f"publish {step.topic}",
        SpanKind.SERVER,
        context,
        _publish_id(context, step.message),
        context.parent_id,
        step.began,
        max(step.ended, step.began),
        _attributes(step.message, step.topic, "publish", "send"),
    )


def _deliver(step: Delivered, context: TraceContext) -> Span:
    delivery = step.delivery
    said = _of_delivery(delivery, "deliver", "deliver")
    if not step.settled:
        said["distributary.outcome"] = "none"
    if delivery.delivery_count:
        said["distributary.delivery_count"] = delivery.delivery_count
    publish_id, link = _publish_id(context, delivery.message), b""
    if delivery.before is not None:
        link = _deliver_id(publish_id, delivery.subscription, *delivery.before)
    return Span(
        f"deliver {delivery.topic}",
        SpanKind.CLIENT,
        context,
        _id_of(delivery, publish_id),
        publish_id,
        delivery.delivered_at,
        max(step.ended, delivery.delivered_at),
        said,
        link,
    )


def _settle(step: Settled, context: TraceContext) -> Span:
    delivery, outcome = step.delivery, step.outcome
    said = _of_delivery(delivery, "settle", "settle")
    said["distributary.outcome"] = outcome.value
    failed = outcome in FAILURES
    if failed:
        said["error.type"] = outcome.value
    deliver_id = _id_of(delivery, _publish_id(context, delivery.message))
    return Span(
        f"settle {delivery.topic}",
        SpanKind.SERVER,
        context,
        _id(deliver_id, outcome.value.encode(), step.began.to_bytes(8, "big")),
        deliver_id,
        step.began,
        max(step.ended, step.began),
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
    if text := _message_id(message.message_id):
        said["messaging.message.id"] = text
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


def _message_id(data: bytes) -> str:
    """Return a message-id as JMS clients show it; empty where there is none."""
    try:
        value = read(data, 0, _SCALAR)[0] if data else None
    except (DecodeError, IndexError, struct.error, UnicodeDecodeError):
        return ""
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | UUID):
        return ""
    return (identifier(value) or "")[:ID_CHARS_MAX]


def _publish_id(context: TraceContext, message: TracedMessage) -> bytes:
    place = message.sequence.to_bytes(8, "big", signed=True)
    return _id(context.trace_id, context.parent_id, place)


def _id_of(delivery: TracedDelivery, publish_id: bytes) -> bytes:
    name, consumer = delivery.subscription, delivery.consumer
    return _deliver_id(publish_id, name, consumer, delivery.delivered_at)


def _deliver_id(publish_id: bytes, subscription: str, consumer: str, delivered_at: int) -> bytes:
    return _id(publish_id, f"{subscription}\0{consumer}\0{delivered_at}".encode())


def _id(*parts: bytes) -> bytes:
    """Return eight bytes computed from these parts, not all of them zero."""
    found = blake2b(b"\0".join(parts), digest_size=8).digest()
    return found if any(found) else b"\0\0\0\0\0\0\0\1"
