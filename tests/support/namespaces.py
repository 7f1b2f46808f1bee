"""Network namespaces of this process's own: a bridge, and hosts at it whose links can be cut.

Nothing of the machine's network is touched or seen: this process leaves it for a new namespace
first, and all addresses are made here. A namespace lives as long as a process is in it, so what was
made goes with the processes, however they end. It needs root.
"""

import ctypes
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from gateway_process import until

_CLONE_NEWNET = 0x40000000
_BRIDGE = "bridge"
_NET = "10.213.0"


def allowed() -> bool:
    """Whether this process may make namespaces."""
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return done.returncode == 0


@dataclass(frozen=True, slots=True)
class Host:
    """One namespace, its address, and the end of its link that is at the bridge."""

    address: str
    port: str
    holder: "subprocess.Popen[bytes]"

    @property
    def namespace(self) -> str:
        """The file by which a process enters it."""
        return f"/proc/{self.holder.pid}/ns/net"

    @property
    def inside(self) -> tuple[str, ...]:
        """The words in front of a command that is to run in this namespace."""
        return ("nsenter", f"--net={self.namespace}", "--")


@dataclass(slots=True)
class Network:
    """See the module. From `__enter__` on this process has no other network."""

    hosts: list[Host] = field(default_factory=list)

    def __enter__(self) -> Self:
        assert ctypes.CDLL(None).unshare(_CLONE_NEWNET) == 0, "no namespace can be made"
        _ip("link", "set", "lo", "up")
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_NET}.1/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            host.holder.kill()
            host.holder.wait()

    def host(self) -> Host:
        """One more. Its namespace is held by a process that ends with this one."""
        number = len(self.hosts) + 2
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        holder = subprocess.Popen(command)
        host = Host(f"{_NET}.{number}", f"port{number}", holder)
        self.hosts.append(host)
        ours = _link_of("/proc/self/ns/net")
        until(lambda: _link_of(host.namespace) not in ("", ours), "a namespace is made")
        pid = str(holder.pid)
        _ip("link", "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _ip("link", "set", host.port, "master", _BRIDGE)
        _ip("link", "set", host.port, "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{host.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            subprocess.run([*host.inside, "ip", *words], check=True)
        return host

    def cut(self, host: Host) -> None:
        """Cut the host off from all others, in both directions."""
        _ip("link", "set", host.port, "down")

    def join(self, host: Host) -> None:
        """Connect the host to the bridge again."""
        _ip("link", "set", host.port, "up")

    def part(self, one: Host, other: Host, *, parted: bool = True) -> None:
        """These two don't hear each other; all others hear both."""
        for host in (one, other):
            said = "on" if parted else "off"
            _ip("link", "set", "dev", host.port, "type", "bridge_slave", "isolated", said)


def _link_of(path: str) -> str:
    return str(Path(path).readlink()) if Path(path).exists() else ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
