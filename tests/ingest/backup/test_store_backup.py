"""A home without a disk is copied beside its gateway, and a home at another address is made of
that."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faulty_s3 import FaultyS3, Plan
from fork_server import commands
from gateway_peer import Connect
from gateway_process import Gateway, until

from distributary.pipeline.tables.delta.object_store import ObjectStore

HOME, OTHER = "s3://lake/home", "s3://lake/other"
#: The table has nothing of what is accepted for a while: it is in the journal alone.
LATE = {
    "owner": {"lease_ms": 4_000},
    "commit": {"interval_ms": 600_000},
    "journal": {"put_linger_ms": 2, "put_settlement_linger_ms": 5},
}
QUICK = {**LATE, "commit": {"interval_ms": 50}}

Make = Callable[..., Gateway]


@pytest.fixture
def make(own_gateway: Make, s3: FaultyS3) -> Make:
    assert s3.port

    def made(settings: dict[str, dict[str, object]], address: str = HOME) -> Gateway:
        gateway = own_gateway(settings)
        gateway.address = address
        return gateway

    return made


def ran(code: int, *words: object) -> str:
    done = commands().run(*map(str, words))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    """A piece of the backup is, meanwhile."""
    piece = max((folder / "pieces").iterdir(), key=lambda one: one.stat().st_size)
    whole = piece.read_bytes()
    piece.write_bytes(whole[:-1])
    yield
    piece.write_bytes(whole)


def cut_off(s3: FaultyS3, folder: Path, words: str) -> None:
    """A restore that is killed while such a request of it waits."""
    s3.hold("key", words)
    with tempfile.TemporaryFile() as said:
        process = commands().start(
            "restore", "--from", folder, "--home", OTHER, output=said, errors=said
        )
        until(lambda: s3.holding, "a request that waits")
        process.kill()
        process.wait()
    s3.hold()


@pytest.mark.parametrize("settings", [LATE, QUICK], ids=["in the journal", "in the table"])
def test_all_that_was_accepted_is_in_it(
    make: Make, connect: Connect, topic: str, s3: FaultyS3, tmp_path: Path, settings: dict
) -> None:
    """Beside the gateway. What was confirmed doesn't come again, what may have been delivered is
    marked, and a second backup copies what is new."""
    gateway = make(settings).start()
    peer = connect(topic, port=gateway.port)
    consumer = peer.durable(topic, "mine")
    sender = connect(port=gateway.port).sender(topic)
    sender.publish(*(f"{n}" for n in range(40)))
    consumer.confirm(consumer.take(10))
    ran(0, "backup", "--home", HOME, "--to", tmp_path / "copy")
    sender.publish(*(f"{n}" for n in range(40, 60)))
    s3.plan(Plan(latency_ms=2, errors=0.02, lost=0.02, hang_seconds=0.3))
    ran(0, "backup", "--home", HOME, "--to", tmp_path / "copy")
    s3.plan(Plan())
    gateway.kill()
    ran(0, "restore", "--from", tmp_path / "copy", "--home", OTHER)
    assert "is sound" in ran(0, "verify", "--home", OTHER, "--deep")
    restored = make(settings, OTHER).start()
    got = connect(topic, port=restored.port).durable(topic, "mine").take(50)
    assert [int(str(one.body)) for one in got] == list(range(10, 60))
    assert all(one.message.delivery_count for one in got)
    restored.stop()
    assert "isn't empty" in ran(2, "restore", "--from", tmp_path / "copy", "--home", OTHER)
    disk = ran(2, "restore", "--from", tmp_path / "copy", "--home", tmp_path / "disk")
    assert "of a home on an object store" in disk


def test_a_restore_that_was_cut_off_is_served_by_nobody(
    make: Make, connect: Connect, topic: str, tmp_path: Path, s3: FaultyS3
) -> None:
    """Until it is repeated."""
    gateway = make(QUICK).start()
    connect(port=gateway.port).sender(topic).publish("one")
    ran(0, "backup", "--home", HOME, "--to", tmp_path / "copy")
    gateway.stop()
    with damaged(tmp_path / "copy"):
        assert "is damaged" in ran(1, "restore", "--from", tmp_path / "copy", "--home", OTHER)
    store = ObjectStore(OTHER, s3.options())
    assert not store.exists("restoring"), "all is compared before anything is put"
    cut_off(s3, tmp_path / "copy", "PUT .*/tables/")
    assert store.exists("restoring")
    refused = make(QUICK, OTHER)
    refused.spawn()
    refused.ended(2)
    assert "a restore of it was cut off" in refused.log
    ran(0, "restore", "--from", tmp_path / "copy", "--home", OTHER)
    assert "is sound" in ran(0, "verify", "--home", OTHER, "--deep")


def test_a_lake_is_copied_log_by_log(
    make: Make, connect: Connect, s3: FaultyS3, tmp_path: Path
) -> None:
    """And none of its logs is served until all of them, and its placement, are there."""
    copy = tmp_path / "copy"
    ran(0, "log", "create", "orders", "--home", HOME)
    ran(0, "log", "place", "orders.#", "orders", "--home", HOME)
    for log in ("main", "orders"):
        gateway = make(QUICK)
        gateway.options = ["--log", log]
        gateway.start()
        connect(port=gateway.port).sender(f"{log}.first").publish("one")
        gateway.stop()
    said = ran(0, "backup", "--home", HOME, "--to", copy)
    assert "The log main:" in said
    assert "The log orders:" in said
    store = ObjectStore(OTHER, s3.options())
    marks = ("restoring", "logs/orders/restoring")
    with damaged(copy / "main"):
        assert "is damaged" in ran(1, "restore", "--from", copy, "--home", OTHER)
    assert [store.exists(mark) for mark in marks] == [False, False]
    cut_off(s3, copy, "PUT .*other/tables/")
    assert [store.exists(mark) for mark in marks] == [True, True]
    assert not store.exists("lake.json")
    ran(0, "restore", "--from", copy, "--home", OTHER)
    assert not any(store.exists(mark) for mark in marks)
    assert '"orders"' in ran(0, "log", "list", "--home", OTHER, "--json")
    assert ran(0, "verify", "--home", OTHER).count("is sound") == 2
