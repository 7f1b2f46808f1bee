"""A home on a store of another protocol than S3 is as one on S3."""

from collections.abc import Callable, Iterator

import pytest
from deltalake import DeltaTable
from fork_server import commands
from gateway_peer import Connect
from gateway_process import Gateway
from object_stores import GONE, Served, served

SETTINGS = {
    "owner": {"lease_ms": 4_000},
    "commit": {"interval_ms": 100},
    "journal": {"put_linger_ms": 2, "put_settlement_linger_ms": 5},
}


@pytest.fixture(scope="module", params=sorted(GONE.keys() - {"s3"}))
def store(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as found:
        yield found


@pytest.fixture
def make(
    own_gateway: Callable[..., Gateway], store: Served, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Gateway]:
    for name, value in store.options.items():
        monkeypatch.setenv(name, value)

    def made(folder: str) -> Gateway:
        gateway = own_gateway(SETTINGS)
        gateway.address = f"{store.url}/{folder}"
        return gateway

    return made


def said(*words: str, code: int = 0) -> str:
    done = commands().run(*words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_kill_a_take_over_and_a_backup(
    make: Callable[[str], Gateway],
    connect: Connect,
    topic: str,
    store: Served,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Accepted messages come after a kill, from the standby that takes the home over and from a
    restored backup; confirmed ones don't come again; the table is sound."""
    owner, standby = make("home"), make("home")
    looked = commands().run("doctor", "--home", owner.address).stdout  # its code is of all it saw
    assert "keeps conditions" in looked
    owner.start()
    consumer = connect(topic, port=owner.port).durable(topic, "mine")
    connect(port=owner.port).sender(topic).publish(*(f"{n}" for n in range(60)))
    consumer.confirm(consumer.take(40))
    owner.kill()
    owner.start()
    standby.options = ["--standby"]
    standby.spawn()
    standby.await_event("standby.waiting")
    connect(port=owner.port).sender(topic).publish("60")
    owner.kill()
    standby.await_event("listening")
    left = [f"{n}" for n in range(40, 61)]
    peer = connect(topic, port=standby.port)
    consumer = peer.durable(topic, "mine")
    assert consumer.bodies(21, accept=False) == left
    peer.leave(consumer, closed=False)
    folder = tmp_path_factory.mktemp("backup") / "folder"
    said("backup", "--home", owner.address, "--to", str(folder))
    standby.stop()
    assert "is sound" in said("verify", "--home", owner.address, "--deep")
    table = DeltaTable(f"{owner.address}/tables/topic_log", storage_options=store.options)
    assert table.to_pyarrow_table().num_rows >= 61
    again = make("again")
    said("restore", "--from", str(folder), "--home", again.address)
    again.start()
    assert connect(topic, port=again.port).durable(topic, "mine").bodies(21) == left
    again.stop()


def test_a_missing_container_ends_the_start_with_one_sentence(
    make: Callable[[str], Gateway], store: Served
) -> None:
    """The gateway has nothing to serve, and says what to do."""
    told = said("serve", "--home", f"{store.scheme}://nothere/home", code=1)
    assert "no such bucket or container; make it" in told
    assert len(told.strip().splitlines()) == 1
