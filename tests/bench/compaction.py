"""A publisher's latency while upkeep merges after every second commit, and while it does nothing.

The two take turns, so that a machine that gets slower gets slower for both. Commits come often, so
that there is much to merge.
"""

import sys
from typing import Final

from tests.bench.bench import Bench, Measurement
from tests.bench.server import fresh_home, gateway

#: Messages of a round and their rate.
MESSAGES: Final = 12_000
RATE: Final = 2_000.0
SETTINGS: Final = {"COMMIT_INTERVAL_MS": 200}
FAN_IN: Final = {"with_upkeep": 2, "without_upkeep": 1_000_000}


def compaction(bench: Bench) -> Measurement:
    """p99 of accepts with upkeep as a share of p99 without."""
    measurement, latencies = Measurement(), {name: [] for name in FAN_IN}
    for _ in range(bench.settings.repeat):
        for name, fan_in in FAN_IN.items():
            serve = f"{sys.executable} -m tests.bench.eager {fan_in} serve"
            serve += " --home {home} --listen 127.0.0.1:{port}"
            with fresh_home(bench.folder) as home, gateway(serve, home, SETTINGS) as server:
                own = Bench(server, bench.settings, serve, bench.folder)
                latencies[name] += _round(own, measurement)
    for name, values in latencies.items():
        values.sort()
        measurement.facts[f"p50_{name}_ms"] = values[len(values) // 2]
        measurement.facts[f"p99_{name}_ms"] = values[int(0.99 * len(values))]
    p99 = [measurement.facts[f"p99_{name}_ms"] for name in FAN_IN]
    measurement.facts["p99_ratio"] = p99[0] / p99[1]
    return measurement


def _round(bench: Bench, measurement: Measurement) -> list[float]:
    topic, subscription = bench.name("steady"), bench.name("kept")
    bench.subscribe([subscription], topic)
    bench.load(bench.spec("publish", topic, bench.settings.count(5_000)))
    spec = bench.spec("steady", topic, bench.settings.count(MESSAGES), rate=RATE)
    outcomes, cpu = bench.measured(spec)
    measurement.add(outcomes, cpu, counted=outcomes[0])
    return outcomes[0].latencies_ms
