"""A Spark query that drains a backlog into a Delta table: messages a second, and what the gateway
spends on one."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from distributary.jobs.session.session import session
from distributary.jobs.subscription import drain
from tests.bench.bench import Bench, Measurement
from tests.bench.server import Cpu, fresh_home

#: Messages of the measured run, and of one before it that warms Spark up.
COUNT: Final = 300_000
WARM: Final = 20_000
DATA_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class _Run:
    """Seconds from the start of the query to its end, those of its batches, the gateway's CPU."""

    seconds: float
    batches: float
    cpu: Cpu


def subscriber(bench: Bench) -> Measurement:
    """Decoded, and as bytes. The rate is that from the query's start to its end, with the start of
    its Python processes; `batches_per_s` counts what its batches took alone."""
    measurement = Measurement()
    with fresh_home(bench.folder) as lake, bench.fresh():
        spark = session({"spark.master": "local[2]"})
        _drained(bench, spark, lake / "warm", bench.settings.count(WARM), raw=False)
        count = bench.settings.count(COUNT)
        for what in ("decoded", "raw"):
            run = _drained(bench, spark, lake / what, count, raw=what == "raw")
            measurement.facts[f"{what}_per_s"] = count / run.seconds
            measurement.facts[f"{what}_batches_per_s"] = count / run.batches
            measurement.facts[f"{what}_gateway_us"] = run.cpu.total / count * 1e6
            if what == "decoded":
                measurement.rates.append(count / run.seconds)
                measurement.messages, measurement.cpu = count, run.cpu
        measurement.rss_mb = bench.server.rss_mb()
        spark.stop()
    return measurement


def _drained(bench: Bench, spark: SparkSession, folder: Path, count: int, *, raw: bool) -> _Run:
    topic, subscription = bench.name("drain"), bench.name("lake")
    bench.subscribe([subscription], topic)
    bench.load(bench.spec("publish", topic, count, data_bytes=DATA_BYTES))
    bench.server.wait_quiet()
    endpoint = bench.server.endpoint
    options = {
        "gateway": f"{endpoint.host}:{endpoint.port}",
        "subscription": f"global/{subscription}",
        "raw": json.dumps(raw),
    }
    settings = drain.Settings(options, str(folder / "table"), str(folder / "checkpoint"))
    before, began = bench.server.cpu(), time.monotonic()
    query = drain.build(spark, settings)
    query.awaitTermination()
    seconds = time.monotonic() - began
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    assert sum(one["numInputRows"] for one in progress) == count, progress
    bench.server.wait_quiet()
    batches = sum(one["batchDuration"] for one in progress) / 1e3
    return _Run(seconds, batches, bench.server.cpu().since(before))
