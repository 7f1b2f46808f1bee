"""A producer's span is joined to what became of its message, at a real collector."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_collector import Collector, Seen
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import Settings
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from proton import Delivery, symbol

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def traced(folder: Path, collector: Collector, settings: Settings | None = None) -> ShownGateway:
    """A gateway that sends its spans there."""
    given = settings or {}
    traces = {"endpoint": collector.endpoint, **given.get("traces", {})}
    return ShownGateway(folder, {**given, "traces": traces})


def producing(collector: Collector, *, sampled: bool = True) -> TracerProvider:
    """A producer's SDK, which sends its own spans to the same collector."""
    sampler = ALWAYS_ON if sampled else ALWAYS_OFF
    provider = TracerProvider(sampler, Resource.create({"service.name": "shop"}))
    provider.add_span_processor(
        SimpleSpanProcessor(OTLPSpanExporter(f"{collector.endpoint}/v1/traces"))
    )
    return provider


def published_by(provider: TracerProvider, peer: Peer, topic: str, body: object) -> str:
    """Publish a message as an instrumented producer does; its trace."""
    with provider.get_tracer("shop").start_as_current_span(
        f"send {topic}", kind=trace.SpanKind.PRODUCER
    ) as span:
        carrier: dict[str, str] = {}
        inject(carrier)
        peer.sender(topic).publish_data([encoded(body, properties=carrier, id=f"id-{body}")])
        return f"{span.get_span_context().trace_id:032x}"


def of(spans: list[Seen], operation: str, subscription: str | None = None) -> list[Seen]:
    """The spans of an operation, of one subscription if it is named; "" has no name."""
    found = [one for one in spans if one.attributes.get("messaging.operation.name") == operation]
    if subscription is None:
        return found
    named = "messaging.destination.subscription.name"
    return [one for one in found if one.attributes.get(named, "") == subscription]


DURABLE, SHARED = "container/worker/late", "global/pool"


def test_a_producers_span_is_joined_to_each_settlement(
    tmp_path: Path, collector: Collector
) -> None:
    """Three subscriptions: a durable one gives the message back once, a shared one rejects it, so
    that it becomes a dead letter, a plain one accepts it."""
    with traced(tmp_path, collector) as gateway, Peer(gateway.port, "worker") as peer:
        durable = peer.durable("orders", "late")
        shared = peer.receiver(
            "orders", name="pool", capabilities=("topic", "shared", "global"), durable=True
        )
        plain = peer.receiver("orders")
        trace_id = published_by(producing(collector), peer, "orders", "beer")
        durable.confirm(durable.take(), Delivery.RELEASED)
        durable.confirm(durable.take())
        shared.confirm(shared.take(), Delivery.REJECTED)
        plain.confirm(plain.take())
        # Of the producer 1; publish 2, with the dead letter; 4 deliveries, 4 settlements.
        spans = collector.await_spans(11, trace_id)
        gateway.await_metric(10, "trace_spans_total")
        gateway.await_metric(0, "traced_deliveries")
        gateway.stop()
    [own] = [one for one in spans if one.name == "send orders"]
    first, copy = of(spans, "publish")
    assert (first.name, first.kind, first.parent_id) == ("publish orders", "server", own.span_id)
    assert first.attributes == {
        "messaging.system": "distributary",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": "id-beer",
        "messaging.message.envelope.size": first.says("size"),
        "distributary.sequence": 0,
    }
    assert first.resource["service.name"] == "distributary"
    assert own.began < first.ended < own.ended + 10**9
    assert (copy.name, copy.parent_id) == ("publish queue://DLQ.global/pool", own.span_id)

    again, retried = of(spans, "deliver", DURABLE)
    assert not again.links
    assert retried.links == (again.span_id,)
    assert [one.says("outcome") for one in of(spans, "settle", DURABLE)] == ["released", "accepted"]
    [dead] = of(spans, "settle", SHARED)
    assert (dead.says("outcome"), dead.error) == ("dead_lettered", "dead_lettered")
    [seen] = of(spans, "settle", "")
    assert seen.says("outcome") == "accepted"
    for name in (DURABLE, SHARED, ""):
        delivered = {one.span_id: one for one in of(spans, "deliver", name)}
        for one in delivered.values():
            assert (one.kind, one.parent_id) == ("client", first.span_id)
            assert str(one.attributes["messaging.client.id"]).startswith("worker/")
        for settled in of(spans, "settle", name):
            before = delivered[settled.parent_id]
            assert settled.attributes["messaging.operation.type"] == "settle"
            assert first.began <= before.began <= before.ended == settled.began <= settled.ended


def test_what_is_not_sampled_leaves_nothing(tmp_path: Path, collector: Collector) -> None:
    """A producer whose SDK doesn't sample, one that traces nothing, and one traced message."""
    with traced(tmp_path, collector) as gateway, Peer(gateway.port) as peer:
        receiver = peer.receiver("t")
        published_by(producing(collector, sampled=False), peer, "t", 1)
        sender = peer.sender("t")
        sender.publish(*range(2, 102))
        sender.publish_data([encoded(102, properties={"traceparent": SAMPLED})])
        assert receiver.bodies(102) == list(range(1, 103))
        spans = collector.await_spans(3)
        assert {one.trace_id for one in spans} == {TRACE}
        assert [one.says("sequence") for one in spans] == [101] * 3
        gateway.stop()


MALFORMED = (
    "",
    "00",
    SAMPLED[:-1],
    SAMPLED + "0",
    SAMPLED + "-00",
    SAMPLED.upper(),
    SAMPLED.replace("4bf9", "4bg9"),
    SAMPLED.replace("-", "_"),
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"ff-{TRACE}-{PARENT}-01",
    "0" * 10_240,
    SAMPLED * 200,
    7,
    b"\x00\x01",
    None,
    ["list"],
    {"map": 1},
)


def test_what_is_malformed_is_ignored(tmp_path: Path, collector: Collector) -> None:
    """In application properties and in annotations; nothing is disturbed by it. A right one among a
    hundred properties is found, and annotations come first."""
    other = SAMPLED.replace(TRACE, TRACE[::-1])
    unsampled = other[:-1] + "0"
    with traced(tmp_path, collector) as gateway, Peer(gateway.port) as peer:
        receiver = peer.receiver("t")
        peer.sender("t").publish_data(
            [
                *(
                    encoded(nth, properties={"traceparent": text})
                    for nth, text in enumerate(MALFORMED)
                    if not isinstance(text, list | dict)
                ),
                *(
                    encoded(nth, annotations={symbol("traceparent"): text})
                    for nth, text in enumerate(MALFORMED)
                ),
                encoded("later", properties={"traceparent": f"01{SAMPLED[2:]}-more"}),
                encoded(
                    "among",
                    properties={
                        **{f"p{n}": n for n in range(100)},
                        "traceparent": SAMPLED,
                        "tracestate": "a=1,b=2",
                    },
                ),
                encoded(
                    "annotated",
                    annotations={symbol("traceparent"): other},
                    properties={"traceparent": SAMPLED},
                ),
                encoded(
                    "not by annotations",
                    annotations={symbol("traceparent"): unsampled},
                    properties={"traceparent": SAMPLED},
                ),
            ]
        )
        receiver.bodies(2 * len(MALFORMED) - 2 + 4)
        spans = collector.await_spans(9)
        published = of(spans, "publish")
        assert [one.trace_id for one in published] == [TRACE, TRACE, TRACE[::-1]]
        assert [one.state for one in published] == ["", "a=1,b=2", ""]
        gateway.stop()


def test_what_was_published_before_a_restart_is_traced_after_it(
    tmp_path: Path, collector: Collector
) -> None:
    """A delivery in flight at a kill is forgotten; the message's next delivery belongs to the same
    span of publishing, and has no link."""
    with traced(tmp_path, collector) as gateway:
        with Peer(gateway.port, "c") as peer:
            receiver = peer.durable("t", "s")
            peer.sender("t").publish_data([encoded(1, properties={"traceparent": SAMPLED})])
            receiver.take()
            [published] = collector.await_spans(1)
            gateway.kill()
            peer.drop()
        gateway.start()
        with Peer(gateway.port, "c") as peer:
            receiver = peer.durable("t", "s")
            receiver.confirm(receiver.take())
            spans = collector.await_spans(3)
            gateway.stop()
    [delivered] = of(spans, "deliver")
    assert delivered.parent_id == published.span_id
    assert not delivered.links
    assert [one.says("outcome") for one in of(spans, "settle")] == ["accepted"]


def test_messages_in_memory_are_traced(tmp_path: Path, collector: Collector) -> None:
    """They have no sequence; what is written beside them keeps its own."""
    policies = tmp_path / "policies.toml"
    policies.write_text('[[topic]]\nmatch = "fast"\nstorage = "memory"\n')
    settings = {"delivery": {"policies": str(policies)}}
    with traced(tmp_path, collector, settings) as gateway, Peer(gateway.port) as peer:
        receiver = peer.receiver("fast")
        message = encoded(1, properties={"traceparent": SAMPLED})
        peer.sender("fast").publish_data([message])
        receiver.bodies()
        spans = collector.await_spans(3)
        assert [one.says("sequence") for one in spans] == [None] * 3
        assert of(spans, "deliver")[0].parent_id == of(spans, "publish")[0].span_id
        gateway.await_metric(1, "unwritten_messages_total")
        gateway.stop()


def test_a_consumer_that_goes_gives_back_what_it_had(tmp_path: Path, collector: Collector) -> None:
    """Lost, then delivered to another: a link over both."""
    with traced(tmp_path, collector) as gateway:
        with Peer(gateway.port, "c") as peer:
            first = peer.receiver("q", capabilities=("queue",))
            sender = peer.sender("q", capabilities=("queue",))
            sender.publish_data([encoded(1, properties={"traceparent": SAMPLED})])
            first.take()
            peer.drop()
        with Peer(gateway.port, "d") as peer:
            peer.receiver("q", capabilities=("queue",)).bodies()
        spans = collector.await_spans(5)
        lost, taken = of(spans, "deliver")
        assert taken.links == (lost.span_id,)
        assert [one.says("outcome") for one in of(spans, "settle")] == ["lost", "accepted"]
        gateway.stop()


def test_a_browser_leaves_no_spans(tmp_path: Path, collector: Collector) -> None:
    """It sees the message, and nothing was delivered."""
    with traced(tmp_path, collector) as gateway, Peer(gateway.port) as peer:
        queue = peer.receiver("q", capabilities=("queue",))
        sender = peer.sender("q", capabilities=("queue",))
        sender.publish_data([encoded(1, properties={"traceparent": SAMPLED})])
        browser = peer.receiver("q", capabilities=("queue",), copy=True)
        assert browser.bodies(accept=False) == [1]
        assert [one.name for one in collector.await_spans(1)] == ["publish queue://q"]
        queue.confirm(queue.take())
        assert len(collector.await_spans(3)) == 3
        gateway.stop()
