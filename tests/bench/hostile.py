"""Hostile peers beside a witness: the cost of each attack for a client that does nothing wrong.

The witness publishes 1,000 messages a second and consumes them, twice: by itself, then with the
attacker beside it. `stall ms` is the longest that one of its messages took under attack, `quiet_ms`
the same without. Of that longest time the gateway's loop was at work for `loop_ms`, and ready to be
with no core free for it for `no_core_ms`; the rest are the disk and the witness itself. RSS is the
gateway's highest.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.attacks import Attack
from tests.bench.bench import Bench, Measurement
from tests.bench.load import Outcome
from tests.bench.peer import LoadError
from tests.bench.server import Server

#: Messages a second of the witness, and for how long it goes on at least.
RATE: Final = 1_000
SECONDS: Final = 6
#: Seconds from the witness's beginning until the attack's: its own start is over.
LEAD_SECONDS: Final = 1.0
#: Seconds between two looks at what the loop's thread has used.
LOOK_SECONDS: Final = 0.004


def hostile(attack: Attack) -> Callable[[Bench], Measurement]:
    """The case of this attack, or of a large operation that a user may ask for."""

    def run(bench: Bench) -> Measurement:
        settings = dict(attack.settings)
        if attack.permissions:
            bench.folder.mkdir(parents=True, exist_ok=True)
            permissions = bench.folder / "permissions.toml"
            permissions.write_text(attack.permissions)
            settings["SECURITY_PERMISSIONS"] = permissions
        with bench.fresh(settings) as server:
            return _measured(bench, server, attack)

    return run


def _measured(bench: Bench, server: Server, attack: Attack) -> Measurement:
    measurement, port = Measurement(), server.endpoint.port
    held = attack.before(port) if attack.before else None
    _witnessed(bench, lambda: None)  # nothing is measured cold
    quiet = _witnessed(bench, lambda: None)
    server.wait_quiet()
    before, cpu = server.rss_mb() or 0.0, server.cpu().total
    _forget_peak(server)
    took: list[float] = []

    def attacks() -> None:
        began = time.monotonic()
        attack.run(port, held)
        took.append(time.monotonic() - began)

    with _watched(server) as seen:
        witness = _witnessed(bench, attacks)
    measurement.stall_ms = max(witness.latencies_ms)
    measurement.latencies_ms = witness.latencies_ms
    measurement.rss_mb = _peak_mb(server)
    measurement.facts = {
        "quiet_ms": max(quiet.latencies_ms),
        **_in_the_worst(witness, seen),
        "attack_s": took[0],
        "cpu_s": server.cpu().total - cpu,
        "before_mb": before,
        "grown_mb": measurement.rss_mb - before,
    }
    return measurement


def _witnessed(bench: Bench, meanwhile: Callable[[], None]) -> Outcome:
    """The witness's run; something else happens in the middle of it. Raises LoadError when the
    witness isn't served."""
    topic, name = bench.name("witness"), bench.name("sees")
    bench.subscribe([name], topic)
    count = RATE * SECONDS
    spec = bench.spec("relay", topic, count, rate=RATE, subscriptions=(name,), owed=count)
    troubles: list[BaseException] = []

    def attack() -> None:
        try:
            time.sleep(LEAD_SECONDS)
            meanwhile()
        except BaseException as error:  # noqa: BLE001 (told by the thread that waits)
            troubles.append(error)

    thread = threading.Thread(target=attack)
    [outcome] = bench.load(spec, meanwhile=thread.start)
    thread.join()
    if troubles:
        raise LoadError(f"the attack ended by itself: {troubles[0]!r}")
    bench.unsubscribe([name], topic)
    return outcome


@dataclass(frozen=True, slots=True)
class _Used:
    """Seconds that the loop's thread had used by then: of a core, and of waiting for one."""

    at: float
    core: float
    waited: float


@contextmanager
def _watched(server: Server) -> Iterator[list[_Used]]:
    """The use of the loop's thread meanwhile, look by look."""
    path = Path(f"/proc/{server.pid}/task/{server.pid}/schedstat")
    seen: list[_Used] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            core, waited, _ = map(int, path.read_text().split())
            seen.append(_Used(time.monotonic(), core / 1e9, waited / 1e9))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _in_the_worst(witness: Outcome, seen: Sequence[_Used]) -> dict[str, float]:
    """The loop's use while the message that took longest was under way."""
    worst = max(range(len(witness.latencies_ms)), key=witness.latencies_ms.__getitem__)
    begin = witness.started + worst / RATE
    end = begin + witness.latencies_ms[worst] / 1_000
    first = max((one for one in seen if one.at <= begin), key=lambda one: one.at, default=seen[0])
    last = min((one for one in seen if one.at >= end), key=lambda one: one.at, default=seen[-1])
    return {
        "loop_ms": 1_000 * (last.core - first.core),
        "no_core_ms": 1_000 * (last.waited - first.waited),
    }


def _forget_peak(server: Server) -> None:
    """From now on the highest RSS counts anew."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")


def _peak_mb(server: Server) -> float:
    text = Path(f"/proc/{server.pid}/status").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6
