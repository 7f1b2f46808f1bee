"""A backup beside a gateway under load: a million messages are there, and a publisher goes on at a
steady rate. How long the first backup takes and a second one, what they copy, how much longer the
publisher waits for an accept meanwhile, and how long a restore takes."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from tests.bench.bench import Bench, Measurement
from tests.bench.load import Outcome
from tests.bench.peer import LoadError
from tests.bench.server import fresh_home

MESSAGES: Final = 1_000_000
#: Of the publisher beside it, and for how long; a backup begins when this share of it has passed.
RATE: Final = 5_000.0
SECONDS: Final = 45
BEGIN: Final = 0.2


def backing_up(bench: Bench) -> Measurement:
    """The case; of its data nothing can be made smaller, so that bytes count."""
    measurement = Measurement()
    with fresh_home(bench.folder) as home, bench.gateway(home) as server:
        topic, kept = bench.name("million"), bench.name("kept")
        bench.subscribe([kept], topic)
        count = bench.settings.count(MESSAGES)
        bench.load(bench.spec("publish", topic, count, connections=2, random_data=True))
        server.wait_quiet()
        with fresh_home(bench.folder) as backups:
            for name in ("first", "second"):
                measurement.facts |= _beside(bench, home, backups / "backup", topic, name)
            measurement.facts |= _restored(bench, backups)
        measurement.rss_mb = server.rss_mb()
    return measurement


def _beside(bench: Bench, home: Path, folder: Path, topic: str, name: str) -> dict[str, float]:
    spec = bench.spec(
        "steady",
        topic,
        bench.settings.count(round(RATE * SECONDS)),
        rate=RATE,
        random_data=True,
    )
    said: dict[str, float] = {}
    thread = threading.Thread(target=lambda: said.update(_backup(bench, home, folder, spec.count)))
    [outcome] = bench.load(spec, meanwhile=thread.start)
    thread.join()
    if not said:
        raise LoadError("the backup failed")
    alone, during = _latencies(outcome, said["began"], said["ended"])
    return {
        f"{name}_s": said["seconds"],
        f"{name}_written_mb": said["written_bytes"] / 1e6,
        f"{name}_whole_mb": said["bytes"] / 1e6,
        f"{name}_alone_p50_ms": _quantile(alone, 0.5),
        f"{name}_alone_p99_ms": _quantile(alone, 0.99),
        f"{name}_beside_p50_ms": _quantile(during, 0.5),
        f"{name}_beside_p99_ms": _quantile(during, 0.99),
        f"{name}_beside_max_ms": max(during, default=0.0),
    }


def _backup(bench: Bench, home: Path, folder: Path, count: int) -> dict[str, float]:
    time.sleep(count / RATE * BEGIN)
    began = time.perf_counter()
    done = _command(bench, "backup", "--home", home, "--to", folder)
    return {**done, "began": began, "ended": time.perf_counter()}


def _restored(bench: Bench, backups: Path) -> dict[str, float]:
    done = _command(bench, "restore", "--from", backups / "backup", "--home", backups / "home")
    return {"restore_s": done["seconds"]}


def _command(bench: Bench, *words: object) -> dict[str, float]:
    program = bench.serve.split()[0]
    done = subprocess.run(
        [program, *map(str, words), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LoadError(done.stderr.strip())
    return {
        key: value
        for key, value in json.loads(done.stdout).items()
        if isinstance(value, int | float)
    }


def _latencies(outcome: Outcome, began: float, ended: float) -> tuple[list[float], list[float]]:
    """Of the messages that were due before or after the backup, and of those during it."""
    first, last = (round((at - outcome.started) * RATE) for at in (began, ended))
    times = outcome.latencies_ms
    return times[:first] + times[last:], times[first:last]


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
