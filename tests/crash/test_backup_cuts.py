"""Backups and restores that are cut at each call that changes a file: by a kill, and by a power cut
that also takes what wasn't synced. What was whole before can be restored each time."""

import random
import shutil
from pathlib import Path

import pytest
from backup_homes import backed_up_lake, require_sound, restored_sound
from faults import ANY_CALL, Fault, Layer, Where, library
from fork_server import clean_environment, commands
from table_groups import bodies, framed, group, run
from verify_homes import COMMITTED, MadeHome

from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.tables.verify.home_info import take

#: Every call of the backup is cut at in one of so many rounds.
EVERY = 3


class CutBackups:
    """A home that goes on, and backups of it over a layer that cuts them."""

    def __init__(self, folder: Path) -> None:
        self.made = MadeHome(folder / "home")
        self.backup, self._restored = folder / "backup", folder / "restored"
        self.layer = Layer(folder / "layer", self.backup, shadow=True)
        self._dice = random.Random(3)
        self.made.log.commit([framed(one) for one in self.made.groups[COMMITTED:]])

    def go_on(self) -> None:
        """A message that no backup has."""
        log = self.made.log
        one = group(log.journal_version + 1, log.sequence_version, run("t", bodies(1, 5_000)))
        log.commit([framed(one)])

    def run(self, fault: Fault | None = None) -> int:
        """A backup, and its exit code."""
        self.layer.arm(fault)
        words = ("backup", "--home", self.made.home.root, "--to", self.backup)
        done = commands(library()).run(
            *words, environment=clean_environment() | self.layer.environment
        )
        assert fault or done.returncode == 0, done.stderr
        return done.returncode

    def cut(self, nth: int, *, power: bool) -> bool:
        """A backup that is cut before its nth call; whether it had so many."""
        cut = Fault(Where(ANY_CALL, "*", "before"), "kill", nth)
        killed = self.run(cut) != 0
        self.layer.arm(None)
        if power:
            self.layer.power_cut(self._dice)
        return killed

    def restored_sequence(self) -> int:
        """Up to which message a home of the backup goes, which must be sound."""
        home = self._restored / str(self._dice.random())
        restored_sound(self.backup, home)
        found = take(Home(home)).table
        assert found is not None
        return found.next_sequence


@pytest.fixture
def backups(tmp_path: Path) -> CutBackups:
    return CutBackups(tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_cut_backup_leaves_the_last_one(backups: CutBackups, power: bool) -> None:
    """Or is whole itself, when the manifest was in its place; nothing in between."""
    backups.run()
    whole = backups.restored_sequence()
    nth, found = 1, set[bool]()
    while True:
        backups.go_on()
        newest = backups.made.log.sequence_version
        killed = backups.cut(nth, power=power)
        sequence = backups.restored_sequence()
        assert sequence in {whole, newest}, f"cut before call {nth}"
        found.add(sequence == newest)
        whole = sequence
        if not killed:
            break
        nth += EVERY
    assert whole == newest, "it wasn't cut, so it is whole"
    assert nth > EVERY * 3
    assert found == {False, True}


#: The same of a restore of a lake, which makes more calls.
EVERY_OF_LAKE = 12


@pytest.mark.timeout(300)
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_cut_restore_of_a_lake_is_repeated(tmp_path: Path, power: bool) -> None:
    """Until all of it is there each log has the marker, with which no gateway serves it, or
    nothing; and lake.json comes when all are whole."""
    copy, root = tmp_path / "copy", tmp_path / "restored"
    backed_up_lake(tmp_path / "lake", copy)
    homes = (root, root / "logs" / "orders")
    root.mkdir()
    layer, dice, nth = Layer(tmp_path / "layer", root, shadow=True), random.Random(4), 1
    environment = clean_environment() | layer.environment
    words = ("restore", "--from", copy, "--home", root)
    found = set[int]()
    while True:
        layer.arm(Fault(Where(ANY_CALL, "*", "before"), "kill", nth))
        killed = commands(library()).run(*words, environment=environment).returncode != 0
        layer.arm(None)
        if power:
            layer.power_cut(dice)
        tables = [(home / "tables").exists() for home in homes]
        marks = [(home / "restoring").exists() for home in homes]
        assert all(tables) or not (root / "lake.json").exists()
        assert all(mark or whole for mark, whole in zip(marks, tables, strict=True)) or not any(
            tables
        )
        found.add(sum(marks))
        again = commands().run(*words)
        assert again.returncode == (0 if any(marks) or not all(tables) else 2), again.stderr
        assert not any((home / "restoring").exists() for home in homes)
        assert DiskLake(root).placement() == Placement(1, ("main", "orders"))
        for home in homes:
            require_sound(home)
        if not killed:
            break
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        nth += EVERY_OF_LAKE
    assert found == {0, 1, 2}
