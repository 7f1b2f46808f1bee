"""Throughput of two gateways on half a core each, against one: each has a log of its own in one
lake, and publishes to and drains a durable subscription. In turns, as the machine isn't alike all
the time.

Linux gives each gateway, with its children, half a core by a control group of its own. That needs
root; without it the case says so.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import LoadError
from tests.bench.server import Server, fresh_home, gateway

MESSAGES: Final = 300_000
#: How often one and two are measured.
TURNS: Final = 3
LOGS: Final = ("main", "second")
PLACEMENT: Final = Placement(1, LOGS, tuple(Rule(f"{log}.#", (log,)) for log in LOGS))
#: Microseconds of the period of which a process has a share.
PERIOD_US: Final = 100_000
#: Where groups are made: of version 1 and 2.
GROUPS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))


def halves(bench: Bench) -> Measurement:
    """Messages a second of one gateway and of both, published and drained."""
    measurement = Measurement()
    rates: dict[str, list[float]] = {}
    with _lake(bench) as servers:
        for turn in range(TURNS + 1):
            for name, some in (("one", servers[:1]), ("two", servers)):
                for what, rate in _round(bench, some):
                    if turn:  # the first one is cold
                        rates.setdefault(f"{name}_{what}", []).append(rate)
    measurement.facts |= {name: max(all_of_it) for name, all_of_it in rates.items()}
    for what in ("publish", "drain"):
        one, two = measurement.facts[f"one_{what}"], measurement.facts[f"two_{what}"]
        measurement.facts[f"{what}_ratio"] = two / one
        #: What a budget can say: at most so much of a gateway is lost to the other one.
        measurement.facts[f"{what}_lost_pct"] = 100 * (1 - two / one / len(servers))
    return measurement


def _round(bench: Bench, servers: Sequence[Server]) -> Iterator[tuple[str, float]]:
    """Messages a second that these gateways carry together."""
    count = bench.settings.count(MESSAGES)
    publish, drain, made = [], [], []
    for log, server in zip(LOGS, servers, strict=False):
        topic, subscription = f"{log}.{bench.name('halves')}", bench.name("kept")
        with bench.using(server):
            bench.subscribe([subscription], topic)
            publish.append(bench.spec("publish", topic, count))
            owed = {"subscriptions": (subscription,), "owed": count}
            drain.append(bench.spec("drain", topic, count, **owed))
        made.append((server, subscription, topic))
    for what, specs in (("publish", publish), ("drain", drain)):
        for server in servers:
            server.wait_quiet()
        outcomes = bench.load(*specs)
        ended = max(outcome.ended for outcome in outcomes)
        seconds = ended - min(outcome.started for outcome in outcomes)
        yield what, count * len(servers) / seconds
    for server, subscription, topic in made:
        with bench.using(server):
            bench.unsubscribe([subscription], topic)


@contextmanager
def _lake(bench: Bench) -> Iterator[list[Server]]:
    """A gateway for each log, on half a core each."""
    with fresh_home(bench.folder) as home, ExitStack() as stack:
        DiskLake(home).replace(None, PLACEMENT)
        servers = [stack.enter_context(gateway(f"{bench.serve} --log {log}", home)) for log in LOGS]
        for server in servers:
            stack.enter_context(share_of_a_core(0.5, server.pid))
        yield servers


@contextmanager
def share_of_a_core(share: float, *pids: int) -> Iterator[None]:
    """A control group for these processes and those that they start from now on."""
    root = next((root for root in GROUPS if (root / "cgroup.procs").exists()), GROUPS[0])
    group, quota_us = root / f"distributary-bench-{pids[0]}", round(share * PERIOD_US)
    try:
        group.mkdir()
        if (quota := group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            quota.write_text(str(quota_us))
        else:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise LoadError(f"{share} of a core can't be given: {error}; run it as root") from error
    try:
        yield
    finally:
        for one in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                (root / "cgroup.procs").write_text(one)
        group.rmdir()
