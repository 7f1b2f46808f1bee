"""Backups and restores that are killed, at any moment; and two at once."""

import random
import time
from pathlib import Path

import pytest
from backup_homes import (
    backed_up,
    killed_after,
    require_sound,
    restored,
    restored_sound,
)
from fork_server import commands
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import Gateway
from verify_homes import MadeHome

from distributary.ingest.backup.backup_folder import reading, writing
from distributary.ingest.backup.disk_restore import DiskRestore
from distributary.pipeline.backup.backup_manifest import digest_of
from distributary.pipeline.errors import BackupLocked
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.verify.verify_home import quiet

#: Kills of each kind. They fall all over the time that the command takes undisturbed.
KILLS = 8


def filled(gateway: Gateway, count: int, size: int) -> None:
    """So many messages that don't shrink, in the log of a gateway."""
    with Peer(gateway.port, "filler") as peer:
        sender = peer.sender("orders")
        dice = random.Random(count)
        for _ in range(count // 50):
            sender.publish_data([encoded(dice.randbytes(size)) for _ in range(50)])


@pytest.mark.timeout(240)
def test_a_killed_backup_leaves_the_last_one_and_the_next_one_completes(tmp_path: Path) -> None:
    """Killed at random moments, under load: what was whole before can be restored each time, and
    in the end all of it is there."""
    dice, folder, at_work = random.Random(5), tmp_path / "backup", 0
    with Gateway(tmp_path / "gateway", {"commit": {"interval_ms": 50}}) as gateway:
        with Peer(gateway.port, "owner") as peer:
            peer.durable("orders", "all")
        filled(gateway, 200, 20_000)
        backed_up(gateway.home, folder)
        filled(gateway, 100, 20_000)
        began = time.monotonic()
        first = backed_up(gateway.home, folder)
        usual = time.monotonic() - began
        for number in range(KILLS):
            filled(gateway, 100, 20_000)
            words = ("backup", "--home", gateway.home, "--to", folder)
            hit = killed_after(dice.uniform(0, usual), *words)
            at_work, usual = at_work + hit, usual if hit else usual / 2  # it was slower before
            home = tmp_path / f"restored-{number}"
            restored_sound(folder, home)
        assert at_work, "none of the kills hit"
        last = backed_up(gateway.home, folder)
        gateway.stop()
    restored_sound(folder, tmp_path / "last")
    assert last["point"]["next_sequence"] == first["point"]["next_sequence"] + KILLS * 100
    here = sum(path.stat().st_size for path in (folder / "pieces").iterdir())
    assert here == last["bytes"], "what the killed ones left has gone"


def test_a_first_backup_that_is_killed_is_none(tmp_path: Path) -> None:
    """Then there is nothing to restore, and it says so; the next one uses what is there."""
    home = MadeHome(tmp_path / "home").home.root
    folder = tmp_path / "backup"
    with writing(folder) as into:
        into.keep("x", 0o644, lambda size, at: b"x" * size, 10)
    done = restored(folder, tmp_path / "restored")
    assert done.returncode == 2
    assert "no manifest.json" in done.stderr
    assert not (tmp_path / "restored").exists()
    backed_up(home, folder)
    restored_sound(folder, tmp_path / "restored")


@pytest.mark.timeout(240)
def test_a_killed_restore_leaves_no_half_of_a_home(tmp_path: Path) -> None:
    """There is none, or all of it; or it says that it is half a one, and is restored again."""
    dice, folder, at_work, whole = random.Random(6), tmp_path / "backup", 0, 0
    with Gateway(tmp_path / "gateway") as gateway:
        filled(gateway, 1_000, 20_000)
        backed_up(gateway.home, folder)
        gateway.stop()
    began = time.monotonic()
    assert restored(folder, tmp_path / "usual").returncode == 0
    usual = time.monotonic() - began
    for number in range(KILLS):
        home = tmp_path / f"restored-{number}"
        words = ("restore", "--from", folder, "--home", home)
        hit = killed_after(dice.uniform(0, usual), *words)
        at_work, usual = at_work + hit, usual if hit else usual / 2  # it was slower before
        if (home / "tables").exists() and not (home / "restoring").exists():
            whole += 1
        else:
            assert restored(folder, home).returncode == 0
        require_sound(home)
    assert at_work, "none of the kills hit"
    assert whole < KILLS


def test_a_restore_that_was_killed_between_two_names_goes_on(tmp_path: Path) -> None:
    """Files that have their place are placed anew; no gateway serves the home before, and a restore
    of another backup doesn't touch it."""
    folder, home = tmp_path / "backup", tmp_path / "restored"
    backed_up(MadeHome(tmp_path / "home").home.root, folder)
    one = DiskRestore(folder, Home(home))
    one.open()
    one.begin(digest_of(one.digest.encode()))
    one.check(quiet)
    one.close()
    (home / ".restoring" / "journal").rename(home / "journal")
    served = commands().run("serve", "--home", home, "--listen", "127.0.0.1:0", timeout=60)
    assert served.returncode == 2
    assert "a restore of it was cut off" in served.stderr
    assert f"{home} is being restored" in commands().run("doctor", "--home", home).stdout
    for look in (["verify"], ["info"], ["upgrade", "--check"]):
        seen = commands().run(*look, "--home", home, timeout=60)
        assert seen.returncode == 2, (look, seen.stdout)
        assert f"{home} is being restored, or a restore of it was cut off" in seen.stderr
    backed_up(MadeHome(tmp_path / "home2").home.root, tmp_path / "backup2")
    assert restored(tmp_path / "backup2", home).returncode == 2
    restored_sound(folder, home)
    done = restored(folder, home)
    assert done.returncode == 2
    assert "nothing is overwritten" in done.stderr
    require_sound(home)


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    """Two backups to one folder; a restore from one that is written; two restores may."""
    home = MadeHome(tmp_path / "home").home.root
    folder = tmp_path / "backup"
    backed_up(home, folder)
    with writing(folder):
        done = commands().run("backup", "--home", home, "--to", folder)
        assert done.returncode == 1
        assert "is being used by another backup or restore" in done.stderr
        assert restored(folder, tmp_path / "restored").returncode == 1
        assert not (tmp_path / "restored").exists()
    with reading(folder):
        restored_sound(folder, tmp_path / "restored")
        with pytest.raises(BackupLocked), writing(folder):
            pass
    backed_up(home, folder)
