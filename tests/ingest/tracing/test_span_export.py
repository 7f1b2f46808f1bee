"""Spans that are sent or lost when the collector, the exporter or the gateway goes; and limits."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_collector import Collector
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import until

from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.errors import InvalidRequest

MESSAGE = encoded(
    1, properties={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def traced(folder: Path, collector: Collector, **limits: int) -> ShownGateway:
    return ShownGateway(folder, {"traces": {"endpoint": collector.endpoint, **limits}})


def exporter_of(gateway: ShownGateway) -> int:
    """The one process of this gateway that sends spans. A process has no command line until it has
    begun its program, which may be a moment after its parent goes on."""
    until(lambda: exporters(gateway), "the exporter's command line")
    [exporter] = exporters(gateway)
    return exporter


def exporters(gateway: ShownGateway) -> list[int]:
    """The processes of this gateway that send spans, as far as they can be told by now."""
    assert gateway.process is not None
    pid = gateway.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in children if b"span_process" in _command(one)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_gone(pid: int) -> bool:
    return b"span_process" not in _command(str(pid))


def test_nothing_is_there_when_it_is_off(tmp_path: Path) -> None:
    """No process, no number, and in the gateway's process nothing of it is imported."""
    with ShownGateway(tmp_path) as gateway, Peer(gateway.port) as peer:
        receiver = peer.receiver("t")
        peer.sender("t").publish_data([MESSAGE])
        receiver.bodies()
        assert exporters(gateway) == []
        found = {name: value for (name, _), value in gateway.metrics().items() if "trace" in name}
        assert not any(found.values())
        assert len(found) == 3
        gateway.stop()
    code = (
        "import sys; from distributary.ingest.gateway import serve; "
        "print([one for one in sys.modules if 'opentelemetry' in one or 'ingest.tracing' in one])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_gateway_that_traces_has_one_more_process_and_no_library(
    tmp_path: Path, collector: Collector
) -> None:
    """OpenTelemetry's own code runs in the exporter alone; the exporter ends with the gateway, also
    when that is killed."""
    with traced(tmp_path, collector) as gateway:
        exporter = exporter_of(gateway)
        assert gateway.process is not None
        maps = Path(f"/proc/{gateway.process.pid}/maps").read_text()
        assert "google/_upb" not in maps
        until(lambda: "upb" in Path(f"/proc/{exporter}/maps").read_text(), "protobuf, there")
        gateway.kill()
        until(lambda: is_gone(exporter), "its end")
        gateway.start()
        exporter = exporter_of(gateway)
        gateway.stop()
        assert is_gone(exporter)


def test_an_exporter_that_ends_is_started_again(tmp_path: Path, collector: Collector) -> None:
    with traced(tmp_path, collector) as gateway, Peer(gateway.port) as peer:
        sender = peer.sender("t")
        sender.publish_data([MESSAGE])
        collector.await_spans(1)
        gateway.await_metric(1, "trace_spans_total")  # the exporter has said so
        exporter = exporter_of(gateway)
        os.kill(exporter, signal.SIGKILL)
        until(lambda: gateway.events("traces.exporter_ended"), "a line")
        sender.publish_data([MESSAGE])
        collector.await_spans(2)
        another = exporter_of(gateway)
        assert another != exporter
        gateway.await_metric(2, "trace_spans_total")
        assert len(gateway.events("traces.exporter_ended")) == 1
        gateway.stop()


def test_spans_at_an_exporter_that_ends_are_counted(tmp_path: Path) -> None:
    """The collector takes connections and answers nothing: the exporter has the span and waits."""
    with Collector() as collector, traced(tmp_path, collector) as gateway:
        collector.silent = True
        with Peer(gateway.port) as peer:
            peer.sender("t").publish_data([MESSAGE])
            until(lambda: collector.requests, "a request")
            os.kill(exporter_of(gateway), signal.SIGKILL)
            gateway.await_metric(1, "trace_spans_dropped_total", reason="exporter")
        collector.silent = False
        gateway.stop()


def test_a_collector_that_is_away_costs_one_line(tmp_path: Path) -> None:
    """Spans are dropped and counted, messages go on; when it is back it gets what comes then."""
    collector = Collector()
    with traced(tmp_path, collector, export_ms_max=300, spans_max=20) as gateway:
        with Peer(gateway.port) as peer:
            sender = peer.sender("t")
            for _ in range(4):
                lost = gateway.metric("trace_spans_dropped_total", reason="collector")
                sender.publish_data([MESSAGE] * 5)
                until(
                    lambda lost=lost: (
                        gateway.metric("trace_spans_dropped_total", reason="collector") > lost
                    ),
                    "spans that are lost",
                )
            [line] = gateway.events("traces.undelivered")
            assert collector.endpoint in str(line["endpoint"])
            assert line["reason"]
            with collector:
                until(lambda: collector.status == 200, "it listens")
                sender.publish_data([MESSAGE])
                until(collector.spans, "a span")
                until(lambda: gateway.events("traces.delivered"), "a line")
        assert len(gateway.events("traces.undelivered")) == 1
        gateway.stop()


def test_a_collector_that_refuses_is_said(tmp_path: Path, collector: Collector) -> None:
    collector.status = 401
    with traced(tmp_path, collector, export_ms_max=300) as gateway, Peer(gateway.port) as peer:
        peer.sender("t").publish_data([MESSAGE] * 3)
        gateway.await_metric(3, "trace_spans_dropped_total", reason="collector")
        [line] = gateway.events("traces.undelivered")
        assert "401" in str(line["reason"]) or "Unauthorized" in str(line["reason"])
        gateway.stop()


def test_what_waits_for_a_slow_exporter_is_bounded(tmp_path: Path, collector: Collector) -> None:
    """The oldest spans are dropped; the gateway serves, and what it has is not more than that."""
    with traced(tmp_path, collector, spans_max=10, spans_per_second_max=100_000) as gateway:
        with Peer(gateway.port) as peer:
            exporter = exporter_of(gateway)
            os.kill(exporter, signal.SIGSTOP)
            try:
                sender = peer.sender("t")
                for _ in range(3):
                    sender.publish_data([MESSAGE] * 1_000)
                until(
                    lambda: gateway.metric("trace_spans_dropped_total", reason="full") > 1_000,
                    "spans that are dropped",
                )
            finally:
                os.kill(exporter, signal.SIGCONT)
            lost = gateway.metric("trace_spans_dropped_total", reason="full")
            gateway.await_metric(3_000 - lost, "trace_spans_total")
        gateway.stop()


def test_so_many_spans_a_second(tmp_path: Path, collector: Collector) -> None:
    """Of more messages there are no spans, and it is counted; a second later there are again."""
    with traced(tmp_path, collector, spans_per_second_max=20) as gateway, Peer(gateway.port) as one:
        sender = one.sender("t")
        sender.publish_data([MESSAGE] * 500)

        def both() -> int:
            dropped = gateway.metric("trace_spans_dropped_total", reason="rate")
            return int(dropped) + len(collector.spans())

        until(lambda: both() == 500, "spans, and those that are too many")
        before = len(collector.spans())
        assert 20 <= before < 100
        time.sleep(1.2)  # the stimulus: nothing shows that more may be begun
        sender.publish_data([MESSAGE] * 10)
        until(lambda: both() == 510, "more")
        assert len(collector.spans()) == before + 10
        gateway.stop()


def test_so_many_deliveries_are_followed(tmp_path: Path, collector: Collector) -> None:
    """The oldest is forgotten for the next one: its span ends without an outcome."""
    with traced(tmp_path, collector, deliveries_max=3) as gateway, Peer(gateway.port) as peer:
        receiver = peer.receiver("q", capabilities=("queue",))
        peer.sender("q", capabilities=("queue",)).publish_data([MESSAGE] * 5)
        held = receiver.take(5)
        gateway.await_metric(3, "traced_deliveries")
        spans = collector.await_spans(7)
        forgotten = [one for one in spans if one.name.startswith("deliver ")]
        assert [one.attributes["distributary.outcome"] for one in forgotten] == ["none"] * 2
        receiver.confirm(held)
        assert len(collector.await_spans(13)) == 13
        gateway.stop()


def test_a_delivery_is_followed_for_so_long(tmp_path: Path, collector: Collector) -> None:
    with traced(tmp_path, collector, follow_seconds=1) as gateway, Peer(gateway.port) as peer:
        receiver = peer.receiver("q", capabilities=("queue",))
        peer.sender("q", capabilities=("queue",)).publish_data([MESSAGE])
        held = receiver.take()
        collector.await_spans(2)
        gateway.await_metric(0, "traced_deliveries")
        receiver.confirm(held)
        assert [one.says("outcome") for one in collector.await_spans(2)] == [None, "none"]
        gateway.stop()


@pytest.mark.parametrize(
    "endpoint", ["collector:4318", "ftp://a/", "http://", "http://a:x", "http://a:99999"]
)
def test_an_endpoint_is_a_url(endpoint: str) -> None:
    with pytest.raises(InvalidRequest, match=r"traces\.endpoint .* collector's URL"):
        load(environment={}, flags={"traces.endpoint": endpoint})


def test_an_endpoint_without_a_path_has_otlps_own() -> None:
    for endpoint, url in (
        ("http://a:4318", "http://a:4318/v1/traces"),
        ("https://a/", "https://a/v1/traces"),
        ("https://a/otlp/v1/traces", "https://a/otlp/v1/traces"),
    ):
        assert load(environment={}, flags={"traces.endpoint": endpoint}).traces.url == url


def test_without_the_library_the_start_says_what_to_install(tmp_path: Path) -> None:
    """In an environment that has all but the extra."""
    code = (
        "import importlib.metadata as m, sys\n"
        "found = m.version\n"
        "def absent(name):\n"
        "    if name.startswith('opentelemetry'): raise m.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "m.version = absent\n"
        "sys.argv = ['distributary', *sys.argv[1:]]\n"
        "from distributary.ingest.cli.main import main\n"
        "main()\n"
    )
    config = tmp_path / "gateway.toml"
    config.write_text('[http]\nlisten = ""\n[traces]\nendpoint = "http://127.0.0.1:1"\n')
    words = ["serve", "--home", str(tmp_path / "home"), "--config", str(config)]
    ran = subprocess.run(
        [sys.executable, "-c", code, *words, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode != 0
    assert "pip install 'distributary[otel]'" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
