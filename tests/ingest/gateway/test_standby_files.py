"""A standby serves by its settings' files as they are when it takes over, not as they were when it
began to wait."""

from collections.abc import Callable
from pathlib import Path

from gateway_links import Incoming
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]
Settings = dict[str, dict[str, object]]


def standby_of(owner: Gateway, make: Make, settings: Settings) -> Gateway:
    standby = make(settings)
    standby.home, standby.options = owner.home, ["--standby"]
    standby.spawn()
    standby.await_event("standby.waiting")
    return standby


def allow(file: Path, attempts: int) -> None:
    file.write_text(f'[[subscription]]\nmatch = "*"\ndelivery_attempts_max = {attempts}\n')


def failed(incoming: Incoming) -> None:
    """Let the next message fail, durably."""
    taken = incoming.take()
    taken[0].delivery.local.failed = True
    incoming.confirm(taken, Delivery.MODIFIED)


def test_a_standby_restores_by_the_policies_of_now(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """A message that may be tried again isn't given up by the number that held before."""
    file = tmp_path / "policies.toml"
    allow(file, 1)
    settings: Settings = {"delivery": {"policies": str(file)}, "owner": {"lease_ms": 600_000}}
    with own_gateway(settings) as owner:
        standby = standby_of(owner, own_gateway, settings)
        allow(file, 10)
        owner.await_event("policies.reloaded")
        peer = connect("c", port=owner.port)
        consumer = peer.durable("t", "mine")
        peer.sender("t").publish("again")
        failed(consumer)
        owner.kill()
        standby.await_event("listening")
        assert not standby.events("messages.dead_lettered")
        assert connect("c", port=standby.port).durable("t", "mine").bodies() == ["again"]
        standby.stop()


def test_a_standby_tells_of_a_broken_file_while_it_waits(own_gateway: Make, tmp_path: Path) -> None:
    """As an owner does; and the last valid one holds when it takes over."""
    file = tmp_path / "permissions.toml"
    file.write_text('["*"]\npublish = ["*"]\n')
    settings: Settings = {"security": {"permissions": str(file)}}
    with own_gateway(settings) as owner:
        standby = standby_of(owner, own_gateway, settings)
        file.write_text("[broken")
        assert standby.await_event("security.kept")["part"] == "permissions"
        owner.stop()
        standby.await_event("listening")
        standby.stop()


def test_a_standby_knows_the_users_of_now_when_it_first_listens(
    own_gateway: Make, tmp_path: Path
) -> None:
    """A user who was removed meanwhile isn't let in by a first connection."""
    file = tmp_path / "permissions.toml"
    file.write_text('["*"]\npublish = ["*"]\n')
    settings: Settings = {"security": {"permissions": str(file)}}
    with own_gateway(settings) as owner:
        standby = standby_of(owner, own_gateway, settings)
        file.write_text('["*"]\npublish = []\n')
        owner.kill()
        standby.await_event("listening")
        standby.await_event("security.reloaded")
        events = [line for line in standby.log.splitlines() if '"event"' in line]
        reloaded = next(n for n, line in enumerate(events) if "security.reloaded" in line)
        listening = next(n for n, line in enumerate(events) if '"listening"' in line)
        assert reloaded < listening
        standby.stop()
