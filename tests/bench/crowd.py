"""Ten thousand durable subscriptions that are attached to one topic, and one publisher.

Each message goes to all of them; the publisher waits for its accept. `stall ms` is the longest that
it waited. A standby waits beside the gateway all the while, and must not take over. Memory is RSS
for each connection that does nothing, for each subscription that is attached and for each that is
not.
"""

import contextlib
import selectors
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_fields import make
from gateway_frames import Raw, frame_of
from gateway_jms import consumer, producer, source, text_message

from tests.bench.attack_frames import flow, opening, transfer
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import LoadError
from tests.bench.server import START_SECONDS_MAX, Server, free_port, fresh_home, start, stop

CONNECTIONS: Final = 10
LINKS: Final = 1_000
IDLE_CONNECTIONS: Final = 2_000
MESSAGES: Final = 20
#: Seconds between two messages: each takes a fifth of a second to be delivered to all.
APART_SECONDS: Final = 0.5
#: What stands once in each message, and nowhere else.
MARK: Final = b"@crowd@"
#: Seconds that a step may take before the crowd is given up.
PATIENCE_SECONDS: Final = 300.0


def crowd(bench: Bench) -> Measurement:
    """The case."""
    measurement = Measurement()
    with (
        fresh_home(bench.folder) as home,
        bench.gateway(home, {"AMQP_IDLE_TIMEOUT_MS": 1_000 * round(PATIENCE_SECONDS)}) as server,
        _standby(bench, home) as log,
    ):
        _measure(bench, server, measurement)
        if "took_over" in log.read_text():
            raise LoadError("the standby took over")
    return measurement


def _measure(bench: Bench, server: Server, measurement: Measurement) -> None:
    links = bench.settings.count(LINKS)
    facts, port = measurement.facts, server.endpoint.port
    with contextlib.ExitStack() as stack:
        before = _settled_kib(server)
        idle = [stack.enter_context(_opened(port, f"i{n}")) for n in range(IDLE_CONNECTIONS)]
        facts["connection_kib"] = (_settled_kib(server) - before) / len(idle)
    before = _settled_kib(server)
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(_opened(port, f"c{n}")) for n in range(CONNECTIONS)]
        for member in members:
            _attach(member, links)
        facts["attached_kib"] = (_settled_kib(server) - before) / (links * len(members))
        cpu = server.cpu().total
        _publish(port, members, links, measurement)
        deliveries = MESSAGES * links * len(members)
        facts["delivery_us"] = (server.cpu().total - cpu) / deliveries * 1e6
    facts["idle_kib"] = (_settled_kib(server) - before) / (links * CONNECTIONS)
    measurement.rss_mb = server.rss_mb()


def _settled_kib(server: Server) -> float:
    server.wait_quiet()
    return (server.rss_mb() or 0.0) * 1e6 / 1024


def _opened(port: int, container: str) -> Raw:
    raw = Raw(port)
    raw.socket.settimeout(PATIENCE_SECONDS)
    raw.send(opening(container))
    raw.expect("open", "begin")
    return raw


def _attach(raw: Raw, links: int) -> None:
    for handle in range(links):
        of = source("crowd", durable=True)
        raw.send(consumer(f"s{handle}", of, handle=handle), flow(100, handle=handle))
    left = links
    while left:
        left -= raw.read().kind == "attach"


def _publish(port: int, members: list[Raw], links: int, measurement: Measurement) -> None:
    """A message now and then, while a thread takes and settles what comes."""
    came = [0] * len(members)
    owed = MESSAGES * links
    taker = threading.Thread(target=_take, args=(members, came, owed), daemon=True)
    taker.start()
    with _opened(port, "publisher") as raw:
        raw.send(producer("crowd"))
        raw.expect("attach", "flow")
        message = text_message(MARK.decode(), "crowd")
        for number in range(MESSAGES):
            began = time.perf_counter()
            raw.send(transfer(number, message))
            while raw.read().kind != "disposition":
                pass
            measurement.latencies_ms.append((time.perf_counter() - began) * 1e3)
            time.sleep(APART_SECONDS)
    taker.join(PATIENCE_SECONDS)
    if came != [owed] * len(members):
        raise LoadError(f"{came} of {owed} deliveries came to each connection")
    measurement.stall_ms = max(measurement.latencies_ms)


def _take(members: list[Raw], came: list[int], owed: int) -> None:
    with selectors.DefaultSelector() as chooser:
        tails = [b""] * len(members)
        for nth, member in enumerate(members):
            chooser.register(member.socket, selectors.EVENT_READ, nth)
        while min(came) < owed:
            for key, _ in chooser.select(PATIENCE_SECONDS):
                nth = key.data
                data = tails[nth] + members[nth].socket.recv(1 << 20)
                count, end = data.count(MARK), data.rfind(MARK) + len(MARK)
                tails[nth] = data[-len(MARK) + 1 :] if not count else data[end:][-len(MARK) + 1 :]
                if count:
                    members[nth].send(_settled(came[nth], came[nth] + count - 1))
                    came[nth] += count


def _settled(first: int, last: int) -> bytes:
    state = make("accepted")
    return frame_of("disposition", role=True, first=first, last=last, settled=True, state=state)


@contextlib.contextmanager
def _standby(bench: Bench, home: Path) -> Iterator[Path]:
    """One beside the gateway, that waits; and what it says."""
    log = bench.folder / "standby.log"
    process = start(f"{bench.serve} --standby", home, free_port(), log=log)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while "standby.waiting" not in log.read_text():
            if time.monotonic() > deadline:
                raise LoadError(f"no standby waits within {START_SECONDS_MAX:.0f} s")
            time.sleep(0.05)
        yield log
    finally:
        stop(process)
