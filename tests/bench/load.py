"""A load client, a process of its own: `python -m tests.bench.load SPEC`, SPEC being JSON.

It connects, lays out its frames, says `ready`, waits for a line on its input, does its work and
prints one JSON object. What goes wrong is one sentence on its error output and exit code 1.
"""

import json
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.bench import frames
from tests.bench.flows import Receiver, Sender
from tests.bench.peer import Endpoint, LoadError


@dataclass(frozen=True, slots=True)
class Spec:
    """The work of one client.

    kind      publish | one-at-a-time | steady | drain | relay
    count     messages in all: published, or to be received over all connections
    owed      drain: the most that a single connection can get
    rate      steady and relay: messages per second
    selectors drain: of the subscriptions, in their order; none if there are none
    kinds     property `n` of published messages goes through so many numbers
    ttl_ms    of published messages; 0 is none
    ids       published messages have ids of their own; else all have the same
    traced    published messages have a traceparent, one in so many is sampled; 0: they have none
    body      what each message is; empty: `data_bytes` that mean nothing
    """

    kind: str
    host: str
    port: int
    topic: str
    count: int
    user: str | None = None
    password: str | None = None
    connections: int = 1
    subscriptions: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    kinds: int = 0
    ttl_ms: int = 0
    traced: int = 0
    ids: bool = False
    priorities: bool = False
    owed: int = 0
    rate: float = 0.0
    ranges: bool = False
    data_bytes: int = 1024
    body: str = ""
    random_data: bool = False
    seconds_max: float = 120.0

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port, self.user, self.password)


@dataclass(slots=True)
class Outcome:
    """Results of a client. Times are of the monotonic clock, in seconds; latencies in ms."""

    count: int = 0
    started: float = 0.0
    ended: float = 0.0
    cpu_seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    gap_ms_max: float | None = None  #: longest wait for the next accept while one was owed


#: How long the server may take to read the last settlements, in seconds.
FLUSH_SECONDS_MAX = 10.0
#: The open connections of a load, and the work that waits for the word.
Prepared: TypeAlias = tuple[Sequence[Sender | Receiver], Callable[[Outcome], None]]


class Loop:
    """Polls the flows until there is nothing more to do, with one deadline for all of it."""

    def __init__(self, flows: Sequence[Sender | Receiver], seconds_max: float) -> None:
        self._by_fd = {flow.peer.socket.fileno(): flow for flow in flows}
        self._wanted = dict.fromkeys(self._by_fd, 0)
        #: Senders may want to write because time has passed; receivers only after an event.
        self._paced = {fd for fd, flow in self._by_fd.items() if isinstance(flow, Sender)}
        self._changed = set(self._by_fd)
        self._poll = select.poll()
        self._deadline = time.monotonic() + seconds_max
        for fd in self._by_fd:
            self._poll.register(fd, 0)

    def turn(self, wait_ms: float) -> int:
        """Wait for events at most that long and serve them; how many messages that moved."""
        for fd in self._changed | self._paced:
            wants = self._by_fd[fd].wants
            if wants != self._wanted[fd]:
                self._wanted[fd] = wants
                self._poll.modify(fd, wants)
        moved, events = 0, self._wait(wait_ms)
        for fd, event in events:
            flow = self._by_fd[fd]
            if event & select.POLLOUT:
                flow.on_writable()
            if event & ~select.POLLOUT:
                moved += flow.on_readable()
        self._changed = {fd for fd, _ in events}
        if time.monotonic() > self._deadline:
            raise LoadError("out of time: " + "; ".join(map(str, self._by_fd.values())))
        return moved

    def _wait(self, wait_ms: float) -> list[tuple[int, int]]:
        """poll knows whole milliseconds only; a shorter wait is select's, which knows fractions."""
        if wait_ms >= 10:
            return self._poll.poll(wait_ms)
        writing = [fd for fd, wants in self._wanted.items() if wants & select.POLLOUT]
        select.select(list(self._by_fd), writing, [], wait_ms / 1000)
        return self._poll.poll(0)

    def run(self, count: int) -> None:
        """Turn until so many messages have moved."""
        moved = 0
        while moved < count:
            moved += self.turn(1000)


def _laid_out(spec: Spec, count: int) -> NDArray[np.uint8]:
    traced = spec.traced > 0
    data = spec.body.encode() or b"x" * spec.data_bytes
    payload = frames.message_of(data, spec.topic, spec.ttl_ms, traced=traced)
    noise = spec.data_bytes if spec.random_data else 0
    rows = frames.transfers(count, payload, random_bytes=noise)
    if spec.kinds:
        rows = frames.with_kinds(rows, spec.kinds)
    if spec.ids:
        rows = frames.with_ids(rows)
    if traced:
        rows = frames.with_traces(rows, spec.traced)
    return frames.with_priorities(rows) if spec.priorities else rows


def _publish(spec: Spec) -> Prepared:
    """All of it as fast as the credit allows, over `connections` connections."""
    rows = _laid_out(spec, spec.count // spec.connections)
    senders = [Sender(spec.endpoint, spec.topic, rows) for _ in range(spec.connections)]

    def work(outcome: Outcome) -> None:
        outcome.count = len(rows) * len(senders)
        Loop(senders, spec.seconds_max).run(outcome.count)

    return senders, work


def _one_at_a_time(spec: Spec) -> Prepared:
    """On each connection the next message goes when the one before it is accepted; each wait is a
    latency."""
    rows = _laid_out(spec, spec.count // spec.connections)
    senders = [Sender(spec.endpoint, spec.topic, rows) for _ in range(spec.connections)]
    for sender in senders:
        sender.due = 0

    def work(outcome: Outcome) -> None:
        loop, clock = Loop(senders, spec.seconds_max), time.perf_counter
        began = [0.0] * len(senders)
        unfinished = [*enumerate(senders)]
        while unfinished:
            for nth, sender in unfinished:
                if sender.accepted == sender.due:
                    if sender.due:
                        outcome.latencies_ms.append(1e3 * (clock() - began[nth]))
                    if sender.due < sender.count:
                        began[nth] = clock()
                        sender.due += 1
                        sender.on_writable()
            unfinished = [(nth, one) for nth, one in unfinished if one.accepted < one.count]
            if unfinished:
                loop.turn(1000)
        outcome.count = len(rows) * len(senders)

    return senders, work


class Pace:
    """How many messages are due by now at a steady rate, and since when each of them is.

    A message is stamped when the client sees that it is due, whether or not the server lets it go:
    waiting for credit counts as the server's time, the client's own timer does not.
    """

    def __init__(self, rate: float, count: int) -> None:
        self.rate, self.count = rate, count
        self.stamps: list[float] = []
        self._began = time.perf_counter()

    def due(self) -> int:
        now = time.perf_counter()
        total = min(self.count, 1 + int((now - self._began) * self.rate))
        self.stamps += [now] * (total - len(self.stamps))
        return total

    def wait_ms(self) -> float:
        """Until the next message is due; a second when there is none."""
        if len(self.stamps) >= self.count:
            return 1000.0
        due_at = self._began + len(self.stamps) / self.rate
        return max(0.0, 1e3 * (due_at - time.perf_counter()))


class Latencies:
    """How long each message took, in ms, told in order of the messages."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.values: list[float] = []

    def arrived(self, count: int) -> None:
        now, at = time.perf_counter(), len(self.values)
        self.values += [1e3 * (now - stamp) for stamp in self._pace.stamps[at : at + count]]


def _steady(spec: Spec) -> Prepared:
    """A steady rate on one connection: the latency of accepts, and the worst gap between them."""
    sender = Sender(spec.endpoint, spec.topic, _laid_out(spec, spec.count))
    sender.due = 0

    def work(outcome: Outcome) -> None:
        loop, pace = Loop([sender], spec.seconds_max), Pace(spec.rate, spec.count)
        latencies, last, gap = Latencies(pace), time.perf_counter(), 0.0
        while sender.accepted < spec.count:
            idle = sender.accepted == sender.due
            sender.due = pace.due()
            sender.on_writable()
            if idle:  # nothing was owed until now: waiting begins here
                last = time.perf_counter()
            moved = loop.turn(pace.wait_ms())
            if moved:
                now = time.perf_counter()
                gap, last = max(gap, now - last), now
                latencies.arrived(moved)
        outcome.count, outcome.gap_ms_max = spec.count, 1e3 * gap
        outcome.latencies_ms = latencies.values

    return [sender], work


def _relay(spec: Spec) -> Prepared:
    """A steady rate through the server and back: the latency from publish to receive."""
    sender = Sender(spec.endpoint, spec.topic, _laid_out(spec, spec.count))
    sender.due = 0
    receivers = _receivers(spec)

    def work(outcome: Outcome) -> None:
        for receiver in receivers:
            receiver.grant()
        loop, pace = Loop([sender, *receivers], spec.seconds_max), Pace(spec.rate, spec.count)
        latencies = Latencies(pace)
        while len(latencies.values) < spec.count or sender.accepted < spec.count:
            sender.due = pace.due()
            sender.on_writable()
            before = sum(receiver.received for receiver in receivers)
            loop.turn(pace.wait_ms())
            latencies.arrived(sum(receiver.received for receiver in receivers) - before)
        outcome.count = spec.count
        outcome.latencies_ms = latencies.values

    return [sender, *receivers], work


def _receivers(spec: Spec) -> list[Receiver]:
    """`connections` consumers, dealt out over the subscriptions in turn."""
    selectors = spec.selectors or ("",) * len(spec.subscriptions)
    claims = list(zip(spec.subscriptions, selectors, strict=True))
    return [
        Receiver(
            spec.endpoint,
            frames.shared_durable(name, spec.topic, selector),
            count_max=spec.owed or spec.count,
            ranges=spec.ranges,
        )
        for name, selector in islice(cycle(claims), spec.connections)
    ]


def _drain(spec: Spec) -> Prepared:
    """Take and settle `count` messages in all."""
    receivers = _receivers(spec)

    def work(outcome: Outcome) -> None:
        for receiver in receivers:
            receiver.grant()
        Loop(receivers, spec.seconds_max).run(spec.count)
        outcome.count = sum(receiver.received for receiver in receivers)

    return receivers, work


_KINDS: dict[str, Callable[[Spec], Prepared]] = {
    "publish": _publish,
    "one-at-a-time": _one_at_a_time,
    "steady": _steady,
    "relay": _relay,
    "drain": _drain,
}


def run(spec: Spec) -> Outcome:
    """Prepare, say so, wait for the word, work."""
    flows, work = _KINDS[spec.kind](spec)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    outcome, cpu = Outcome(started=time.monotonic()), time.process_time()
    work(outcome)
    outcome.ended, outcome.cpu_seconds = time.monotonic(), time.process_time() - cpu
    rest = Loop(flows, FLUSH_SECONDS_MAX)
    while any(flow.wants & select.POLLOUT for flow in flows):  # the last settlements
        rest.turn(100)
    for flow in flows:
        flow.peer.close()
    return outcome


def main(text: str) -> int:
    try:
        outcome = run(Spec(**json.loads(text)))
    except (LoadError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
