"""A gateway whose home is on a store: it has no disk, and everything else is as on one."""

import signal
import time
from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from faulty_s3 import FaultyS3, Plan
from fork_server import commands
from gateway_jms import Jms
from gateway_peer import Connect
from gateway_process import Gateway, until
from test_prepared import TRANSACTION, asking, listed, moved, prepared, taken

from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects

HOME = "s3://lake/home"
LEASE_MS = 6_000
SETTINGS = {
    "owner": {"lease_ms": 4_000},
    "commit": {"interval_ms": 100},
    "journal": {"put_linger_ms": 2, "put_settlement_linger_ms": 5},
}


@pytest.fixture
def make(own_gateway: Callable[..., Gateway], s3: FaultyS3) -> Callable[..., Gateway]:
    assert s3.port

    def made(settings: dict[str, dict[str, object]] | None = None) -> Gateway:
        gateway = own_gateway({**SETTINGS, **(settings or {})})
        gateway.address = HOME
        return gateway

    return made


def said(*words: str) -> str:
    done = commands().run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_of_a_home_is_there_after_a_kill(
    make: Callable[..., Gateway], connect: Connect, topic: str, s3: FaultyS3
) -> None:
    """Accepted messages come, confirmed ones don't come again, possibly delivered ones are marked;
    nothing lies on a disk; groups that the table has are removed from the journal."""
    s3.plan(Plan(latency_ms=5, errors=0.01, lost=0.01, hang_seconds=0.3))
    gateway = make().start()
    peer = connect(topic, port=gateway.port)
    consumer = peer.durable(topic, "mine")
    sender = connect(port=gateway.port).sender(topic)
    sender.publish(*(f"{n}" for n in range(60)))
    taken = consumer.take(40)
    consumer.confirm(taken)
    gateway.kill()
    s3.plan(Plan())
    assert not gateway.home.exists()
    gateway.start()
    got = connect(topic, port=gateway.port).durable(topic, "mine").take(20)
    assert [int(str(one.body)) for one in got] == list(range(40, 60))
    assert all(one.message.delivery_count for one in got)
    table = DeltaTable(f"{HOME}/tables/topic_log", storage_options=s3.options())
    until(lambda: not journal_of(s3, table), "the journal is empty", every=0.05)
    assert "60" in said("info", "--home", HOME)
    gateway.stop()
    assert "is sound" in said("verify", "--home", HOME, "--deep")
    gateway.start()
    gateway.stop()


def test_a_pause_amid_a_sign_of_life_loses_nothing(
    make: Callable[..., Gateway], connect: Connect, topic: str, s3: FaultyS3
) -> None:
    """No other gateway took the home meanwhile. The request that was under way proves nothing about
    that: it is made anew."""
    gateway = make({"owner": {"lease_ms": LEASE_MS}}).start()
    assert gateway.process is not None
    s3.hold("key", "PUT home/lease")
    until(lambda: s3.holding, "a sign of life is under way")
    gateway.process.send_signal(signal.SIGSTOP)
    s3.plan(Plan(cut=("key",), hang_seconds=0.0))
    s3.hold()
    time.sleep(LEASE_MS / 1_000)  # the stimulus: it stands still, and the request ends
    s3.plan(Plan())
    gateway.process.send_signal(signal.SIGCONT)
    connect(port=gateway.port).sender(topic).publish("it serves")
    assert not gateway.events("owner.lost")
    gateway.stop()


def journal_of(s3: FaultyS3, table: DeltaTable) -> dict[int, object]:
    """The entries of the live journal, by group."""
    table.update_incremental()
    live = table.transaction_version("live_journal")
    assert live
    return dict(JournalObjects(ObjectStore(HOME, s3.options())).kinds(live))


def test_without_a_journal_each_group_is_a_commit(
    make: Callable[..., Gateway], connect: Connect, topic: str
) -> None:
    gateway = make({"journal": {"durability": "delta", "linger_ms": 20}}).start()
    peer = connect(topic, port=gateway.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    connect(port=gateway.port).sender(topic).publish(*(f"{n}" for n in range(30)))
    gateway.kill()
    gateway.start()
    got = connect(topic, port=gateway.port).durable(topic, "mine").bodies(30)
    assert got == [f"{n}" for n in range(30)]
    gateway.stop()


@pytest.mark.parametrize("durability", ["journal", "delta"])
def test_what_is_prepared_outlasts_a_restart_and_a_take_over(
    make: Callable[..., Gateway], durability: str
) -> None:
    """Of three prepared transactions one is committed after a kill, one is rolled back and one
    committed by the standby, which has the same of them."""
    settings = {"journal": {**SETTINGS["journal"], "durability": durability}}
    owner, standby = make(settings).start(), make(settings)
    with Jms(owner.port, "worker") as jms:
        for topic, id_ in (("a", "4:01:"), ("b", "4:02:"), ("c", "4:03:")):
            prepared(moved(jms, topic), asking(owner), id_)
    owner.kill()
    owner.start()
    assert listed(asking(owner)) == ["4:01:", "4:02:", "4:03:"]
    asking(owner).done("COMMIT", TRANSACTION, "4:01:")
    standby.options = ["--standby"]
    standby.spawn()
    standby.await_event("standby.waiting")
    owner.kill()
    standby.await_event("listening")
    manager = asking(standby)
    assert listed(manager) == ["4:02:", "4:03:"]
    for topic in "bc":
        with Jms(standby.port, "meanwhile") as jms:
            assert taken(jms, f"{topic}-in", 2) == ["first", "third"]
        with Jms(standby.port, "meanwhile") as jms:
            assert taken(jms, f"{topic}-out", 0) == []
    manager.refused(404, "ROLLBACK", TRANSACTION, "4:01:")
    manager.done("ROLLBACK", TRANSACTION, "4:02:")
    manager.done("COMMIT", TRANSACTION, "4:03:")
    left: dict[str, list[object]] = {"a": ["first", "third"], "b": ["second"], "c": []}
    for topic, bodies in left.items():
        with Jms(standby.port, "after") as jms:
            assert taken(jms, f"{topic}-in", len(bodies)) == bodies
        with Jms(standby.port, "after") as jms:
            assert taken(jms, f"{topic}-out", int(topic != "b")) == ["moved"] * (topic != "b")
    standby.stop()
    assert "is sound" in said("verify", "--home", HOME, "--deep")


def test_a_home_in_use_is_refused_and_one_that_was_given_back_is_taken(
    make: Callable[..., Gateway],
) -> None:
    owner = make().start()
    other = make()
    other.spawn()
    other.ended(1)
    assert "is in use by the gateway with pid" in other.log
    owner.stop()
    other.start()
    other.stop()


def test_many_small_groups_are_committed_by_the_process_that_builds(
    make: Callable[..., Gateway], connect: Connect, topic: str
) -> None:
    """It has no file to read: the frames go to it."""
    gateway = make({"commit": {"interval_ms": 300, "builder_groups": 2}}).start()
    peer = connect(topic, port=gateway.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    sender = connect(port=gateway.port).sender(topic)
    for n in range(300):
        sender.publish(f"{n}")
    assert not gateway.events("commit.builder_failed")
    got = connect(topic, port=gateway.port).durable(topic, "mine").bodies(300)
    assert got == [f"{n}" for n in range(300)]
    gateway.stop()
    assert "is sound" in said("verify", "--home", HOME)


def test_a_disk_doesnt_take_the_table_of_a_home_without_one(
    make: Callable[..., Gateway], own_gateway: Callable[..., Gateway]
) -> None:
    """The next groups are in another journal, and would be lost."""
    make().start().stop()
    other = own_gateway({"tables": {"url": f"{HOME}/tables"}})
    other.spawn()
    other.ended(2)
    assert "is the table of a home without a disk" in other.log


def test_a_store_doesnt_take_the_table_of_a_home_on_a_disk(
    make: Callable[..., Gateway], own_gateway: Callable[..., Gateway], connect: Connect, topic: str
) -> None:
    """That one's journal may have more."""
    disk = own_gateway({"tables": {"url": f"{HOME}/tables"}}).start()
    connect(topic, port=disk.port).durable(topic, "mine")
    disk.stop()
    other = make()
    other.spawn()
    other.ended(2)
    assert "is the table of a home on a disk" in other.log
    disk.start()
    disk.stop()


@pytest.mark.parametrize("condition", ["if-none-match", "if-match"])
def test_a_store_that_ignores_conditions_is_refused(
    make: Callable[..., Gateway], s3: FaultyS3, condition: str
) -> None:
    """Before anything is accepted there."""
    s3.plan(Plan(unconditional=condition))
    gateway = make()
    gateway.spawn()
    gateway.ended(2)
    assert "ignores conditions of puts" in gateway.log
    s3.plan(Plan())
    gateway.start()
    gateway.stop()


@pytest.mark.parametrize("address", ["ftp://lake/home", "s3://", "s3:///"])
@pytest.mark.parametrize("command", ["serve", "verify", "info"])
def test_an_address_of_no_store_is_one_sentence(command: str, address: str) -> None:
    done = commands().run(command, "--home", address)
    assert done.returncode == 2
    assert "it may be a folder, or STORE://BUCKET/PREFIX with one of s3://" in done.stderr
    assert "Traceback" not in done.stderr
