"""The process that sends spans to a collector, by OTLP over HTTP, with OpenTelemetry's own SDK.

    python -m distributary.ingest.tracing.span_process URL SECONDS INSTANCE

Its standard input is a socket: packets of spans come, reports go back. It keeps one batch, and
reads no more while it sends: later spans wait in the gateway, which has the limits. It ends when
the gateway has closed the socket, or is gone. Environment variables `OTEL_*` apply as in every
OpenTelemetry SDK: headers, certificates, attributes of the resource.
"""

import logging
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from distributary.ingest.tracing.exporter_report import ExporterReport
from distributary.pipeline.tracing import trace_span
from distributary.pipeline.tracing.trace_span import Packet, Span, Step, span_of

#: Spans that are sent together, and seconds that the first of them waits for others.
BATCH_SPANS = 512
GATHER_SECONDS = 0.2
PACKET_BYTES_MAX = 1 << 18
REASON_CHARS_MAX = 500

_KINDS = {
    trace_span.SpanKind.SERVER: SpanKind.SERVER,
    trace_span.SpanKind.CLIENT: SpanKind.CLIENT,
}
_SCOPE = InstrumentationScope("distributary")


class LastComplaint(logging.Handler):
    """The library's last error message."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()[:REASON_CHARS_MAX]


def main(url: str, seconds: str, instance: str) -> None:
    """Send spans until the gateway is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    library, said = logging.getLogger("opentelemetry"), LastComplaint()
    library.handlers, library.propagate = [said], False
    resource = Resource.create({"service.name": "distributary", "service.instance.id": instance})
    exporter = OTLPSpanExporter(endpoint=url, timeout=float(seconds))
    encoder = msgspec.msgpack.Encoder()
    with socket.socket(fileno=sys.stdin.fileno()) as gateway:
        for batch in batches(gateway):
            taken = exporter.export([readable(one, resource) for one in map(span_of, batch) if one])
            if taken is SpanExportResult.SUCCESS:
                report = ExporterReport(len(batch), 0)
            else:
                report = ExporterReport(0, len(batch), said.text or "the collector refused them")
            try:
                gateway.send(encoder.encode(report))
            except OSError:
                return  # the gateway is gone


def batches(gateway: socket.socket) -> Iterator[list[Step]]:
    """Yield the spans that come, gathered to batches."""
    decoder = msgspec.msgpack.Decoder(Packet)
    gathered: list[Step] = []
    deadline, data = 0.0, b""
    while True:
        left = max(deadline - time.monotonic(), 0.001) if gathered else None
        gateway.settimeout(left)
        try:
            data = gateway.recv(PACKET_BYTES_MAX)
        except TimeoutError:
            yield gathered
            gathered = []
            continue
        except OSError:
            data = b""
        if not data:
            break
        if not gathered:
            deadline = time.monotonic() + GATHER_SECONDS
        packet = decoder.decode(data)
        gathered += [*packet.published, *packet.delivered, *packet.settled]
        if len(gathered) >= BATCH_SPANS:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """Return a span in the SDK's form."""
    told = span.context
    state = TraceState.from_header([told.state] if told.state else [])

    def context(span_id: bytes, *, remote: bool = False) -> SpanContext:
        trace_id = int.from_bytes(told.trace_id, "big")
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(trace_id, int.from_bytes(span_id, "big"), remote, flags, state)

    links: Sequence[Link] = (
        [Link(context(span.link), {"distributary.link": "earlier delivery"})] if span.link else []
    )
    return ReadableSpan(
        span.name,
        context(span.span_id),
        context(span.parent_id, remote=span.name.startswith("publish ")),
        resource,
        span.attributes,
        (),
        links,
        _KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.began * 1_000,
        end_time=span.ended * 1_000,
        instrumentation_scope=_SCOPE,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
