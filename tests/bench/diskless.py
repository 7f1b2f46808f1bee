"""A gateway whose home is on a store that takes 20 ms for an answer, in a process beside it.

A store in the same machine takes its processors, too; what a put costs there is part of what is
measured.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from distributary.pipeline.tables.delta.object_store import ObjectStore
from tests.bench.bench import Bench, Measurement
from tests.bench.server import fresh_home

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from faulty_s3 import FaultyS3, Plan, faulty_s3

STORE_MS: Final = 20.0
#: Of the logarithm of an answer's time: one in a hundred takes 1.6 times as long.
SPREAD: Final = 0.2
HOME: Final = "s3://lake/home"
#: Puts of one KiB, one after the other, that say what a put takes there.
PROBES: Final = 200
#: A producer with more on its way than the default's credit has: a store is far away.
SETTINGS: Final[Mapping[str, object]] = {"AMQP_PRODUCER_CREDIT": 10_000}


def on_a_store(run: Callable[[Bench], Measurement]) -> Callable[[Bench], Measurement]:
    """The same case without a disk. Facts: what a put takes, and requests of each kind for a second
    of the run."""

    def measured(bench: Bench) -> Measurement:
        serve = bench.serve
        with fresh_home(bench.folder) as folder, slow_store() as s3:
            bench.serve = serve.replace("{home}", HOME)
            try:
                with bench.gateway(folder / "home", SETTINGS):
                    puts = sorted(_put_ms(s3))
                    before, began = s3.counts(), monotonic()
                    measurement = run(bench)
                    seconds, after = monotonic() - began, s3.counts()
            finally:
                bench.serve = serve
        for kind, count in after.items():
            name = kind.lower().replace(" ", "_")
            measurement.facts[f"{name}_per_s"] = (count - before.get(kind, 0)) / seconds
        measurement.facts["put_p50_ms"] = puts[len(puts) // 2]
        measurement.facts["put_p99_ms"] = puts[len(puts) * 99 // 100]
        return measurement

    return measured


def _put_ms(s3: FaultyS3) -> Iterator[float]:
    store = ObjectStore("s3://lake/probe", s3.options())
    for nth in range(PROBES):
        began = monotonic()
        store.create(str(nth), bytes(1024))
        yield (monotonic() - began) * 1_000


@contextmanager
def slow_store() -> Iterator[FaultyS3]:
    with faulty_s3() as s3:
        s3.plan(Plan(latency_ms=STORE_MS, spread=SPREAD))
        before = dict(os.environ)
        os.environ.update(s3.options())
        try:
            yield s3
        finally:
            os.environ.clear()
            os.environ.update(before)
