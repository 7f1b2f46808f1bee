"""Gateways of one lake on machines of any name, and the command `distributary log`."""

import json
import subprocess
from collections.abc import Callable

from fork_server import commands
from gateway_process import Gateway

#: What publishers send again isn't kept twice.
SENT_ONCE = {"topic": {"duplicates_messages": 100_000}}


class Machines:
    """The lake at an address, and what is started and asked there."""

    def __init__(self, address: object, make: Callable[..., Gateway]) -> None:
        self.address, self._make = str(address), make

    def gateway(
        self,
        machine: str,
        *options: str,
        fleet: dict[str, object] | None = None,
        lease_ms: int = 3_000,
    ) -> Gateway:
        """One on this machine; it isn't started."""
        said = {"machine": machine, "member_ms": 200, "spread": False, **(fleet or {})}
        gateway = self._make({"fleet": said, "owner": {"lease_ms": lease_ms}, **SENT_ONCE})
        gateway.address, gateway.options = self.address, list(options)
        return gateway

    def owner(self, machine: str, log: str, lease_ms: int = 3_000) -> Gateway:
        """The owner of a log, which other gateways can find."""
        gateway = self.gateway(machine, "--log", log, lease_ms=lease_ms)
        gateway.start()
        gateway.await_event("address.said")
        return gateway

    def standby(self, machine: str, log: str = "any", lease_ms: int = 3_000) -> Gateway:
        """One that waits for a log, and has said so."""
        gateway = self.gateway(machine, "--log", log, "--standby", lease_ms=lease_ms)
        gateway.spawn()
        gateway.await_event("standby.waiting")
        return gateway

    def ask(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """`distributary log`."""
        done = commands().run("log", *words, "--home", self.address)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def move(self, log: str, to: object) -> dict[str, object]:
        """By the command, to its end."""
        found: dict[str, object] = json.loads(self.ask("move", log, to, "--json").stdout)
        return found

    def listed(self) -> dict[str, tuple[str | None, list[str]]]:
        """Of each log: the machine of its owner that lives, and those of its standbys."""
        found = json.loads(self.ask("list", "--json").stdout)
        return {
            one["log"]: (one["machine"], sorted(each["machine"] for each in one["standbys"]))
            for one in found["logs"]
        }
