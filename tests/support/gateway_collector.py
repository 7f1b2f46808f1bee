"""A collector of OpenTelemetry: it speaks OTLP over HTTP, and keeps the spans that come."""

import gzip
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from gateway_process import free_port, until
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent


@dataclass(frozen=True)
class Seen:
    """A span as it came: times are nanoseconds, ids hexadecimal."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    began: int
    ended: int
    error: str
    links: tuple[str, ...]
    attributes: Mapping[str, str | int]
    resource: Mapping[str, str | int]

    def says(self, name: str) -> str | int | None:
        """An attribute, by the last part of its name."""
        found = [value for key, value in self.attributes.items() if key.endswith(f".{name}")]
        return found[0] if found else None


class Collector:
    """Listens on a port of its own while it is entered; `status` is what it answers, when it isn't
    `silent`."""

    def __init__(self) -> None:
        self.port = free_port()
        self.status = 200
        self.silent = False
        self.requests = 0
        self._spans: list[Seen] = []
        self._server: ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.requests += 1
                if collector.silent:
                    until(lambda: not collector.silent, "a word", every=0.05)
                right = self.path == "/v1/traces"
                if right and collector.status == 200:
                    assert self.headers["Content-Type"] == "application/x-protobuf"
                    collector.came(ExportTraceServiceRequest.FromString(body))
                with suppress(ConnectionError):  # who asked may have been killed
                    self.answer(collector.status if right else 404)

            def answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def came(self, request: ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            resource = _said(group.resource.attributes)
            for scope in group.scope_spans:
                self._spans += [_seen(one, resource) for one in scope.spans]

    def spans(self, trace_id: str = "") -> list[Seen]:
        """All that came, or those of a trace, as they began."""
        found = [one for one in [*self._spans] if trace_id in ("", one.trace_id)]
        return sorted(found, key=lambda one: (one.began, one.ended))

    def await_spans(self, number: int, trace_id: str = "") -> list[Seen]:
        """So many spans, no more and no fewer."""
        until(lambda: len(self.spans(trace_id)) >= number, f"{number} spans", every=0.02)
        found = self.spans(trace_id)
        assert len(found) == number, [one.name for one in found]
        return found


def _seen(one: Sent, resource: Mapping[str, str | int]) -> Seen:
    return Seen(
        one.name,
        Sent.SpanKind.Name(one.kind).removeprefix("SPAN_KIND_").lower(),
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        one.trace_state,
        one.start_time_unix_nano,
        one.end_time_unix_nano,
        one.status.message if one.status.code == 2 else "",
        tuple(link.span_id.hex() for link in one.links if link.trace_id == one.trace_id),
        _said(one.attributes),
        resource,
    )


def _said(attributes: object) -> dict[str, str | int]:
    return {
        one.key: one.value.int_value if one.value.HasField("int_value") else one.value.string_value
        for one in attributes
    }
