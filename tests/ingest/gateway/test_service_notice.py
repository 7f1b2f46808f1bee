"""Notices of a gateway to a service manager."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_process import PATIENCE, Gateway

Make = Callable[..., Gateway]


class Manager:
    """The socket of a service manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(PATIENCE)

    def hears(self, *wanted: str) -> None:
        """These, in this order; signs of life may come in between."""
        for one in wanted:
            while (said := self.socket.recv(4_096).decode()) != one:
                assert said == "WATCHDOG=1", said


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.socket.close()


@pytest.mark.parametrize("address", ["{}/notify", "@distributary-{}"])
def test_ready_when_it_serves(own_gateway: Make, tmp_path: Path, address: str) -> None:
    """And again when it is at its end, before it closes its connections."""
    place = tmp_path if address[0] == "{" else str(tmp_path).replace("/", "-")
    manager, gateway = Manager(address.format(place)), own_gateway()
    gateway.environment["NOTIFY_SOCKET"] = manager.address
    with manager.socket:
        gateway.start()
        manager.hears(f"READY=1\nSTATUS=it serves on 127.0.0.1:{gateway.port}")
        gateway.stop()
        manager.hears("STOPPING=1\nSTATUS=it stops")


def test_a_standby_is_ready_when_it_waits(own_gateway: Make, manager: Manager) -> None:
    """Its status says what it does: a start that waits for the owner's death would never end."""
    owner, standby = own_gateway({"owner": {"lease_ms": 900}}).start(), own_gateway()
    standby.home, standby.options = owner.home, ["--standby"]
    standby.environment["NOTIFY_SOCKET"] = manager.address
    standby.spawn()
    manager.hears("READY=1\nSTATUS=it stands by for the home's owner")
    owner.kill()
    manager.hears(f"READY=1\nSTATUS=it serves on 127.0.0.1:{standby.port}")


def test_a_loop_that_turns_feeds_the_watchdog(own_gateway: Make, manager: Manager) -> None:
    """A loop that hangs doesn't feed it, and the manager starts the gateway again."""
    gateway = own_gateway()
    gateway.environment |= {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000"}
    gateway.start()
    manager.hears(f"READY=1\nSTATUS=it serves on 127.0.0.1:{gateway.port}")
    manager.hears(*["WATCHDOG=1"] * 4)
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGSTOP)
    manager.socket.settimeout(1.0)  # the stimulus: signs of life are less apart
    with pytest.raises(TimeoutError):
        manager.hears("another word")
    gateway.process.send_signal(signal.SIGCONT)
    manager.socket.settimeout(PATIENCE)
    manager.hears("WATCHDOG=1")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NOTIFY_SOCKET", "vsock:2", "NOTIFY_SOCKET is 'vsock:2': a path, or @ and a name"),
        ("WATCHDOG_USEC", "soon", "WATCHDOG_USEC is 'soon': a number of microseconds"),
    ],
)
def test_what_cannot_be_meant_is_said(own_gateway: Make, name: str, value: str, said: str) -> None:
    gateway = own_gateway()
    gateway.environment[name] = value
    gateway.spawn()
    gateway.ended(2)
    assert f"distributary: {said}\n" in gateway.log


def test_a_manager_that_is_gone_stops_nobody(own_gateway: Make, tmp_path: Path) -> None:
    """It is said once."""
    gateway = own_gateway()
    gone = {"NOTIFY_SOCKET": str(tmp_path / "nowhere"), "WATCHDOG_USEC": "100000"}
    gateway.environment |= gone
    gateway.start()
    assert gateway.await_event("service.unheard")["reason"] == "No such file or directory"
    gateway.stop()
    assert len(gateway.events("service.unheard")) == 1


def test_a_watchdog_of_another_process_is_not_ours(own_gateway: Make, manager: Manager) -> None:
    """A gateway that a script starts inherits the variables of the script."""
    gateway = own_gateway()
    gateway.environment |= {
        "NOTIFY_SOCKET": manager.address,
        "WATCHDOG_USEC": "50000",
        "WATCHDOG_PID": "1",
    }
    gateway.start()
    assert manager.socket.recv(4_096).startswith(b"READY=1")
    manager.socket.settimeout(0.5)  # the stimulus: signs of life would be less apart
    with pytest.raises(TimeoutError):
        manager.socket.recv(4_096)
