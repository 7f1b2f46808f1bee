"""A backup beside a gateway at work, and the home that is made of it: nothing that was accepted
before it began is missing, nothing that was settled before comes again, all else is marked."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backup_homes import (
    NumberedLoad,
    all_of,
    backed_up,
    bodies_of,
    number_of,
    require_sound,
    restored_sound,
)
from gateway_jms import Jms
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from gateway_transactions import transacted
from proton import Delivery, symbol
from table_groups import NOON, bodies, framed, group, run
from verify_homes import MadeHome

from distributary.ingest.backup.backup_folder import BackupFolder
from distributary.ingest.backup.backup_run import back_up
from distributary.ingest.backup.disk_reader import DiskReader
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.upkeep import table_upkeep
from distributary.pipeline.tables.verify.home_info import take
from distributary.pipeline.tables.verify.verify_home import quiet

Make = Callable[..., Gateway]
#: Commits every few milliseconds, segments that are soon full and used again, a log that is
#: checkpointed and cleaned: much moves under a reader.
BUSY = {
    "commit": {"interval_ms": 20},
    "journal": {"segment_bytes": 1 << 20},
    "upkeep": {"log_entries_max": 200},
}
#: Nothing is committed by itself: all is in the journal alone.
LAZY = {"commit": {"interval_ms": 3_600_000}}


def started_on(home: Path, tmp_path: Path, name: str, settings: object = None) -> Gateway:
    """A gateway that serves a restored home."""
    gateway = Gateway(tmp_path / name, settings)
    gateway.home = home
    return gateway


@pytest.mark.timeout(180)
@pytest.mark.parametrize("settings", [BUSY, LAZY], ids=["commits", "journal"])
def test_all_that_was_accepted_before_it_began_is_in_it(
    own_gateway: Make, connect: Connect, tmp_path: Path, settings: dict[str, dict[str, object]]
) -> None:
    """Under load, several times to one folder; each is restored after the gateway's death."""
    moments: list[tuple[int, set[int]]] = []
    with own_gateway(settings) as gateway:
        load = NumberedLoad(gateway, bytes_each=2_000)
        load.reach(200)
        for number in range(3):
            moments.append((load.accepted, set(load.settled)))
            folder = tmp_path / f"backup-{number}" if number != 2 else tmp_path / "backup-1"
            backed_up(gateway.home, folder)
            load.reach(load.accepted + 100)
        accepted_after = load.accepted
        load.end()
        gateway.kill()
    for number, moment in ((0, moments[0]), (1, moments[2])):
        accepted, settled = moment
        home = tmp_path / f"restored-{number}"
        restored_sound(tmp_path / f"backup-{number}", home)
        with started_on(home, tmp_path, f"of-{number}") as other:
            got = all_of(connect("load", port=other.port).durable(load.TOPIC, load.NAME))
            came = [number_of(one) for one in got]
            assert came == sorted(set(came))
            assert not settled & set(came), "settled before the backup began"
            assert not set(range(accepted)) - load.settled - set(came), "accepted, and gone"
            assert max(came) <= accepted_after
            # What was delivered after the backup comes again, so nothing may come unmarked.
            assert all(one.message.delivery_count > 0 for one in got)
            other.kill()
        require_sound(home)


def test_what_a_home_can_have_is_in_it(own_gateway: Make, connect: Connect, tmp_path: Path) -> None:
    """A queue, a delayed message, a pattern, dead letters, a policy and a pause, a transaction that
    was committed; none of one that wasn't."""
    with own_gateway() as gateway, Jms(gateway.port) as jms:
        peer = connect("c", port=gateway.port)
        queue = peer.sender("jobs", capabilities=("queue",))
        queue.publish("one", "two", "three")
        worker = peer.receiver("jobs", capabilities=("queue",))
        [first] = worker.take()
        worker.confirm([first])
        [second] = worker.take()
        worker.confirm([second], Delivery.REJECTED)
        later = {symbol("x-opt-delivery-time"): round((time.time() + 3_600) * 1_000)}
        queue.publish_data([encoded("delayed", annotations=later)])
        pattern = peer.durable("orders.*", "all")
        session = transacted(jms)
        producer = session.producer("orders.eu")
        session.post(producer, "committed", of=session.id)
        assert session.commit() == ""
        session.declare()
        session.post(producer, "open", of=session.id)
        manager = Manager(peer)
        manager.done("PAUSE", "subscription", "container/c/all")
        peer.leave(pattern, closed=False)

        backed_up(gateway.home, tmp_path / "backup")
        queue.publish("too late")
        gateway.kill()
    home = tmp_path / "restored"
    restored_sound(tmp_path / "backup", home)
    with started_on(home, tmp_path, "other") as other:
        peer = connect("c", port=other.port)
        assert bodies_of(peer.receiver("jobs", capabilities=("queue",))) == ["three"]
        assert bodies_of(peer.receiver("DLQ.queue/jobs", capabilities=("queue",))) == ["two"]
        every = peer.durable("orders.*", "all")
        assert every.nothing()
        Manager(peer).done("RESUME", "subscription", "container/c/all")
        assert every.bodies() == ["committed"]
        assert every.nothing()
        found = {line.topic: line.messages for line in take(Home(home)).topics}
        assert found["queue://jobs"] == 4


def test_a_second_backup_copies_what_is_new(
    own_gateway: Make, tmp_path: Path, connect: Connect
) -> None:
    """And what the first one had and the home no longer has goes from the folder."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        peer.durable("t", "d")
        sender = peer.sender("t")
        for _ in range(5):
            sender.publish(*(random.randbytes(1_000) for _ in range(100)))
        until(lambda: take(Home(gateway.home)).journal.uncommitted == 0, "all is committed")
        folder = tmp_path / "backup"
        first = backed_up(gateway.home, folder)
        sender.publish("little")
        until(lambda: take(Home(gateway.home)).journal.uncommitted == 0, "all is committed")
        second = backed_up(gateway.home, folder)
        third = backed_up(gateway.home, folder)
        gateway.stop()
    assert first["written_bytes"] == first["bytes"] > 500_000
    assert 0 < second["written_bytes"] < 20_000
    assert third["written_bytes"] == 0
    assert second["read_bytes"] < first["read_bytes"]
    here = sum(path.stat().st_size for path in (folder / "pieces").iterdir())
    assert here == third["bytes"]


def test_a_checkpoint_that_comes_while_the_log_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has the checkpoint that its pointer names: readers of the restored table need not
    list its log."""
    made = MadeHome(tmp_path / "home")
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 1)

    def go_on() -> None:
        """A commit, and a checkpoint of it."""
        version, first = made.log.journal_version + 1, made.log.sequence_version
        made.log.commit([framed(group(version, first, run("t", bodies(1, 100))))])
        step = made.log.upkeep(now=NOON, floor=0)
        assert step is not None
        assert step.kind == "checkpoint"

    go_on()
    copied = BackupFolder.keep

    def keep(into: BackupFolder, path: str, *rest: Any) -> BackedFile:
        if "_delta_log" in path:
            go_on()
        return copied(into, path, *rest)

    monkeypatch.setattr(BackupFolder, "keep", keep)
    back_up(DiskReader(made.home), tmp_path / "backup", {}, quiet)
    restored_sound(tmp_path / "backup", tmp_path / "restored")


def test_the_files_that_settings_name_come_along(own_gateway: Make, tmp_path: Path) -> None:
    """Only with --config, and only to the folder that one names; with their rights."""
    users = tmp_path / "users.toml"
    policies = tmp_path / "policies.toml"
    policies.write_text("[subscription]\n")
    config = tmp_path / "gateway.toml"
    config.write_text(f'[delivery]\npolicies = "{policies}"\n')
    with own_gateway() as gateway:
        backed_up(gateway.home, tmp_path / "backup", "--config", config)
        gateway.stop()
    policies.chmod(0o640)
    restored_sound(tmp_path / "backup", tmp_path / "r1")
    assert not (tmp_path / "r1" / "settings").exists()
    restored_sound(tmp_path / "backup", tmp_path / "r2", "--settings", tmp_path / "s")
    found = {
        path.relative_to(tmp_path / "s").as_posix(): path.read_text()
        for path in (tmp_path / "s").rglob("*")
        if path.is_file()
    }
    assert found == {
        "config/gateway.toml": config.read_text(),
        "delivery.policies/policies.toml": "[subscription]\n",
    }
    assert not users.exists()
