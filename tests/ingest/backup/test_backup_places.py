"""Places of a backup and of a restore: full disks, folders within each other, homes and logs that
are half there. One sentence says what to do, and the last backup stays as it was."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from disk import SmallDisk
from verify_homes import MadeHome

from distributary.ingest.backup import lake_backup
from distributary.ingest.backup.backup_folder import reading, writing
from distributary.ingest.backup.backup_run import BackupReport, back_up
from distributary.ingest.backup.disk_reader import DiskReader
from distributary.ingest.backup.disk_restore import DiskRestore
from distributary.ingest.backup.restore_run import RestoredLake, restore
from distributary.ingest.cli import main
from distributary.pipeline.backup.backup_manifest import digest_of
from distributary.pipeline.errors import BackupLocked, InvalidRequest, StoreError
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.tables.verify.verify_home import quiet


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake whose logs `main` and `orders` have messages."""
    root = tmp_path / "lake"
    for home in (root, root / "logs" / "orders"):
        MadeHome(home)
    DiskLake(root).make(Placement(1, ("main", "orders")), "a" * 64)
    return root


@pytest.fixture
def disk(small_disk: Callable[[int], SmallDisk]) -> SmallDisk:
    return small_disk(1)


def backed_up(home: Path, folder: Path) -> BackupReport:
    return back_up(DiskReader(Home(home)), folder, {}, quiet)


def lake_backed_up(root: Path, folder: Path, config: Path | None = None) -> set[str]:
    """The logs of which it has copies."""
    settings = {} if config is None else {"config": config}

    def reader(place: str) -> DiskReader:
        return DiskReader(Home(Path(place)))

    def copied(place: str, to: Path) -> BackupReport:
        return back_up(reader(place), to, settings, quiet)

    return set(lake_backup.back_up_lake(DiskLake(root), folder, reader, copied))


def restored_lake(folder: Path, root: Path) -> None:
    found = lake_backup.in_folder(folder, str(root))
    assert found is not None
    manifest, logs = found
    restores = [DiskRestore(one.folder, Home(Path(one.home))) for one in logs]
    restore(restores, quiet, RestoredLake(DiskLake(root), manifest, is_there=False))


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str]:
    """Exit code and output of a command, run by this process."""
    monkeypatch.setattr("sys.argv", ["distributary", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def test_a_full_disk_of_the_backup_is_told(made: MadeHome, disk: SmallDisk) -> None:
    """The sentence is about the backup's folder, not about the home; then there is room."""
    folder = disk.outside / "backup"
    disk.fill()
    with pytest.raises(StoreError, match="can't be written to: No space left on device") as told:
        backed_up(made.home.root, folder)
    assert str(folder) in str(told.value)
    assert str(made.home.root) not in str(told.value)
    disk.empty()
    backed_up(made.home.root, folder)


def test_a_full_disk_of_the_restored_home_is_told(
    made: MadeHome, disk: SmallDisk, tmp_path: Path
) -> None:
    """And with room the same restore is whole."""
    folder, home = tmp_path / "backup", disk.outside / "home"
    backed_up(made.home.root, folder)
    for _ in range(2):
        disk.fill(but=4 * 4096)  # its lock and its marker
        with pytest.raises(StoreError, match="can't be written to: No space left on dev") as told:
            restore([DiskRestore(folder, Home(home))], quiet)
        assert str(home) in str(told.value)
        disk.empty()
    restore([DiskRestore(folder, Home(home))], quiet)
    assert (home / "tables").is_dir()


@pytest.mark.parametrize("to", ["home/backup", "link/backup", "link/../home/backup"])
def test_a_backup_within_its_home_is_refused(made: MadeHome, tmp_path: Path, to: str) -> None:
    (tmp_path / "link").symlink_to(made.home.root)
    with pytest.raises(InvalidRequest, match="lies in the home"):
        backed_up(made.home.root, tmp_path / to)
    assert not (made.home.root / "backup").exists()


def test_a_backup_within_its_lake_is_refused_before_a_log_is_copied(lake: Path) -> None:
    with pytest.raises(InvalidRequest, match="lies in the home"):
        lake_backed_up(lake, lake / "backup")
    assert not (lake / "backup").exists()


def test_a_lake_is_not_copied_among_other_files(lake: Path, tmp_path: Path) -> None:
    """A second backup goes to the folder of the first, whole or not."""
    folder, other = tmp_path / "backup", tmp_path / "other"
    lake_backed_up(lake, folder)
    (folder / "manifest.json").unlink()
    lake_backed_up(lake, folder)
    other.mkdir()
    (other / "mine").write_text("mine")
    with pytest.raises(InvalidRequest, match="other files in it than a backup, such as mine"):
        lake_backed_up(lake, other)
    assert [path.name for path in other.iterdir()] == ["mine"]


def test_a_log_that_the_last_backup_has_is_not_left_out(lake: Path, tmp_path: Path) -> None:
    """Its disk isn't mounted: it looks like a log that was never served."""
    folder, orders = tmp_path / "backup", lake / "logs" / "orders"
    lake_backed_up(lake, folder)
    before = (folder / "manifest.json").read_bytes()
    orders.rename(tmp_path / "away")
    orders.mkdir()
    with pytest.raises(StoreError, match="the last backup has the log orders"):
        lake_backed_up(lake, folder)
    assert (folder / "manifest.json").read_bytes() == before
    orders.rmdir()
    (tmp_path / "away").rename(orders)
    assert lake_backed_up(lake, folder) == {"main", "orders"}


def cut_off(folder: Path, homes: dict[str, Path]) -> None:
    """A restore of a lake that was cut off when all files of its logs were in their places."""
    restores = [DiskRestore(folder / log, Home(home)) for log, home in homes.items()]
    for one in restores:
        one.open()
    marker = digest_of("".join(one.digest for one in restores).encode())
    for one in restores:
        one.begin(marker)
        one.check(quiet)
        one.place(quiet)
        one.close()


def test_half_a_home_is_not_copied(lake: Path, tmp_path: Path) -> None:
    """A restore of a lake was cut off before the lake's own files were there: `main` looks like a
    home with one log. It is restored again, and copied."""
    folder, home, half = tmp_path / "backup", tmp_path / "restored", tmp_path / "half"
    lake_backed_up(lake, folder)
    cut_off(folder, {"orders": home / "logs" / "orders", "main": home})
    with pytest.raises(InvalidRequest, match=r"restored is being restored, or a restore of it was"):
        backed_up(home, half)
    restored_lake(folder, home)
    (home / "logs" / "orders" / RESTORING).write_text("of another restore")
    with pytest.raises(InvalidRequest, match="orders is being restored"):
        lake_backed_up(home, half)
    assert not half.exists(), "no log was copied"
    (home / "logs" / "orders" / RESTORING).unlink()
    assert lake_backed_up(home, folder) == {"main", "orders"}


@pytest.mark.parametrize(
    ("to", "settings"),
    [
        ("home", "home"),
        ("home", "home/settings"),
        ("home", "link"),
        ("home/main", "home"),
        ("backup/home", "settings"),
        ("home", "backup/settings"),
    ],
)
def test_a_restore_into_its_own_folders_is_refused(
    made: MadeHome,
    tmp_path: Path,
    to: str,
    settings: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Settings in a home are foreign files there, so is a home in a backup: the next restore or
    backup would be refused. In one folder with the home they took its files away."""
    folder = tmp_path / "backup"
    backed_up(made.home.root, folder)
    made.home.root.rename(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    words = ("--from", folder, "--home", tmp_path / to, "--settings", tmp_path / settings)
    code, said = run(monkeypatch, capsys, "restore", *words)
    assert code == 2, said
    assert "lies in" in said
    assert not (tmp_path / "home").exists()
    assert {path.name for path in folder.iterdir()} == {"lock", "manifest.json", "pieces"}


def test_a_copy_by_hard_links_says_whose_lock_it_has(made: MadeHome, tmp_path: Path) -> None:
    """`cp -al` copies the lock, too: a backup beside it locks the copy."""
    folder, copy = tmp_path / "backup", tmp_path / "monday"
    backed_up(made.home.root, folder)
    shutil.copytree(folder, copy, copy_function=os.link)
    with writing(folder):
        with pytest.raises(BackupLocked, match="copy by hard links"), reading(copy):
            pass
        (copy / "lock").unlink()
        restore([DiskRestore(copy, Home(tmp_path / "restored"))], quiet)


def test_a_lake_is_not_restored_around_another_log(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that was never served when the backup was made, and whose folder has files: it would
    be the lake's from then on."""
    folder, home = tmp_path / "backup", tmp_path / "restored"
    DiskLake(lake).replace(DiskLake(lake).placement(), Placement(2, ("main", "new", "orders")))
    lake_backed_up(lake, folder)
    MadeHome(home / "logs" / "new")
    words = ("restore", "--from", folder, "--home", home)
    code, said = run(monkeypatch, capsys, *words)
    assert code == 2, said
    assert "logs/new isn't empty, it has tables" in said
    assert [path.name for path in home.iterdir()] == ["logs"]
    shutil.rmtree(home / "logs" / "new")
    assert run(monkeypatch, capsys, *words)[0] == 0


def test_the_settings_of_a_lake_are_restored_once(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no log says that they stayed in the backup."""
    folder, config = tmp_path / "backup", tmp_path / "gateway.toml"
    config.write_text("")
    lake_backed_up(lake, folder, config)
    words = ("restore", "--from", folder, "--settings", tmp_path / "s", "--home")
    code, said = run(monkeypatch, capsys, *words, tmp_path / "restored")
    assert code == 0, said
    assert "1 files of the settings are in" in said
    assert "stayed in the backup" not in said
