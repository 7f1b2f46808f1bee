"""Parts of the cases: a server, numbers to scale with, and loads that are run on it."""

import itertools
import json
import os
import selectors
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench import frames
from tests.bench.load import Outcome, Spec
from tests.bench.peer import LoadError, Peer
from tests.bench.server import Cpu, Server, fresh_home, gateway

#: How long a load may take to connect and to lay out its frames, in seconds.
READY_SECONDS_MAX = 90.0
#: Beyond its own limit a load gets this long to say what went wrong, in seconds.
GRACE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is done. `scale` multiplies the numbers of messages: 1 is the real thing."""

    repeat: int = 3
    scale: float = 1.0
    prefix: str = "bench."
    ranges: bool = False
    random_data: bool = False

    def count(self, full: int) -> int:
        return max(100, round(full * self.scale))


@dataclass(slots=True)
class Measurement:
    """Results of one or more runs of a case; the CPU time is divided by `messages`.

    `facts` are figures of this case alone, each by a name that ends in its unit.
    """

    rates: list[float] = field(default_factory=list)
    messages: int = 0
    cpu: Cpu | None = None
    client_cpu_seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    stall_ms: float | None = None
    rss_mb: float | None = None
    facts: dict[str, float] = field(default_factory=dict)

    def add(self, outcomes: Sequence[Outcome], cpu: Cpu | None, *, counted: Outcome) -> None:
        """One more run. Its messages are those of the outcome `counted`, the last one's work;
        it lasts from the first start to that one's end."""
        seconds = counted.ended - min(outcome.started for outcome in outcomes)
        self.rates.append(counted.count / seconds)
        self.messages += counted.count
        self.client_cpu_seconds += sum(outcome.cpu_seconds for outcome in outcomes)
        if cpu is not None:
            self.cpu = cpu if self.cpu is None else self.cpu.plus(cpu)
        for outcome in outcomes:
            self.latencies_ms += outcome.latencies_ms
            if outcome.gap_ms_max is not None:
                self.stall_ms = max(self.stall_ms or 0.0, outcome.gap_ms_max)


class Bench:
    """One server, ready to be loaded. Every name it gives out is new.

    A case that starts its own gateways has none until it does: `serve` is their command line,
    `folder` where homes are made.
    """

    def __init__(self, server: Server | None, settings: Settings, serve: str, folder: Path) -> None:
        self._server, self.settings = server, settings
        self.serve, self.folder = serve, folder
        self._names = itertools.count(1)
        self._run = uuid.uuid4().hex[:6]

    @property
    def server(self) -> Server:
        if self._server is None:
            raise LoadError("this case needs a gateway that it can start itself, without --host")
        return self._server

    @contextmanager
    def gateway(self, home: Path, settings: Mapping[str, object] = {}) -> Iterator[Server]:
        """A gateway of this case's own on the home; it is the bench's server meanwhile."""
        with gateway(self.serve, home, settings) as server:
            self._server = server
            try:
                yield server
            finally:
                self._server = None

    @contextmanager
    def using(self, server: Server) -> Iterator[None]:
        """This one is the bench's server meanwhile."""
        before, self._server = self._server, server
        try:
            yield
        finally:
            self._server = before

    @contextmanager
    def fresh(self, settings: Mapping[str, object] = {}) -> Iterator[Server]:
        """As `gateway`, on a new home that is wiped at the end."""
        with fresh_home(self.folder) as home, self.gateway(home, settings) as server:
            yield server

    def name(self, what: str) -> str:
        return f"{self.settings.prefix}{what}.{self._run}.{next(self._names)}"

    def spec(self, kind: str, topic: str, count: int, **more: object) -> Spec:
        base = {
            "kind": kind,
            "topic": topic,
            "count": count,
            "random_data": self.settings.random_data,
            "ranges": self.settings.ranges,
            **asdict(self.server.endpoint),
        }
        return Spec(**(base | more))

    def subscribe(self, subscriptions: Sequence[str], topic: str) -> None:
        """Make durable subscriptions without consumers: from now on they are owed messages."""
        for subscription in subscriptions:
            peer = Peer(self.server.endpoint)
            peer.attach(frames.shared_durable(subscription, topic))
            peer.detach(closed=False)
            peer.close()

    def unsubscribe(self, subscriptions: Sequence[str], topic: str) -> None:
        """End them, so that a run leaves nothing to the next one."""
        for subscription in subscriptions:
            peer = Peer(self.server.endpoint)
            peer.attach(frames.shared_durable(subscription, topic))
            trouble = peer.detach(closed=True)
            peer.close()
            if trouble:
                raise LoadError(f"can't unsubscribe {subscription}: {trouble}")

    def load(self, *specs: Spec, meanwhile: Callable[[], None] = lambda: None) -> list[Outcome]:
        """Run clients at the same time, started in that order once all are ready; something else
        is begun right before them."""
        with _ready(specs) as running:
            meanwhile()
            return _finish(running, specs)

    def measured(self, *specs: Spec) -> tuple[list[Outcome], Cpu | None]:
        """As `load`, with the CPU that the server spends until it is quiet again."""
        with _ready(specs) as running:
            self.server.wait_quiet()
            before = self.server.cpu()
            outcomes = _finish(running, specs)
        self.server.wait_quiet()
        used = self.server.cpu().since(before)
        return outcomes, None if self.server.pid is None else used


@contextmanager
def _ready(specs: Sequence[Spec]) -> Iterator[list[subprocess.Popen[str]]]:
    """The clients of the specs, connected and waiting for the word; none outlives the block."""
    running = [_start(spec) for spec in specs]
    try:
        for process in running:
            _wait_ready(process)
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


def _finish(running: Sequence[subprocess.Popen[str]], specs: Sequence[Spec]) -> list[Outcome]:
    for process in running:
        _say_go(process)
    return [_result(process, spec) for process, spec in zip(running, specs, strict=True)]


def _start(spec: Spec) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.load", json.dumps(asdict(spec))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def _wait_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(READY_SECONDS_MAX):
            raise LoadError(f"a load client wasn't ready within {READY_SECONDS_MAX:.0f} s")
    if process.stdout.readline() != "ready\n":
        raise LoadError(_complaint(process))


def _say_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _result(process: subprocess.Popen[str], spec: Spec) -> Outcome:
    try:
        output, complaint = process.communicate(timeout=spec.seconds_max + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        raise LoadError(f"the {spec.kind} client hangs") from None
    if process.returncode != 0:
        raise LoadError(f"{spec.kind}: {complaint.strip()[-600:]}")
    return Outcome(**json.loads(output))


def _complaint(process: subprocess.Popen[str]) -> str:
    _, complaint = process.communicate(timeout=GRACE_SECONDS)
    return complaint.strip()[-600:] or "a load client ended without a word"
