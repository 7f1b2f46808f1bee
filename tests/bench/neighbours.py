"""Cost of a subscription that stands still for others: a live publisher and consumer alone, with a
stuck subscriber beside them, and with one that is offline and owed a million.

The rounds take turns, so that a machine that gets slower gets slower for all.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import Peer

#: Messages of a round, and what the one that is offline is owed.
LIVE: Final = 50_000
OWED: Final = 1_000_000
#: The credit of the one that is stuck: what a JMS client asks for.
STUCK_CREDIT: Final = 1_000


def neighbours(bench: Bench) -> Measurement:
    """Throughput and CPU as shares of those alone, and the memory that comes with the neighbour."""
    measurement = Measurement()
    with bench.fresh() as server:
        topic, far = bench.name("shared"), bench.name("offline")
        _round(bench, bench.name("warm"))
        stuck = _compared(bench, topic, stuck=True)
        server.wait_quiet()
        before = server.rss_mb() or 0.0
        bench.subscribe([far], topic)
        bench.load(bench.spec("publish", topic, bench.settings.count(OWED), connections=2))
        server.wait_quiet()
        backlog = _compared(bench, topic, stuck=False)
        server.wait_quiet()
        measurement.facts = {f"stuck_{name}": value for name, value in stuck.items()}
        measurement.facts |= {f"backlog_{name}": value for name, value in backlog.items()}
        measurement.facts["backlog_memory_mb"] = (server.rss_mb() or 0.0) - before
        measurement.rss_mb = server.rss_mb()
    return measurement


def _compared(bench: Bench, topic: str, *, stuck: bool) -> dict[str, float]:
    """Rounds alone, on topics of their own, and rounds on the topic with the neighbour."""
    alone, beside = [], []
    before = after = 0.0
    for _ in range(bench.settings.repeat + 1):
        alone.append(_round(bench, bench.name("alone")))
        before = max(before, bench.server.rss_mb() or 0.0)
        if stuck:
            with _stuck(bench, topic):
                beside.append(_round(bench, topic))
                after = max(after, bench.server.rss_mb() or 0.0)
        else:
            beside.append(_round(bench, topic))
    found = {
        "slower_pct": 100 * (1 - _median(beside, "rate") / _median(alone, "rate")),
        "cpu_more_pct": 100 * (_median(beside, "cpu") / _median(alone, "cpu") - 1),
    }
    if stuck:
        found["memory_mb"] = after - before
    return found


def _median(rounds: Sequence[dict[str, float]], what: str) -> float:
    return statistics.median(one[what] for one in rounds)


def _round(bench: Bench, topic: str) -> dict[str, float]:
    """A publisher and a consumer of a subscription of their own, as fast as they go."""
    subscription, count = bench.name("live"), bench.settings.count(LIVE)
    bench.subscribe([subscription], topic)
    drain = bench.spec("drain", topic, count, subscriptions=(subscription,), owed=count)
    outcomes, cpu = bench.measured(drain, bench.spec("publish", topic, count))
    seconds = outcomes[0].ended - outcomes[1].started
    bench.unsubscribe([subscription], topic)
    return {"rate": count / seconds, "cpu": cpu.total / count if cpu else 0.0}


@contextmanager
def _stuck(bench: Bench, topic: str) -> Iterator[None]:
    """A durable subscriber that gives credit and neither reads nor settles."""
    name = bench.name("stuck")
    peer = Peer(bench.server.endpoint)
    try:
        peer.attach_without_blocking(frames.shared_durable(name, topic))
        peer.socket.sendall(frames.flow(0, STUCK_CREDIT))
        yield
    finally:
        peer.socket.close()
        bench.unsubscribe([name], topic)
