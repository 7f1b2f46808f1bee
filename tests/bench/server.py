"""The server under measurement: started for a group of cases, or found where it runs already."""

import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peer import Endpoint, LoadError

#: How long the gateway may take until it listens, and until it has stopped, in seconds.
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
#: Waiting for quiet: the look back, the CPU that counts as none in it, and the patience.
QUIET_SECONDS = 1.1
QUIET_CPU_SECONDS = 0.04
QUIET_SECONDS_MAX = 15.0

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU time that the process has used up, in seconds: in all, and by the name of the thread."""

    total: float
    threads: dict[str, float]

    def since(self, before: "Cpu") -> "Cpu":
        return self._joined(before, -1.0)

    def plus(self, other: "Cpu") -> "Cpu":
        return self._joined(other, 1.0)

    def _joined(self, other: "Cpu", sign: float) -> "Cpu":
        """A thread that is gone counts as far as it was seen; it never counts as less than 0."""
        names = self.threads.keys() | other.threads.keys()
        used = {
            name: self.threads.get(name, 0.0) + sign * other.threads.get(name, 0.0)
            for name in names
        }
        kept = {name: seconds for name, seconds in used.items() if seconds > 0}
        return Cpu(self.total + sign * other.total, kept)


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address, and its process if it is on this machine (None: CPU and RSS unknown). Its
    child processes count with it."""

    endpoint: Endpoint
    pid: int | None

    def cpu(self) -> Cpu:
        if self.pid is None:
            return Cpu(0.0, {})
        folder = Path(f"/proc/{self.pid}")
        threads: defaultdict[str, float] = defaultdict(float)
        for task in (folder / "task").iterdir():
            with suppress(OSError):  # a thread that ended just now
                name, used = _stat(task / "stat")
                threads["loop" if task.name == str(self.pid) else _plain(name)] += used
        total = _stat(folder / "stat")[1]
        for child in _children(self.pid):
            with suppress(OSError):
                used = _stat(child / "stat")[1]
                threads["children"] += used
                total += used
        return Cpu(total, threads)

    def rss_mb(self) -> float | None:
        """Resident memory in MB (10^6 bytes)."""
        if self.pid is None:
            return None
        mb = 0.0
        for process in (Path(f"/proc/{self.pid}"), *_children(self.pid)):
            with suppress(OSError):
                found = re.search(r"VmRSS:\s+(\d+) kB", (process / "status").read_text())
                mb += int(found[1]) * 1024 / 1e6 if found else 0.0
        return mb

    def wait_quiet(self) -> None:
        """Until what was left to do (commits, garbage) is done, so that it is counted where it
        belongs. A server that never gets quiet is measured as it is after some patience."""
        if self.pid is None:
            time.sleep(QUIET_SECONDS)
            return
        deadline = time.monotonic() + QUIET_SECONDS_MAX
        while time.monotonic() < deadline:
            before = _stat(Path(f"/proc/{self.pid}/stat"))[1]
            time.sleep(QUIET_SECONDS)
            if _stat(Path(f"/proc/{self.pid}/stat"))[1] - before <= QUIET_CPU_SECONDS:
                return


def _stat(path: Path) -> tuple[str, float]:
    """Name and CPU seconds (user and system) of a process or a thread."""
    head, _, tail = path.read_text().rpartition(")")
    fields = tail.split()
    return head.partition("(")[2], (int(fields[11]) + int(fields[12])) / _TICK


def _children(pid: int) -> list[Path]:
    """The folders below /proc of the processes that this one has started."""
    found: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(process)
    return found


def _plain(name: str) -> str:
    """Threads of one pool are one stage: their numbers are cut off."""
    return name.rstrip("0123456789-_ ") or name


@contextmanager
def fresh_home(folder: Path) -> Iterator[Path]:
    """A folder of its own, wiped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="home-", dir=folder, ignore_cleanup_errors=True
    ) as home:
        yield Path(home)


@contextmanager
def gateway(template: str, home: Path, settings: Mapping[str, object] = {}) -> Iterator[Server]:
    """The gateway on this home and a free port; stopped at the end.

    `template` is its command line with `{home}` and `{port}` left open; `settings` are by
    SECTION_KEY.
    """
    port = free_port()
    process = start(template, home, port, settings)
    try:
        wait_listening(process, port, log_of(home))
        yield Server(Endpoint("127.0.0.1", port), process.pid)
    finally:
        stop(process)


def log_of(home: Path) -> Path:
    """The file with the log lines of the last gateway on that home."""
    return home.parent / "server.log"


def start(
    template: str,
    home: Path,
    port: int,
    settings: Mapping[str, object] = {},
    log: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start it, without waiting for anything; what it says goes to `log`, or to the home's."""
    command = [part.format(home=home, port=port) for part in shlex.split(template)]
    said = {f"DISTRIBUTARY_{key}": str(value) for key, value in settings.items()}
    with (log or log_of(home)).open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=os.environ | said,
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text(errors="replace")[-2000:]
            raise LoadError(f"the server ended with code {process.returncode}. It said:\n{said}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.05)
    said = log.read_text(errors="replace")[-2000:]
    raise LoadError(f"nobody listens on {port} after {START_SECONDS_MAX:.0f} s. It said:\n{said}")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
