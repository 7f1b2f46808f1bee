"""Checkpoints and the clean-up of the table's own log: short, and whole for every reader."""

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from table_groups import DAY_US, NOON
from table_story import Story, assert_same

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta import checkpoint, log_entries, table_log
from distributary.pipeline.tables.delta.commits import json_path, read_commit
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.delta.table_log import version_of
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep
from distributary.pipeline.tables.upkeep.table_upkeep import SEEN_INTERVAL_US, UpkeepLimits


def test_a_checkpoint_is_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that begin at a checkpoint see the same table as those that read every entry."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log")
    for _ in range(25):
        story.commit(1)
        story.upkeep()
    entries = log_entries.LogEntries(LocalStore(story.log.path))
    assert entries.checkpoints == [10, 20]
    for version in range(entries.checkpointed + 1):
        json_path(story.log.path, version).unlink()
    assert_same(story)
    story.reopen()
    assert_same(story)


def test_a_torn_pointer_to_the_checkpoint_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pointer is a hint; without it the log itself says where it begins."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log")
    for _ in range(11):
        story.commit(1)
    assert "checkpoint" in story.upkeep()
    pointer = story.log.path / "_delta_log" / "_last_checkpoint"
    for torn in (b"", pointer.read_bytes()[:20]):
        pointer.write_bytes(torn)
        story.reopen()
        assert_same(story)


def test_a_checkpoint_has_tombstones_of_files_that_are_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the checkpoint alone knows the removed files, over starts and other owners: a
    vacuum may delete them once they have expired."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log")
    for nth in range(35):
        story.commit(1)
        story.upkeep()
        story.now += 1_000_000
        if nth in (13, 25, 31):
            story.reopen()
    store = LocalStore(story.log.path)
    last = log_entries.LogEntries(store).checkpointed
    removed = [path for version in range(last + 1) for path in read_commit(store, version).removed]
    assert len(removed) > 30
    for version in range(last + 1):
        json_path(story.log.path, version).unlink()
    table = DeltaTable(story.log.path, version=last)
    expired = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    assert sorted(expired) == sorted(removed)
    assert not table.vacuum(retention_hours=24 * 365 * 100, dry_run=True)
    assert_same(story)


def test_tombstones_go_with_the_entries_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of more than are kept the newest stay."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log", LITTLE_LOG)
    for _ in range(90):
        story.commit(1, 1)
        story.upkeep()
        story.now += 1_000_000
    store = LocalStore(story.log.path)
    entries = log_entries.LogEntries(store)
    assert entries.oldest > 20
    found = checkpoint.tombstones(store, entries.checkpointed).field("path").to_pylist()
    made = range(entries.oldest, entries.checkpointed + 1)
    known = [path for version in made for path in read_commit(store, version).removed]
    assert set(known) <= set(found)
    assert len(found) < len(known) + 60
    monkeypatch.setattr(checkpoint, "TOMBSTONES_MAX", 5)
    few = checkpoint.kept(checkpoint.tombstones(store, entries.checkpointed), 0)
    assert few.field("path").to_pylist() == found[-5:]


LITTLE_LOG = UpkeepLimits(log_entries_max=20, log_retention_days=7, retention_days=0)


def small_steps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 10)
    patch.setattr(log_entries, "ENTRIES_MAX", 10)
    patch.setattr(table_upkeep, "ENTRIES_MAX", 10)


class LateStore(LocalStore):
    """Its first list of the log is one of before."""

    def __init__(self, root: Path, before: list[str]) -> None:
        super().__init__(root)
        self._before: list[str] | None = before

    def files(self, folder: str) -> list[str]:
        before, self._before = self._before, None
        return before if before is not None else super().files(folder)


def test_what_a_former_owner_cleans_up_while_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is read anew, from the remaining entries; one that really lacks an entry is
    refused."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log", LITTLE_LOG)
    for _ in range(15):
        story.commit(1)
        story.upkeep()
    names = LocalStore(story.log.path).files("_delta_log")
    for _ in range(40):
        story.commit(1)
        story.upkeep()
    oldest = min(version_of(name) or 0 for name in names if name.endswith(".json"))
    assert not json_path(story.log.path, oldest).exists()
    late = TopicLog.open(story.log.path, store=LateStore(story.log.path, names), create=False)
    assert late.state == story.log.state
    for path in (story.log.path / "_delta_log").glob("*.checkpoint.parquet"):
        path.unlink()
    with pytest.raises(StoreError):
        TopicLog.open(story.log.path, create=False)


def test_a_pointer_that_a_former_owner_set_back_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a checkpoint that was cleaned up, or one that came back with it: readers find the newer
    one, and the next checkpoint sets it right."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log", LITTLE_LOG)
    store = LocalStore(story.log.path)
    old: dict[str, bytes] = {}
    while not old or store.exists(min(old)):
        story.commit(1)
        story.upkeep()
        if not old and store.exists(checkpoint.POINTER):
            at = table_log.checkpoint_name(checkpoint.pointed(store))
            old = {at: store.read(at), checkpoint.POINTER: store.read(checkpoint.POINTER)}
    store.replace(checkpoint.POINTER, old[checkpoint.POINTER])
    assert_same(story)
    store.replace(min(old), old[min(old)])
    assert_same(story)
    story.reopen()
    assert_same(story)
    for _ in range(11):
        story.commit(1)
        story.upkeep()
    assert checkpoint.pointed(store) == log_entries.LogEntries(store).checkpointed


def test_old_entries_go_and_what_they_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log stays short, files that were merged away go with their entries, and every version
    from the oldest checkpoint on can still be read."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log", LITTLE_LOG)
    for _ in range(70):
        story.commit(1, 1)
        story.upkeep()
    entries = sorted((story.log.path / "_delta_log").glob("*.json"))
    assert 20 <= len(entries) <= 20 + 10
    assert_same(story)
    kept = log_entries.LogEntries(LocalStore(story.log.path))
    assert kept.oldest == int(entries[0].stem)
    for version in range(kept.checkpoints[0], story.log.version + 1):
        DeltaTable(story.log.path, version=version).to_pyarrow_table()
    named = {f.path for f in story.log.state.files}
    for entry in entries:
        found = read_commit(LocalStore(story.log.path), int(entry.stem))
        named |= set(found.removed) | {f.path for f in found.added}
    root = story.log.path
    found_files = {p.relative_to(root).as_posix() for p in root.glob("record=*/*/*.parquet")}
    assert found_files <= named


def test_a_clean_up_that_is_cut_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any deletion of the clean-up the table opens, has all rows, and the rest goes."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log", LITTLE_LOG)
    for _ in range(60):
        story.commit(1, 1)
        while (done := story.log.upkeep(now=NOON, floor=0)) and done.kind != "clean-up":
            pass
        if done:
            break
    for _ in range(40):
        story.commit(1, 1)
    cuts: list[Path] = []
    unlink = Path.unlink

    def cut_before(path: Path, *, missing_ok: bool = False) -> None:
        if not path.name.endswith(".tmp") and len(cuts) < 60 and story.log.path in path.parents:
            cuts.append(tmp_path / f"cut-{len(cuts)}")
            shutil.copytree(story.log.path, cuts[-1])
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", cut_before)
    assert "clean-up" in story.upkeep()
    monkeypatch.setattr(Path, "unlink", unlink)
    assert len(cuts) > 20
    left = {p.name for p in story.log.path.rglob("record=*/*/*.parquet")}
    for cut in cuts[::10]:
        story.log = TopicLog.open(cut, limits=LITTLE_LOG)
        assert_same(story)
        story.upkeep()
        assert_same(story)
        live = {f.path.rpartition("/")[2] for f in story.log.state.files}
        assert live <= {p.name for p in cut.rglob("record=*/*/*.parquet")}
    assert left


def cursors(story: Story, version: int) -> None:
    """Write the cursors that Spark's job leaves when it has read the log up to that version."""
    path = story.log.path.parent / "cursors"
    write_deltalake(path, pa.table({"log_version": pa.array([version])}), mode="overwrite")


def of_today(path: Path, limits: UpkeepLimits) -> Story:
    """A story whose clock is right, give or take half a day: entries have their real times."""
    story = Story(path, limits)
    story.now = time.time_ns() // 1_000 // DAY_US * DAY_US + DAY_US // 2
    return story


def test_entries_wait_for_the_job_that_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry stays until a batch after the one that had it has begun; and seven days at most."""
    small_steps(monkeypatch)
    story = of_today(tmp_path / "tables" / "log", LITTLE_LOG)
    cursors(story, 5)

    def oldest_after_more(commits: int = 40) -> int:
        for _ in range(commits):
            story.commit(1)
            story.now += SEEN_INTERVAL_US // 30
            story.upkeep()
        return log_entries.LogEntries(LocalStore(story.log.path)).oldest

    assert oldest_after_more() == 0
    cursors(story, 31)
    assert oldest_after_more() == 6
    cursors(story, 50)
    assert oldest_after_more() == 32
    story.now += 8 * DAY_US
    assert oldest_after_more(1) > 60
    assert_same(story)


def test_no_entry_is_older_than_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old entries are removed, however few they are, with the files that they removed: a job that
    was stopped for longer sees the gap and doesn't miss rows unnoticed."""
    small_steps(monkeypatch)
    few = UpkeepLimits(log_entries_max=1_000, log_retention_days=7, retention_days=0)
    story = of_today(tmp_path / "tables" / "log", few)
    cursors(story, 2)
    for _ in range(6):
        story.commit(1)
    assert story.upkeep() == []
    story.now += 6 * DAY_US
    assert set(story.upkeep()) == {"merge"}
    before = len(list(story.log.path.rglob("record=*/*/*.parquet")))
    story.now += 2 * DAY_US
    assert set(story.upkeep()) == {"checkpoint", "clean-up"}
    assert log_entries.LogEntries(LocalStore(story.log.path)).oldest == 7
    story.commit(1)
    story.now += 8 * DAY_US
    story.upkeep()
    assert len(list(story.log.path.rglob("record=*/*/*.parquet"))) < before
    assert_same(story)
    story.reopen()
    assert_same(story)


def test_entries_that_somebody_else_removed_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A former owner that wakes in the middle of its clean-up doesn't stop the new one's."""
    small_steps(monkeypatch)
    story = Story(tmp_path / "log", LITTLE_LOG)
    for _ in range(30):
        story.commit(1)
        story.upkeep()
    oldest = log_entries.LogEntries(LocalStore(story.log.path)).oldest
    for version in range(oldest, oldest + 5):
        json_path(story.log.path, version).unlink()
    for _ in range(20):
        story.commit(1)
        story.upkeep()
    assert log_entries.LogEntries(LocalStore(story.log.path)).oldest > oldest + 5
    assert_same(story)


def test_what_was_left_behind_has_a_limit_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were merged away don't fill the disk while the log is far from its limit."""
    small_steps(monkeypatch)
    limits = UpkeepLimits(1_000, 7, 0, removed_bytes_max=100_000)
    story = Story(tmp_path / "log", limits)
    for _ in range(80):
        story.commit(20, 20)
        story.upkeep()
    files = list(story.log.path.rglob("record=*/*/*.parquet"))
    live = sum(file.size for file in story.log.state.files)
    entry = sum(path.stat().st_size for path in files) // 80  # about what a few commits weigh
    assert sum(path.stat().st_size for path in files) - live < 100_000 + 20 * entry
    assert len(list((story.log.path / "_delta_log").glob("*.json"))) < 80
    assert_same(story)
