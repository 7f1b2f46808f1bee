"""Spans on their way to the process that sends them, and the life of that process.

Rule 1: the loop never waits for the process. Spans that don't fit into its socket wait here,
        `traces.spans_max` at most; then the oldest are dropped and counted.
Rule 2: the process ends with the gateway, however that ends: its socket is closed then. When it
        ends by itself it is started again, later each time.
"""

import asyncio
import itertools
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import msgspec
import structlog

from distributary.ingest.runtime.settings import Traces
from distributary.ingest.tracing.exporter_report import ExporterReport
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tracing.trace_span import Step, packet_of
from distributary.pipeline.tracing.tracer import SpanDrop, TraceCounts

_events = structlog.get_logger("traces")

#: Spans of one packet: 128 KiB with the longest possible names, which a socket takes.
PACKET_SPANS = 16
#: Seconds until an exporter that has ended is started again, the first time and at most.
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 1.0, 60.0
#: Seconds at the end in which the exporter takes and sends the waiting spans.
CLOSE_SECONDS = 2.0
#: The library that the exporter needs, of the extra `otel`.
LIBRARY = "opentelemetry-exporter-otlp-proto-http"
PROCESS = "distributary.ingest.tracing.span_process"


class SpanExport:
    """Gives spans away from `open` to `close`. All methods run on the loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Traces, instance: str, counts: TraceCounts
    ) -> None:
        """Raises InvalidRequest when the library isn't installed."""
        try:
            version(LIBRARY)
        except PackageNotFoundError:
            raise InvalidRequest(
                f"traces.endpoint is {limits.endpoint}, and {LIBRARY} isn't installed: "
                "pip install 'distributary[otel]', or leave traces.endpoint empty"
            ) from None
        self._loop, self._limits, self._counts = loop, limits, counts
        seconds = str(limits.export_ms_max / 1_000)
        self._command = [sys.executable, "-P", "-m", PROCESS, limits.url, seconds, instance]
        self._waiting: deque[Step] = deque()
        self._sent = 0  # spans that went to the exporter, without a report yet
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ExporterReport)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._again_seconds = AGAIN_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._undelivered = self._ending = False

    def open(self) -> None:
        """Start the exporter."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.setblocking(False)
        with other:
            self._process = subprocess.Popen(  # noqa: S603 (our own module)
                self._command,
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._socket = own
        self._loop.add_reader(own, self._told)

    def add(self, spans: Sequence[Step]) -> None:
        """Keep spans for the next `flush`."""
        self._waiting += spans
        while len(self._waiting) > self._limits.spans_max:
            self._waiting.popleft()
            self._counts.dropped[SpanDrop.FULL] += 1

    def flush(self) -> None:
        """Give the exporter as many spans as its socket takes."""
        while self._waiting and self._socket is not None:
            some = [*itertools.islice(self._waiting, PACKET_SPANS)]
            try:
                self._socket.send(self._encoder.encode(packet_of(some)))
            except OSError:  # the socket is full, or the process has ended, which `_told` sees
                return
            self._sent += len(some)
            for _ in some:
                self._waiting.popleft()

    def _told(self) -> None:
        assert self._socket is not None  # noqa: S101
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._ended()
            return
        report = self._decoder.decode(data)
        self._sent -= report.exported + report.failed
        self._counts.exported += report.exported
        self._counts.dropped[SpanDrop.COLLECTOR] += report.failed
        if report.exported:
            self._again_seconds = AGAIN_SECONDS
        self._tell(report)

    def _tell(self, report: ExporterReport) -> None:
        """One line when the collector ceases to take spans, one when it takes them again."""
        if report.failed and not self._undelivered:
            self._undelivered = True
            _events.warning(
                "traces.undelivered",
                endpoint=self._limits.url,
                reason=report.reason,
                then="spans are dropped and counted until the collector takes them",
            )
        elif report.exported and self._undelivered:
            self._undelivered = False
            _events.info("traces.delivered", endpoint=self._limits.url)

    def _ended(self) -> None:
        """Count lost spans: the exporter has closed its socket."""
        self._let_go()
        self._counts.dropped[SpanDrop.EXPORTER] += self._sent
        self._sent = 0
        if self._ending:
            return
        seconds = self._again_seconds
        _events.warning("traces.exporter_ended", again_in_seconds=seconds)
        self._again_seconds = min(2 * seconds, AGAIN_SECONDS_MAX)
        self._timer = self._loop.call_later(seconds, self._again)

    def _again(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.open()

    def _let_go(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def close(self) -> None:
        """Give the exporter the waiting spans, and time to send them; then end it."""
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._loop.time() + CLOSE_SECONDS
        shut = False
        while self._socket is not None and self._loop.time() < deadline:
            self.flush()
            if not self._waiting and not shut:
                shut = True
                self._socket.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0.01)
        self._let_go()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
