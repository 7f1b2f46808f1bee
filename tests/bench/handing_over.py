"""A log changes hands under load: for how long nothing is accepted.

An owner is told to end, or killed, while a standby waits. One publisher is connected to the owner
and knows the standby's address, another is at a third gateway that relays to the log's owner. Each
sends one message at a time. A pause is from the last accept before to the first one after.
"""

import asyncio
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from distributary.client import connect
from distributary.ingest.commit.table_location import new_lake
from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.lake.placement import Placement, Rule
from tests.bench.bench import Bench, Measurement
from tests.bench.diskless import HOME, slow_store
from tests.bench.peer import Endpoint, LoadError
from tests.bench.server import (
    Server,
    free_port,
    fresh_home,
    gateway,
    start,
    stop,
    wait_listening,
)

HAND_OVERS: Final = 20
#: Messages of 1 KiB that the log has before, all of them owed.
MESSAGES: Final = 100_000
#: Seconds that anything may take, and that pass at least before an owner ends.
PATIENCE: Final = 60.0
SERVES: Final = (0.5, 1.5)
PLACEMENT: Final = Placement(1, ("main", "owned"), (Rule("#", ("owned",)),))
TOPIC: Final = "handed"


@dataclass(slots=True)
class Publisher:
    """Sends one message after another, and knows when each was accepted."""

    accepted: list[float] = field(default_factory=list)

    async def run(self, *ports: int) -> None:
        first, *others = [f"amqp://127.0.0.1:{port}" for port in ports]
        async with connect(first, *others) as client:
            while True:
                await client.publish(TOPIC, b"x" * 1_000)
                self.accepted.append(time.monotonic())

    @property
    def last(self) -> float:
        return self.accepted[-1]

    def pause_ms(self, since: float) -> float:
        """The longest time without an accept since then, and one second before."""
        times = [one for one in self.accepted if one > since - 1]
        return 1_000 * max(later - one for one, later in pairwise(times))


@dataclass(slots=True)
class Owner:
    """A gateway of the log, or a standby, and what it says."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def said(self, word: str) -> bool:
        return word in self.log.read_text()


def handing_over(bench: Bench) -> Measurement:
    """Twenty hand-overs in a row by SIGTERM, twenty take-overs after kill -9, of a lake on a disk
    and of one on a store that takes 20 ms for an answer."""
    measurement = Measurement()
    for word, how in (("handed_over", signal.SIGTERM), ("killed", signal.SIGKILL)):
        for place, lake in (("disk", _on_a_disk), ("store", _on_a_store)):
            with lake(bench) as home:
                found = asyncio.run(_pauses(bench, home, how))
            for client, pauses in found.items():
                measurement.facts[f"{place}_{word}_{client}_p50_ms"] = median(pauses)
                measurement.facts[f"{place}_{word}_{client}_most_ms"] = max(pauses)
    return measurement


@contextmanager
def _on_a_disk(bench: Bench) -> Iterator[Path]:
    with fresh_home(bench.folder) as home:
        new_lake(str(home), load(None)).replace(None, PLACEMENT)
        yield home


@contextmanager
def _on_a_store(bench: Bench) -> Iterator[Path]:
    """The folder has what the gateways say."""
    serve = bench.serve
    with fresh_home(bench.folder) as home, slow_store():
        new_lake(HOME, load(None)).replace(None, PLACEMENT)
        bench.serve = serve.replace("{home}", HOME)
        try:
            yield home
        finally:
            bench.serve = serve


async def _pauses(bench: Bench, home: Path, how: signal.Signals) -> dict[str, list[float]]:
    draw = random.Random(7)
    direct, relayed = Publisher(), Publisher()
    pauses: dict[str, list[float]] = {"direct": [], "relayed": []}
    ports = free_port(), free_port()
    with gateway(f"{bench.serve} --log main", home) as third:
        owner = _start(bench, home, ports[0], 0)
        wait_listening(owner.process, owner.port, owner.log)
        _fill(bench, owner)
        async with _running(direct.run(*ports), relayed.run(third.endpoint.port)) as tasks:
            for number in range(1, HAND_OVERS + 1):
                standby = _start(bench, home, ports[number % 2], number)
                await _until(lambda one=standby: one.said("standby.waiting"), "a standby")
                await asyncio.sleep(draw.uniform(*SERVES))
                before = time.monotonic()
                owner.process.send_signal(how)
                await _until(lambda one=standby: one.said("listening"), "it serves")
                served = time.monotonic()
                await _until(lambda at=served: min(direct.last, relayed.last) > at, "accepts")
                pauses["direct"].append(direct.pause_ms(before))
                pauses["relayed"].append(relayed.pause_ms(before))
                for task in tasks:
                    if task.done():
                        task.result()
                owner.process.wait()
                owner = standby
        stop(owner.process)
    return pauses


@asynccontextmanager
async def _running(
    *work: Coroutine[None, None, None],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise LoadError(f"waited {PATIENCE:.0f} s in vain: {what}")
        await asyncio.sleep(0.005)


def _start(bench: Bench, home: Path, port: int, number: int) -> Owner:
    """The first owner, or a standby."""
    log = bench.folder / f"hand-over-{number}.log"
    words = "--standby" if number else ""
    process = start(f"{bench.serve} --json --log owned {words}", home, port, log=log)
    return Owner(process, port, log)


def _fill(bench: Bench, owner: Owner) -> None:
    with bench.using(Server(Endpoint("127.0.0.1", owner.port), owner.process.pid)):
        bench.subscribe(["kept"], TOPIC)
        bench.load(bench.spec("publish", TOPIC, bench.settings.count(MESSAGES)))
