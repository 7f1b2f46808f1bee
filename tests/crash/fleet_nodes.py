"""Nodes on which a fleet's gateways run: each has one process after another, with or without a
network namespace of its own. A process may serve a log, give it away, and stand by from then on."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from gateway_process import Gateway, Settings
from namespaces import Host

ADDRESS = "s3://lake/home"
#: What its log says when it does something else than before.
ROLES = ("listening", "standby.waiting", "standby.took_over", "owner.lost", "log.given")
#: How a gateway ends that has lost its home, or is killed.
ENDS = (1, -signal.SIGKILL)


class Node:
    """One machine of the fleet. `options` says what a gateway with this key must know of the
    store; `relay`: its gateway has no log."""

    def __init__(
        self,
        folder: Path,
        number: int,
        settings: Settings,
        options: Callable[[str], dict[str, str]],
        place: Host | None,
        *,
        relay: bool,
    ) -> None:
        self._folder, self._settings, self._options = folder, settings, options
        self.number, self.place, self.relay = number, place, relay
        self.life = 0
        self.gateway = Gateway(folder, settings)  # it is never started: the first life is the next
        self.stopped = False  #: by SIGSTOP
        self.codes = ENDS  #: the exit codes that are in order
        self.unreachable = False  #: its link is down

    def __str__(self) -> str:
        return f"node {self.number}, life {self.life}"

    @property
    def key(self) -> str:
        """By which the store knows the gateway that runs here."""
        return f"node-{self.number}-{self.life}"

    def spawn(self, *, standby: bool) -> None:
        """Another gateway runs here; it is not waited for."""
        assert self.gateway.process is None, f"{self} runs"
        self.life += 1
        self.codes = ENDS
        self.gateway = gateway = Gateway(self._folder / f"life-{self.life}", self._settings)
        gateway.address = ADDRESS
        waits = ["--standby"] if standby and not self.relay else []
        gateway.options = ["--log", "none" if self.relay else "any", *waits]
        gateway.environment = self._options(self.key)
        if self.place is not None:
            gateway.host, gateway.namespace = self.place.address, self.place.namespace
        gateway.spawn()

    @property
    def host(self) -> str:
        return self.gateway.host

    @property
    def port(self) -> int:
        return self.gateway.port

    def _does(self, role: str) -> dict[str, object]:
        """The gateway's event of its present role; {} if that is another one."""
        said = self.gateway.latest(ROLES) if self.gateway.running else {}
        return said if said.get("event") == role else {}

    @property
    def serves(self) -> str:
        """The log that its gateway serves, as far as it knows; '' for none."""
        return "" if self.relay else str(self._does("listening").get("log", ""))

    @property
    def waits(self) -> bool:
        """Whether its gateway stands by."""
        return bool(self._does("standby.waiting"))

    @property
    def takes(self) -> bool:
        """Whether its gateway has a log, and doesn't serve it yet."""
        return bool(self._does("standby.took_over"))

    @property
    def hears(self) -> bool:
        """Whether clients can use it."""
        return bool(self._does("listening")) and not self.stopped and not self.unreachable

    def gone(self, life: int) -> bool:
        """Whether the process of that life has ended."""
        return life != self.life or not self.gateway.running

    def asleep(self, life: int) -> bool:
        """Whether the process of that life says nothing."""
        return life == self.life and self.stopped

    def signal(self, number: signal.Signals) -> None:
        assert self.gateway.process is not None
        os.kill(self.gateway.process.pid, number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.stopped = number == signal.SIGSTOP

    def stop(self) -> None:
        """Ask its gateway to end; it isn't waited for."""
        self.codes = (0, *ENDS)
        self.signal(signal.SIGTERM)

    def reaped(self) -> int | None:
        """The exit code of a gateway that has ended since the last call."""
        process = self.gateway.process
        if process is None or (code := process.poll()) is None:
            return None
        self.gateway.process, self.stopped = None, False
        bugs = [bug for name in Gateway.BUGS for bug in self.gateway.events(name)]
        assert not bugs, f"{self} says that it has a bug: {bugs}"
        return code

    def kill(self) -> None:
        """At the end of a round, whatever happened."""
        if self.gateway.process is not None:
            self.gateway.kill()
