"""The real command as a process: started on a free port, killed, stopped, started again."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from fork_server import SCRIPT, Forked, clean_environment, commands, gateways

T = TypeVar("T")
Settings = Mapping[str, Mapping[str, object]]

#: Seconds that anything may take before a test gives up; a machine shared by many is slow at times.
PATIENCE = 60.0
#: So many processes can have ports of their own at a time.
PORT_PARTS = 60
#: What a line of a gateway's log is the event of.
EVENT = re.compile(rb'"event": "([^"]*)"')


def until(
    condition: Callable[[], T], what: str, seconds: float = PATIENCE, *, every: float = 0.005
) -> T:
    """The first true value of the condition, asked for so often; what was waited for is the
    failure's text. To ask takes a fifth of a processor at most: what reads a table or starts a
    command is asked less often, and what is waited for has the processor."""
    deadline = time.monotonic() + seconds
    busy = time.process_time()  # of all threads: reading a table takes several
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(max(every, min(4 * (time.process_time() - busy), 0.5)))
        busy = time.process_time()
    return value


def past(moment: float) -> None:
    """The wall clock, by which messages expire and delays end, has passed this moment."""
    until(lambda: time.time() > moment, "a moment of the wall clock")


def interruptible() -> None:
    """Before a command is run that shall hear Ctrl-C: a shell lets what it runs in the background
    ignore that, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def free_port() -> int:
    """A free port that no other process of tests takes before a gateway listens at it, or while
    that gateway is down: neither a test nor the kernel, for a client's connection."""
    for port in _own_ports():
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("its ports go on for ever")


@cache
def _own_ports() -> Iterator[int]:
    """Ports of this process, round and round: a part of those that the kernel gives to no client.
    A name that the kernel knows, until the process ends, says that the part is taken."""
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    every = range(10_000, lowest) if lowest > 12_000 else range(highest + 1, 65_536)
    for nth in random.sample(range(PORT_PARTS), PORT_PARTS):
        taken = socket.socket(socket.AF_UNIX)
        try:
            taken.bind(f"\0distributary-tests-ports-{nth}")
        except OSError:
            taken.close()
            continue
        taken.detach()
        return cycle(every[nth::PORT_PARTS])
    raise AssertionError(f"{PORT_PARTS} processes run tests")


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has taken so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def toml(settings: Settings) -> str:
    """The settings as a file; JSON's texts, numbers and truths are TOML's too."""
    lines = []
    for section, values in settings.items():
        lines += [
            f"[{section}]",
            *(f"{key} = {json.dumps(value)}" for key, value in values.items()),
        ]
    return "\n".join(lines) + "\n"


class Gateway:
    """One home and the gateway that serves it, if it runs.

    `settings` are those of its `--config` file, `options` more of its command line, `environment`
    more of its environment. `start`, `kill` and `stop` in any order; the log of all its lives is
    one file. The process is a fork of one that has imported everything, unless something else is
    to run (`COMMAND`), or to be run with (`before`, an `LD_PRELOAD` in `environment`). A library
    can be `preloaded` all the same: it is told of `environment` by a call of its `begin`.
    """

    #: Events that no test may cause.
    BUGS = ("gateway.bug", "connection.bug")
    COMMAND = (SCRIPT,)
    LOGGING = ("--json", "--verbose")
    #: What holds for all tests, where `settings` don't say otherwise. They read what peers cause to
    #: be logged: none of it is left out. The port of metrics is the machine's: a test that wants
    #: one names it. A thousand homes must fit on a disk: their segments are small.
    OWN: ClassVar[Settings] = {
        "log": {"lines_max": 1_000_000},
        "http": {"listen": ""},
        "journal": {"segment_bytes": 4 << 20},
    }

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.home = folder / "home"
        self.address = ""  #: of a home without a disk; empty: `home` is its folder
        self.log_path = folder / "gateway.log"
        self.config = folder / "gateway.toml"
        given = settings or {}
        self.config.write_text(
            toml(
                {
                    name: {**self.OWN.get(name, {}), **given.get(name, {})}
                    for name in {**self.OWN, **given}
                }
            )
        )
        self.host, self.port = "127.0.0.1", free_port()
        self.namespace = ""  #: file of the network namespace that it runs in; empty: the test's
        self.options: list[str] = []
        self.environment: dict[str, str] = {}  #: of the process, beside the test's own
        self.preloaded: Path | None = None
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._read = 0  # bytes of the log
        self._lines: dict[bytes, list[tuple[int, bytes]]] = {}
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        bugs = [bug for name in self.BUGS for bug in self.events(name)]
        if self.process is not None:
            self.kill()
        assert kind or not bugs, f"the gateway says that it has a bug: {bugs}"

    def spawn(
        self, *, before: Callable[[], None] | None = None
    ) -> "subprocess.Popen[bytes] | Forked":
        """Start the process without waiting for anything."""
        assert self.process is None, "it runs already"
        given = ["--home", self.address or self.home, "--listen", f"{self.host}:{self.port}"]
        words = ["serve", *given, "--config", self.config, *self.LOGGING, *self.options]
        with self.log_path.open("ab") as log:
            forked = self.preloaded or "LD_PRELOAD" not in self.environment
            if self.COMMAND == (SCRIPT,) and forked and before is None:
                self.process = gateways(self.preloaded).start(
                    *words,
                    output=log,
                    errors=log,
                    environment=clean_environment() | self.environment,
                    namespace=self.namespace,
                )
            else:
                self.process = subprocess.Popen(
                    [*self.COMMAND, *words],
                    stdout=log,
                    stderr=log,
                    env=clean_environment() | self.environment,
                    preexec_fn=before,  # noqa: PLW1509 (resource limits; no threads here)
                )
        return self.process

    def start(self, *, before: Callable[[], None] | None = None) -> Self:
        """Start the gateway and wait until it listens."""
        lives = len(self.events("listening"))
        process = self.spawn(before=before)
        until(
            lambda: len(self.events("listening")) > lives or process.poll() is not None,
            "the gateway listens",
        )
        assert process.poll() is None, f"the gateway ended at once:\n{self.log}"
        return self

    def kill(self) -> None:
        """SIGKILL: nothing in the process can do anything any more."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self, *, code: int = 0) -> None:
        """SIGTERM, and the exit code that must follow."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.ended(code)

    def ended(self, code: int) -> None:
        """Wait for an end that has another reason."""
        assert self.process is not None
        assert self.process.wait(PATIENCE) == code, self.log
        self.process = None

    def verified(self) -> None:
        """Its home is sound, by its own command; it must not run."""
        assert self.process is None, "it runs still"
        done = commands().run("verify", "--home", self.home, "--deep")
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def events(self, name: str) -> list[dict[str, object]]:
        """The log's events of this name, in all lives so far."""
        found = [json.loads(line) for _, line in self._by_name().get(name.encode(), ())]
        return [event for event in found if event.get("event") == name]

    def latest(self, names: Collection[str]) -> dict[str, object]:
        """The last event of the log that has one of these names; {} if there is none."""
        by_name = self._by_name()
        lines = [by_name[one][-1] for name in names if (one := name.encode()) in by_name]
        found: dict[str, object] = json.loads(max(lines)[1]) if lines else {}
        return found

    def _by_name(self) -> dict[bytes, list[tuple[int, bytes]]]:
        """The log's lines as they are written, with their places, by the names of their events. A
        test that waits for an event asks a hundred times a second: only new lines are read."""
        with self._reading:
            size = self.log_path.stat().st_size if self.log_path.exists() else 0
            if size < self._read:
                self._read, self._lines = 0, {}
            if size > self._read:
                with self.log_path.open("rb") as log:
                    log.seek(self._read)
                    text = log.read()
                whole = text[: text.rfind(b"\n") + 1]
                for at, line in enumerate(whole.splitlines(), self._read):
                    if line.endswith(b"}"):
                        for name in EVENT.findall(line):
                            self._lines.setdefault(name, []).append((at, line))
                self._read += len(whole)
            return self._lines

    def await_event(self, name: str, count: int = 1) -> dict[str, object]:
        """The count-th event of this name, when it has come."""
        until(lambda: len(self.events(name)) >= count, f"event {name} in the log")
        return self.events(name)[count - 1]
