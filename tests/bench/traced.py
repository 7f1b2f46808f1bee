"""Cost of traces for a publisher and a consumer: CPU of the gateway for a message, against a
gateway that traces nothing. In turns, as the machine isn't alike all the time."""

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.bench.bench import Bench, Measurement

#: How a round is called: whether the gateway traces, and one message in how many is sampled.
KINDS: Final = {"off": (False, 0), "unsampled": (True, 1 << 30), "sampled_1_percent": (True, 100)}
MESSAGES: Final = 100_000


def traced(bench: Bench) -> Measurement:
    """Publish to a durable subscription, then drain it: all messages have a traceparent."""
    measurement = Measurement()
    used: dict[str, list[float]] = {}
    with _collector() as endpoint:
        for _ in range(bench.settings.repeat):
            for kind, (traces, every) in KINDS.items():
                settings = {"TRACES_ENDPOINT": endpoint} if traces else {}
                with bench.fresh(settings):
                    for what, us in _round(bench, every):
                        used.setdefault(f"{kind}_{what}", []).append(us)
                    measurement.rss_mb = bench.server.rss_mb()
    least = {name: min(all_of_it) for name, all_of_it in used.items()}
    for what in ("publish", "drain"):
        off = least[f"off_{what}"]
        measurement.facts[f"off_{what}_us"] = off
        spread = used[f"off_{what}"]
        measurement.facts[f"off_{what}_spread"] = statistics.stdev(spread) / off
        for kind in ("unsampled", "sampled_1_percent"):
            measurement.facts[f"{kind}_{what}"] = least[f"{kind}_{what}"] / off
    return measurement


def _round(bench: Bench, every: int) -> Iterator[tuple[str, float]]:
    """CPU microseconds of the gateway's loop and threads for a message."""
    count, subscription = bench.settings.count(MESSAGES), bench.name("kept")
    warm, topic = bench.name("warm"), bench.name("traced")
    for name, number in ((warm, count // 5), (topic, count)):
        bench.subscribe([subscription], name)
        publish = bench.spec("publish", name, number, traced=every or 1 << 30)
        drain = bench.spec("drain", name, number, subscriptions=(subscription,), owed=number)
        for what, spec in (("publish", publish), ("drain", drain)):
            _, cpu = bench.measured(spec)
            if name == topic and cpu is not None:
                yield what, cpu.threads["loop"] / number * 1e6
        bench.unsubscribe([subscription], name)


@contextmanager
def _collector() -> Iterator[str]:
    """Takes all that comes and looks at nothing."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
