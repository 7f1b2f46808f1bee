"""The Python client: what a message costs it, and how many a second go through with a gateway
beside it."""

import json
import subprocess
import sys

from tests.bench.bench import Bench, Measurement
from tests.bench.peer import LoadError

COUNT = 50_000
SECONDS_MAX = 120


def python_client(bench: Bench) -> Measurement:
    """`..._us` is the CPU that one message of 1 KiB costs the client's process, all in all: what
    one core of it carries is the inverse. `..._per_s` is what came about here, where the gateway
    shares the machine."""
    measurement = Measurement()
    with bench.fresh() as server:
        count = bench.settings.count(COUNT)
        topic = bench.name("client")
        command = [sys.executable, "-m", "tests.bench.client_load", str(server.endpoint.port)]
        done = subprocess.run(
            [*command, topic, str(count)],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise LoadError(done.stderr.strip()[-600:])
        for part, (seconds, cpu) in json.loads(done.stdout).items():
            messages = 2 * count if part == "consumed" else count
            measurement.facts[f"{part}_per_s"] = messages / seconds
            measurement.facts[f"{part}_us"] = cpu / messages * 1e6
        measurement.rates.append(measurement.facts["consumed_per_s"])
        measurement.rss_mb = server.rss_mb()
    return measurement
