"""The demo's processes: a gateway, its console, and clients of it that report their progress.

Each is in a process group of its own, so that Ctrl-C reaches only the demo, which ends them all.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from distributary.pipeline.errors import DistributaryError
from examples.demo.demo_messages import Member

#: Seconds from the gateway's start until it listens; a home with a history needs some.
START_SECONDS_MAX = 60.0
#: Seconds that a process has to end when it is told to.
STOP_SECONDS_MAX = 30.0
#: Signals that stop the demo.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)

#: The command that a user would type, from the environment in which the demo runs.
GATEWAY = (str(Path(sys.executable).with_name("distributary")), "serve")
CONSOLE = (GATEWAY[0], "console")
#: Events of a gateway that listens, or waits for a home.
_READY = ("listening", "standby.waiting")
#: The console's line when it listens.
_ADDRESS = re.compile(r"^console of \S+ at (\S+)$", re.MULTILINE)


class DemoFailed(DistributaryError):
    """A process of the demo failed, or a number is off; the message says which."""


class _Event(msgspec.Struct, frozen=True):
    """The fields of a line of the gateway's log that the demo reads."""

    event: str
    next_sequence: int = 0
    reason: str = ""
    log: str = ""


@dataclass(slots=True)
class Part:
    """A client of the gateway: a process, and its last report."""

    name: str
    process: subprocess.Popen[bytes]
    said: Member = field(default_factory=Member)
    _listener: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        output = self.process.stdout
        assert output is not None  # noqa: S101
        with output:
            for line in output:
                self.said = msgspec.json.decode(line, type=Member)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Wait until the process has ended and all its reports are read."""
        self.process.wait(STOP_SECONDS_MAX)
        self._listener.join(STOP_SECONDS_MAX)

    def require_well(self) -> None:
        """Raise DemoFailed if the process ended in any other way than it should."""
        if self.running:
            return
        self.end()
        code = self.process.returncode
        if code != 0 and not self.said.dying:
            reason = self.said.error or f"{self.name} ended with exit code {code} (see demo.log)"
            raise DemoFailed(reason)


@dataclass(slots=True)
class Gateway:
    """`distributary serve` as a child, listening on `port`.

    `first` is the sequence that the next message will have, as it said at its start.
    """

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    metrics_port: int
    first: int = 0

    def require_well(self) -> None:
        if self.process.poll() is not None:
            raise DemoFailed(f"the gateway ended: {self._last_words()}")

    @property
    def serves(self) -> str:
        """The log of a lake that it serves, as it said when it listened."""
        return next((one.log for one in self.events() if one.event == "listening"), "")

    def wait_until_ready(self) -> None:
        """Wait until the gateway listens, or waits for a home."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not any(event.event in _READY for event in self.events()):
            self.require_well()
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"the gateway does not listen after {START_SECONDS_MAX:.0f} s; see {self.log}"
                )
            time.sleep(0.02)
        opened = [event for event in self.events() if event.event == "store.opened"]
        self.first = opened[-1].next_sequence if opened else 0

    def events(self) -> list[_Event]:
        """Return the events in the gateway's log; other lines (a traceback) are ignored."""
        found = []
        for line in self.log.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(line, type=_Event))
        return found

    def commits(self) -> int:
        return sum(event.event == "batch.committed" for event in self.events())

    def _last_words(self) -> str:
        reasons = [event.reason for event in self.events() if event.reason]
        lines = self.log.read_text(errors="replace").splitlines()
        return (reasons or lines or ["it said nothing"])[-1]


@dataclass(slots=True)
class Stage:
    """All processes of one demo; `clear` ends those that still run."""

    home: Path
    console: str = ""  #: its address
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_gateway(
        self, name: str = "gateway", *options: str, settings: Mapping[str, str] = {}
    ) -> Gateway:
        """Start a gateway on a free port and wait until it listens, or until it stands by if its
        options say so. `settings` are variables of its environment."""
        port, metrics_port = _free_port(), _free_port()
        log = self.home / f"{name}.log"
        command = [*GATEWAY, "--json", "--verbose", "--home", str(self.home)]
        command += ["--listen", f"127.0.0.1:{port}", *options]
        with log.open("wb") as output:
            listen = {"DISTRIBUTARY_HTTP_LISTEN": f"127.0.0.1:{metrics_port}"}
            process = self._start(command, output, output, {**settings, **listen})
        gateway = Gateway(process, port, log, metrics_port)
        gateway.wait_until_ready()
        return gateway

    def start_console(self, gateway: Gateway) -> None:
        """Start the console of that gateway."""
        log = self.home / "console.log"
        command = [*CONSOLE, "--home", str(self.home), "--listen", "127.0.0.1:0"]
        command += ["--gateway", f"127.0.0.1:{gateway.port}"]
        command += ["--metrics", f"127.0.0.1:{gateway.metrics_port}"]
        with log.open("wb") as output:
            process = self._start(command, output, output)
        deadline = time.monotonic() + START_SECONDS_MAX
        while (found := _ADDRESS.search(log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise DemoFailed(f"the console doesn't listen; see {log}")
            time.sleep(0.02)
        self.console = found[1]

    def start_part(self, name: str, module: str, *arguments: object) -> Part:
        """Start a client: a module of this package, run as a program."""
        command = [sys.executable, "-m", f"examples.demo.{module}", *map(str, arguments)]
        with (self.home / "demo.log").open("ab") as errors:
            process = self._start(command, subprocess.PIPE, errors)
        return Part(name, process)

    def _start(
        self,
        command: list[str],
        output: IO[bytes] | int,
        errors: IO[bytes],
        environment: Mapping[str, str] = {},
    ) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 (our own programs)
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def clear(self) -> None:
        """End everything: clients first, the gateway last, so that it can say goodbye."""
        for process in reversed(self._running):
            _stop(process, 1.0 if process is not self._running[0] else STOP_SECONDS_MAX)
        self._running.clear()


@contextlib.contextmanager
def stage(home: Path) -> Iterator[Stage]:
    """A stage that is cleared in any case, and wholly: an impatient second Ctrl-C waits for it."""
    made = Stage(home)
    try:
        yield made
    finally:
        before = [(number, signal.signal(number, signal.SIG_IGN)) for number in INTERRUPTS]
        made.clear()
        for number, handler in before:
            signal.signal(number, handler)


def _stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
