"""From the start of the process to the first delivery: after a stop with much owed, and after the
owner of a home died with a standby beside it."""

import contextlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distributary.pipeline.tables.home.home import Home
from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.homes import TOPIC, Backlog, make_backlog
from tests.bench.peer import ANSWER_SECONDS_MAX, Endpoint, LoadError, Peer
from tests.bench.server import Server, free_port, fresh_home, start, stop, wait_listening

#: Messages that are owed, and subscriptions that are owed them.
MESSAGES: Final = 1_000_000
SUBSCRIPTIONS: Final = 50
#: How long a start may take before it counts as failed, in seconds.
START_SECONDS_MAX: Final = 60.0
#: Until the first message, which may be the last one of all that are looked at, in seconds.
FIRST_SECONDS_MAX: Final = 600.0
#: How often it is tried to reach a server that isn't there yet, in seconds.
KNOCK_SECONDS: Final = 0.01


def restart(bench: Bench) -> Measurement:
    """A million messages and fifty durable subscriptions, a third settled out of order."""
    measurement = Measurement()
    with fresh_home(bench.folder) as home:
        backlog = Backlog(bench.settings.count(MESSAGES), subscriptions=SUBSCRIPTIONS)
        make_backlog(home, backlog, cursors=True)
        for name in ("with_cursors", "without_cursors"):
            seconds, rss = [], []
            for _ in range(bench.settings.repeat):
                link = frames.shared_durable(backlog.keys[0].name, TOPIC)
                begun = first_delivery(bench, home, link)
                seconds.append(begun.seconds)
                rss.append(begun.rss_mb)
            measurement.facts[f"{name}_s"] = sorted(seconds)[len(seconds) // 2]
            measurement.facts[f"{name}_rss_mb"] = max(rss)
            shutil.rmtree(Home(home).cursors, ignore_errors=True)
    measurement.rss_mb = max(v for k, v in measurement.facts.items() if k.endswith("rss_mb"))
    return measurement


@dataclass(frozen=True, slots=True)
class Begun:
    """From the start of a process until a message of it is here; memory is the peak."""

    seconds: float
    cpu_seconds: float
    rss_mb: float


def first_delivery(bench: Bench, home: Path, link: bytes) -> Begun:
    """Start a gateway on this home, take one message by this link, and stop it."""
    port = free_port()
    began = time.perf_counter()
    process = start(bench.serve, home, port)
    try:
        peer = connected(process, port)
        peer.attach_without_blocking(link)
        peer.socket.setblocking(True)
        peer.socket.settimeout(FIRST_SECONDS_MAX)
        peer.socket.sendall(frames.flow(0, 1))
        while not any(f.code == frames.TRANSFER for f in frames.split(peer.pending)):
            peer.pending += _received(peer.socket)
        took = time.perf_counter() - began
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        cpu = Server(Endpoint("127.0.0.1", port), process.pid).cpu().total
        peer.close()
        return Begun(took, cpu, int(peak[1]) * 1024 / 1e6 if peak else 0.0)
    finally:
        stop(process)


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise LoadError("the server closed the connection before the first delivery")
    return data


def connected(process: subprocess.Popen[bytes], port: int) -> Peer:
    """A connection as soon as the server takes it."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LoadError(f"the server ended with code {process.returncode}")
        with contextlib.suppress(OSError):
            return Peer(Endpoint("127.0.0.1", port))
        time.sleep(KNOCK_SECONDS)
    raise LoadError(f"no connection within {START_SECONDS_MAX:.0f} s")


def standby(bench: Bench) -> Measurement:
    """The owner is killed: until its standby has accepted a message."""
    measurement, seconds = Measurement(), []
    for _ in range(bench.settings.repeat):
        with fresh_home(bench.folder) as home, _pair(bench, home) as (owner, waiting, port):
            began = time.perf_counter()
            owner.kill()
            _publish_one(connected(waiting, port))
            seconds.append(time.perf_counter() - began)
            owner.wait()
    measurement.facts["takeover_s"] = max(seconds)
    return measurement


@contextlib.contextmanager
def _pair(
    bench: Bench, home: Path
) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes], int]]:
    """An owner that has accepted something, and its standby with the port that it will have."""
    ports = free_port(), free_port()
    owner = start(bench.serve, home, ports[0])
    waiting = None
    try:
        wait_listening(owner, ports[0], home.parent / "server.log")
        _publish_one(connected(owner, ports[0]))
        log = bench.folder / "standby.log"
        waiting = start(f"{bench.serve} --standby", home, ports[1], log=log)
        _wait_said(log, "standby.waiting")
        yield owner, waiting, ports[1]
    finally:
        for process in (owner, waiting):
            if process is not None and process.poll() is None:
                stop(process)


def _wait_said(log: Path, word: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while word not in log.read_text():
        if time.monotonic() > deadline:
            raise LoadError(f"a standby did not say {word} within {START_SECONDS_MAX:.0f} s")
        time.sleep(KNOCK_SECONDS)


def _publish_one(peer: Peer) -> None:
    """One message, accepted."""
    peer.attach_without_blocking(frames.attach_sender(peer.container, "standby"))
    peer.socket.setblocking(True)
    peer.socket.settimeout(ANSWER_SECONDS_MAX)
    payload = frames.message(1024, "standby")
    peer.socket.sendall(frames.transfers(1, payload).tobytes())
    while not any(f.code == frames.DISPOSITION for f in frames.split(peer.pending)):
        peer.pending += _received(peer.socket)
    peer.close()
