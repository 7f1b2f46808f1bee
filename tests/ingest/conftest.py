"""Running gateways: one for the tests that leave it as it was, own ones for the others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from disk import SmallDisk
from faulty_s3 import FaultyS3, faulty_s3
from gateway_fleet import as_asked
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import Gateway, Settings


@pytest.fixture(scope="session")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with as_asked(tmp_path_factory.mktemp("gateway")) as running:
        yield running
        running.stop()


@pytest.fixture
def gateway(_running: Gateway) -> Gateway:
    """One gateway for the whole run; tests keep apart by topics and names of their own. If one of
    them has brought it down, the next one finds it up again."""
    if not _running.running:
        _running.kill()
        _running.log_path.unlink()
        _running.start()
    return _running


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Callable[[Settings | None], Gateway]]:
    """Makes gateways with a home each, not started yet; what runs at the end is ended."""
    numbers = count(1)
    with ExitStack() as ends:

        def make(settings: Settings | None = None) -> Gateway:
            made = Gateway(tmp_path / f"gateway-{next(numbers)}", settings)
            ends.push(made)
            return made

        yield make


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes peers of the session's gateway, or of another one by its port; all are closed at the
    end."""
    made: list[Peer] = []

    def new(container: str | None = None, *, port: int | None = None, **options: object) -> Peer:
        peer = Peer(port or request.getfixturevalue("gateway").port, container, **options)
        made.append(peer)
        return peer

    yield new
    for peer in made:
        peer.drop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return request.node.name.replace("test_", "")


@pytest.fixture
def unharmed(gateway: Gateway, connect: Connect, topic: str) -> Iterator[None]:
    """Another client, connected before the test, is served after it as ever."""
    peer = connect()
    receiver = peer.receiver(f"{topic}-witness")
    yield
    assert gateway.running, gateway.log
    try:
        peer.sender(f"{topic}-witness").publish("unharmed")
        assert receiver.bodies() == ["unharmed"]
    except (PeerLost, OSError):
        pytest.fail(f"the gateway has dropped a peer that did nothing:\n{gateway.log[-20_000:]}")
    assert not gateway.events("gateway.bug")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], SmallDisk]]:
    """Mounts a disk of so many MB. Without namespaces the test is skipped."""
    with ExitStack() as ends:

        def mount(megabytes: int) -> SmallDisk:
            made = ends.enter_context(SmallDisk(tmp_path / "disk", megabytes))
            if not made.mounted:
                pytest.skip("no namespaces here")
            return made

        yield mount


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    """A store, whose keys the environment of what is started has."""
    with faulty_s3() as found:
        for name, value in found.options().items():
            monkeypatch.setenv(name, value)
        yield found
