"""How much two executors of Spark bring into the tables of a lake against one: two logs, done side
by side by one job, whose executors have half a core each. The driver, which plans and commits, has
one.

Linux gives each executor, with its Python workers, its half by a control group of its own. That
needs root; without it the case says so.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from distributary.jobs.materialize import materialize
from distributary.jobs.session.session import delta_jars
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from tests.bench.bench import Bench, Measurement
from tests.bench.halves import share_of_a_core
from tests.bench.materializing import VERSION, Feed, cpu_of, told
from tests.bench.peer import LoadError
from tests.bench.server import fresh_home

LOGS: Final = ("main", "second")
#: Messages of each log that are measured, after as many again that warm Java up.
MESSAGES: Final = 200_000
#: Both logs are looked at together, so often. What is measured is written before and appears in a
#: moment, by the entries of the logs.
PAUSE_SECONDS: Final = 15
HIDDEN: Final = ".later"
#: What a process of an executor is called.
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
START_SECONDS_MAX: Final = 240


def executors(bench: Bench) -> Measurement:
    """Messages a second of both logs by one executor and by two; CPU by the message."""
    measurement = Measurement()
    for name, count in (("one", 1), ("two", 2)):
        rate, cpu_us = _run(bench, count)
        measurement.facts |= {f"{name}_rate": rate, f"{name}_cpu_us": cpu_us}
    one, two = measurement.facts["one_rate"], measurement.facts["two_rate"]
    measurement.rates.append(two)
    measurement.facts["ratio"] = two / one
    #: What a budget can say: at most so much of an executor is lost to the other one.
    measurement.facts["lost_pct"] = 100 * (1 - two / one / 2)
    return measurement


def _run(bench: Bench, executors: int) -> tuple[float, float]:
    """Messages a second, and microseconds of CPU for each, the driver's among them."""
    count = bench.settings.count(MESSAGES) // VERSION * VERSION
    with fresh_home(bench.folder) as root, ExitStack() as stack:
        DiskLake(root).replace(None, Placement(1, LOGS))
        feeds = [Feed(root), Feed(root / "logs" / LOGS[1])]
        _feed(feeds, count)
        warm = set(_entries(root))
        _feed(feeds, count)
        later = sorted(set(_entries(root)) - warm)
        for path in later:
            path.rename(path.with_suffix(HIDDEN))
        process = stack.enter_context(_job(root, executors))
        ours, others = _processes(process, executors)
        for pid in ours:
            stack.enter_context(share_of_a_core(0.5, pid))
        stack.enter_context(share_of_a_core(1.0, *others))
        for _ in feeds:
            told(process)
        for path in later:
            path.with_suffix(HIDDEN).rename(path)
        cpu = cpu_of(process.pid)
        done, seconds = 0, list[float]()
        while done < count * len(feeds):
            batch = told(process)
            done += batch["messages"]
            seconds.append(batch["seconds"])
        if len(seconds) != len(feeds):
            raise LoadError("the logs weren't done in one batch each: what they took can't be told")
        cpu = cpu_of(process.pid) - cpu
    # Triggers of one interval are at the same moments, so both began together.
    return done / max(seconds), 1e6 * cpu / done


def _entries(root: Path) -> list[Path]:
    return [*root.glob("**/topic_log/_delta_log/*.json")]


def _feed(feeds: list[Feed], count: int) -> None:
    for _ in range(0, count, VERSION):
        for feed in feeds:
            feed.commit(VERSION)


@contextmanager
def _job(root: Path, executors: int) -> Iterator["subprocess.Popen[str]"]:
    """The job on a cluster of this machine, whose executors are processes with a core each."""
    spark = Path(pyspark.__file__).parent
    python = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    command = [
        *(
            spark / "bin" / "spark-submit",
            "--master",
            f"local-cluster[{executors},1,1024]",
            "--executor-memory",
            "900m",
        ),
        *("--driver-memory", "2g", "--jars", ",".join(map(str, delta_jars()))),
        *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
        *("--conf", "spark.locality.wait=0s"),
        *(materialize.__file__, "--home", root, "--json", "--trigger", f"{PAUSE_SECONDS} seconds"),
    ]
    with (root.parent / "job.log").open("w") as errors:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | python | {"SPARK_HOME": str(spark)},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _processes(process: "subprocess.Popen[str]", count: int) -> tuple[list[int], list[int]]:
    """The executors, when all are there, and the job's other processes; no task has run then."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while len(found := _named(process.pid)[0]) < count:
        if process.poll() is not None or time.monotonic() > deadline:
            raise LoadError("no executors came: see job.log in the folder of the homes")
        time.sleep(0.05)
    return found, _named(process.pid)[1]


def _named(session: int) -> tuple[list[int], list[int]]:
    ours, others = list[int](), list[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rpartition(")")[2].split()
            said = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(stat[3]) == session:
            (ours if EXECUTOR in said else others).append(int(path.name))
    return ours, others
