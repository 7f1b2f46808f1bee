"""Metrics of a thousand subscriptions: time and cost of a scrape, and waits of a publisher that
sends one message at a time meanwhile."""

import http.client
import sys
import threading
import time
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_frames import Raw
from gateway_jms import producer, text_message

from tests.bench.attack_frames import opening, transfer
from tests.bench.bench import Bench, Measurement
from tests.bench.claims import subscribe_many
from tests.bench.server import free_port

SCRAPES: Final = 60
APART_SECONDS: Final = 0.05


def scraping(bench: Bench) -> Measurement:
    """The case."""
    measurement, port = Measurement(), free_port()
    with bench.fresh({"HTTP_LISTEN": f"127.0.0.1:{port}"}) as server:
        subscribe_many(bench, bench.name("many"))
        server.wait_quiet()
        quiet = _published(server.endpoint.port, threading.Event(), seconds=2.0)
        measurement.facts["without_p99_ms"] = sorted(quiet)[len(quiet) * 99 // 100]
        ended = threading.Event()
        during: list[float] = []
        witness = threading.Thread(
            target=lambda: during.extend(_published(server.endpoint.port, ended))
        )
        witness.start()
        took, size = [], 0
        for _ in range(SCRAPES):
            began = time.perf_counter()
            size = _scraped(port)
            took.append((time.perf_counter() - began) * 1e3)
            time.sleep(APART_SECONDS)
        ended.set()
        witness.join()
        server.wait_quiet()
        cpu = server.cpu().total
        for _ in range(SCRAPES):
            _scraped(port)
        took.sort()
        measurement.facts |= {
            "scrape_p50_ms": took[SCRAPES // 2],
            "scrape_max_ms": took[-1],
            "scrape_cpu_ms": (server.cpu().total - cpu) / SCRAPES * 1e3,
            "scrape_kb": size / 1e3,
            "during_p99_ms": sorted(during)[len(during) * 99 // 100],
        }
        measurement.stall_ms = max(during)
        measurement.rss_mb = server.rss_mb()
    return measurement


def _scraped(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    size = len(connection.getresponse().read())
    connection.close()
    return size


def _published(port: int, ended: threading.Event, seconds: float = 60.0) -> list[float]:
    """How long each accept took, in milliseconds."""
    found: list[float] = []
    with Raw(port) as raw:
        raw.send(opening("witness"))
        raw.expect("open", "begin")
        raw.send(producer("elsewhere"))
        raw.expect("attach", "flow")
        message, until = text_message("x", "elsewhere"), time.perf_counter() + seconds
        while not ended.is_set() and time.perf_counter() < until:
            began = time.perf_counter()
            raw.send(transfer(len(found), message))
            while raw.read().kind != "disposition":
                pass
            found.append((time.perf_counter() - began) * 1e3)
    return found
