"""Refusals of a backup and a restore: one sentence, an exit code, and nothing is touched."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from backup_homes import backed_up, backed_up_lake, require_sound, restored, restored_sound
from fork_server import commands
from table_groups import bodies, framed, group, run
from verify_homes import COMMITTED, MadeHome

from distributary.ingest.backup.backup_folder import writing
from distributary.ingest.backup.backup_run import ROUNDS_MAX, back_up
from distributary.ingest.backup.disk_reader import DiskReader
from distributary.pipeline.backup.backup_manifest import BackupManifest
from distributary.pipeline.errors import StoreError
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import lock
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.verify.verify_home import quiet


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


@pytest.fixture
def folder(made: MadeHome, tmp_path: Path) -> Path:
    backed_up(made.home.root, tmp_path / "backup")
    return tmp_path / "backup"


def left_in(home: Path) -> list[str]:
    """The names that a refused restore has left, but for the files of the lock."""
    if not home.exists():
        return []
    return sorted({path.name for path in home.iterdir()} - {"lock", "lock.takeover"})


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def newer(folder: Path) -> None:
    path = folder / "manifest.json"
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(json.dumps(json.loads(first) | {"format": 3}).encode() + b"\n" + rest)


def piece(folder: Path) -> Path:
    return max((folder / "pieces").iterdir(), key=lambda one: one.stat().st_size)


DAMAGE: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "a piece flipped": (lambda f: flip(piece(f), 100), 1, "damaged: its bytes have another digest"),
    "a piece cut": (lambda f: os.truncate(piece(f), 50), 1, "damaged: its bytes have another"),
    "a piece gone": (lambda f: piece(f).unlink(), 1, "is gone"),
    "the manifest flipped": (lambda f: flip(f / "manifest.json", 400), 1, "is damaged"),
    "the manifest cut": (lambda f: os.truncate(f / "manifest.json", 300), 1, "is damaged"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), 2, "has no manifest.json"),
    "a newer format": (newer, 2, "newer format, 3"),
    "another thing": (lambda f: (f / "manifest.json").write_text("{}"), 1, "is damaged"),
    "no folder": (shutil.rmtree, 2, "is no folder"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_backup_is_refused_and_nothing_is_made(
    folder: Path, tmp_path: Path, what: str
) -> None:
    damage, code, said = DAMAGE[what]
    damage(folder)
    done = restored(folder, tmp_path / "restored")
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("distributary: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert left_in(tmp_path / "restored") == []


def test_the_next_backup_replaces_pieces_that_were_cut(
    folder: Path, made: MadeHome, tmp_path: Path
) -> None:
    """Of a data file, which isn't read again otherwise, and of a small file."""
    sizes = {one.name: one.stat().st_size for one in (folder / "pieces").iterdir()}
    for one in (folder / "pieces").iterdir():
        os.truncate(one, one.stat().st_size // 2)
    backed_up(made.home.root, folder)
    assert {one.name: one.stat().st_size for one in (folder / "pieces").iterdir()} == sizes
    restored_sound(folder, tmp_path / "restored")


def test_nothing_is_overwritten(folder: Path, made: MadeHome, tmp_path: Path) -> None:
    """A home with anything in it, a file, a home that is in use, settings that are there."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("mine")
    for home in (other, other / "mine", made.home.root):
        done = restored(folder, home)
        assert done.returncode == 2, done.stderr
        assert (other / "mine").read_text() == "mine"
    done = restored(folder, tmp_path / "restored", "--settings", other)
    assert done.returncode == 2
    assert "isn't empty, it has mine" in done.stderr
    assert not (tmp_path / "restored").exists()
    with lock(Home(tmp_path / "used")):
        done = restored(folder, tmp_path / "used")
        assert done.returncode == 1
        assert "is in use by the gateway" in done.stderr
    (tmp_path / "empty").mkdir()
    restored_sound(folder, tmp_path / "empty")
    restored_sound(folder, tmp_path / "used")


def test_a_home_is_no_backup(tmp_path: Path) -> None:
    """Its gateway's lock isn't a backup's, and a restore takes none there."""
    with lock(Home(tmp_path / "home")):
        done = restored(tmp_path / "home", tmp_path / "restored")
    assert done.returncode == 2, done.stderr
    assert "has no manifest.json: it is no backup" in done.stderr
    assert not (tmp_path / "restored").exists()


def test_a_folder_takes_one_log_alone(folder: Path, made: MadeHome, tmp_path: Path) -> None:
    """Not another home's, not one that went back, not a copy that went on by itself; the backup
    that is there stays. A restored home that goes on may go on with its backup."""

    def refused(home: Path) -> str:
        before = (folder / "manifest.json").read_bytes()
        done = commands().run("backup", "--home", home, "--to", folder)
        assert done.returncode == 2, done.stderr
        assert (folder / "manifest.json").read_bytes() == before
        return done.stderr

    rest = [framed(one) for one in made.groups[COMMITTED:]]
    assert "has a backup of another home" in refused(MadeHome(tmp_path / "b").home.root)
    shutil.copytree(folder, tmp_path / "old")
    made.log.commit(rest)
    backed_up(made.home.root, folder)
    restored_sound(tmp_path / "old", tmp_path / "copy")
    said = refused(tmp_path / "copy")
    assert "of this log as of version 3, and the home has only 2" in said
    TopicLog.open(Home(tmp_path / "copy").topic_log).commit(rest)
    assert "of a copy of this home that went on by itself" in refused(tmp_path / "copy")
    restored_sound(folder, tmp_path / "heir")
    log = TopicLog.open(Home(tmp_path / "heir").topic_log)
    log.commit([framed(group(7, 20, run("orders", bodies(1, 100))))])
    assert backed_up(tmp_path / "heir", folder)["point"]["log"]["version"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "s3://bucket/backup"), "--to takes a folder"),
        (("--to", "{home}/backup"), "lies in the home"),
        (("--to", "{full}"), "has other files in it than a backup, such as mine"),
        (("--to", "{new}", "--config", "{config}"), "only tables on a disk are copied"),
        (("--to", "{new}", "--config", "{new}/x.toml"), "x.toml"),
    ],
)
def test_a_backup_that_cannot_be_meant(
    made: MadeHome, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    config = tmp_path / "gateway.toml"
    config.write_text('[tables]\nurl = "s3://bucket/tables"\n')
    names = {"home": made.home.root, "full": full, "new": tmp_path / "new", "config": config}
    done = commands().run(
        "backup", "--home", made.home.root, *(word.format(**names) for word in words)
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "new").exists()
    assert not (made.home.root / "backup").exists()


def test_a_folder_without_a_log_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    done = commands().run("backup", "--home", tmp_path / "home", "--to", tmp_path / "b")
    assert done.returncode == 2
    assert "there is no topic_log" in done.stderr


class Vanishing:
    """Called by a backup with its progress: the largest data file goes meanwhile, and is back for
    the next round, `times` times."""

    def __init__(self, made: MadeHome, times: int) -> None:
        self._file, self._times = made.file("message"), times
        self._hidden = self._file.with_name("hidden")

    def __call__(self, what: str, done: int, total: int) -> None:
        if what == "journal" and self._hidden.exists():
            self._hidden.rename(self._file)
        if what == "files" and done == 0 and total and self._times:
            self._times -= 1
            self._file.rename(self._hidden)


def test_what_goes_while_it_is_read_is_read_in_another_round(
    made: MadeHome, tmp_path: Path
) -> None:
    """A bounded number of times; what the former rounds have copied isn't copied again."""
    report = back_up(DiskReader(made.home), tmp_path / "b", {}, Vanishing(made, 2))
    assert report.rounds == 3
    assert report.written_bytes == report.bytes
    restored_sound(tmp_path / "b", tmp_path / "restored")
    before = (tmp_path / "b" / "manifest.json").read_bytes()
    shutil.rmtree(tmp_path / "b" / "pieces")
    with pytest.raises(StoreError, match="went while it was read"):
        back_up(DiskReader(made.home), tmp_path / "b", {}, Vanishing(made, ROUNDS_MAX))
    assert (tmp_path / "b" / "manifest.json").read_bytes() == before


def of_lake(copy: Path, what: str) -> None:
    """Something happens to a copy of a lake's backup."""
    orders = copy / "orders"
    match what:
        case "a log is gone":
            shutil.rmtree(orders)
        case "a log has no manifest":
            (orders / "manifest.json").unlink()
        case "a log is older":
            path = orders / "manifest.json"
            old = BackupManifest.decode(path.read_bytes(), "")
            point = replace(old.point, last_group=old.point.last_group - 1)
            path.write_bytes(replace(old, point=point).encode())
        case "a log is another":
            shutil.rmtree(orders)
            shutil.copytree(copy / "main", orders)
        case _:
            flip(piece(copy / "main"), 100)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("a log is gone", "the backup of the log orders, is gone"),
        ("a log has no manifest", "the backup of the log orders, is gone"),
        ("a log is older", "the backup of the log orders, is older than that of the lake"),
        ("a log is another", "the backup of the log orders, is of another log"),
        ("the last log is damaged", "is damaged"),
    ],
)
def test_of_a_lake_all_logs_are_restored_or_none(tmp_path: Path, what: str, said: str) -> None:
    """And the same with a sound copy is taken."""
    backed_up_lake(tmp_path / "lake", tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", tmp_path / "copy")
    of_lake(tmp_path / "copy", what)
    home = tmp_path / "restored"
    done = restored(tmp_path / "copy", home)
    assert done.returncode == 1, done.stderr
    assert said in done.stderr
    assert set(left_in(home)) <= {"logs"}
    assert left_in(home / "logs" / "orders") == []
    assert restored(tmp_path / "backup", home).returncode == 0
    for one in (home, home / "logs" / "orders"):
        require_sound(one)


def test_a_lake_whose_next_backup_was_killed_has_the_last_one(tmp_path: Path) -> None:
    """In a log that is new in it; those that it has copied are later ones."""
    root, copy = tmp_path / "lake", tmp_path / "backup"
    backed_up_lake(root, copy)
    DiskLake(root).replace(
        Placement(1, ("main", "orders")), Placement(2, ("main", "new", "orders"))
    )
    MadeHome(root / "logs" / "new")
    log = TopicLog.open(Home(root / "logs" / "orders").topic_log)
    later = group(log.journal_version + 1, log.sequence_version, run("orders", bodies(1, 100)))
    log.commit([framed(later)])
    back_up(DiskReader(Home(root / "logs" / "orders")), copy / "orders", {}, quiet)
    with writing(copy / "new") as into:
        into.keep("x", 0o644, lambda size, at: b"x" * size, 10)
    assert restored(copy, tmp_path / "restored").returncode == 0
    assert DiskLake(tmp_path / "restored").placement().version == 1
    for one in (tmp_path / "restored", tmp_path / "restored" / "logs" / "orders"):
        require_sound(one)
    assert not (tmp_path / "restored" / "logs" / "new").exists()
    assert set(backed_up(root, copy)) == {"main", "new", "orders"}
