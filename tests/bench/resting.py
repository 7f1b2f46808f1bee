"""Cost of a gateway without work: its start on an empty home, and rest."""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distributary.pipeline.tables.home.home import Home
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import Endpoint
from tests.bench.restarts import Begun, connected
from tests.bench.server import Server, free_port, fresh_home, start, stop

#: How long a gateway at rest is looked at, in seconds: it does nothing that comes more seldom.
REST_SECONDS: Final = 30.0
#: Prints the CPU seconds and the resident memory (kB) that the gateway's imports take.
IMPORTS: Final = """
import re, time
from distributary.ingest.runtime import memory
memory.set_up()
import distributary.ingest.gateway.serve
print(time.process_time(), re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def starting(bench: Bench) -> Measurement:
    """From the start of the process until it has opened an AMQP connection: on an empty folder, and
    once more on the home that came of it."""
    measurement, first, again = Measurement(), [], []
    for _ in range(bench.settings.repeat):
        with fresh_home(bench.folder) as home:
            first.append(_begun(bench, home))
            assert Home(home).topic_log.is_dir(), "the home is another folder"
            again.append(_begun(bench, home))
    cpu, resident = _imports()
    measurement.facts = {
        "start_s": _median([one.seconds for one in first]),
        "again_s": _median([one.seconds for one in again]),
        "cpu_s": _median([one.cpu_seconds for one in first]),
        "imports_cpu_s": cpu,
        "imports_rss_mb": resident,
    }
    measurement.rss_mb = max(one.rss_mb for one in first)
    return measurement


def _begun(bench: Bench, home: Path) -> Begun:
    port, began = free_port(), time.perf_counter()
    process = start(bench.serve, home, port)
    try:
        peer = connected(process, port)
        took = time.perf_counter() - began
        server = Server(Endpoint("127.0.0.1", port), process.pid)
        begun = Begun(took, server.cpu().total, server.rss_mb() or 0.0)
        peer.close()
        return begun
    finally:
        stop(process)


def _imports() -> tuple[float, float]:
    """CPU seconds and MB of the imports alone, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    cpu, kilobytes = done.stdout.split()
    return float(cpu), int(kilobytes) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class _Used:
    """The use of all threads of a process: CPU seconds, and how often they were woken."""

    cpu_seconds: float
    wakes: int
    threads: int


def resting(bench: Bench) -> Measurement:
    """A gateway without connections, on an empty home."""
    measurement = Measurement()
    with bench.fresh() as server:
        server.wait_quiet()
        assert server.pid is not None
        before, began = _used(server.pid), time.perf_counter()
        time.sleep(REST_SECONDS)
        after, seconds = _used(server.pid), time.perf_counter() - began
        measurement.rss_mb = server.rss_mb()
        measurement.facts = {
            "core_pct": (after.cpu_seconds - before.cpu_seconds) / seconds * 100,
            "wakes_per_s": (after.wakes - before.wakes) / seconds,
            "threads": after.threads,
            "own_mb": _own_mb(server.pid),
        }
    return measurement


def _used(pid: int) -> _Used:
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    nanoseconds = sum(int((one / "schedstat").read_text().split()[0]) for one in tasks)
    wakes = sum(_number(one / "status", "voluntary_ctxt_switches") for one in tasks)
    return _Used(nanoseconds / 1e9, wakes, len(tasks))


def _own_mb(pid: int) -> float:
    """Memory that is this process's alone. The rest of what is resident are pages of libraries'
    files: all processes share them, and the system takes them when it needs room."""
    return _number(Path(f"/proc/{pid}/status"), "RssAnon") * 1024 / 1e6


def _number(path: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", path.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
