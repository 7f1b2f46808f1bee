"""Merges change the place of rows, never their content, and keep all files that readers need."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_groups import DAY_US, NOON
from table_story import KEEP_ALL, TOPICS, Step, Story, assert_same

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.commits import read_commit
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import merge, table_upkeep, tiers
from distributary.pipeline.tables.upkeep.tiers import FAN_IN


def tiers_of(log: TopicLog, record: str = "message") -> list[int]:
    return [file.tier for file in log.state.files if file.record == record]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)),
        st.sampled_from(["upkeep", "step", "reopen", "hours", "day"]),
    ),
    max_size=40,
)


@given(steps=STEPS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order_of_commits_and_upkeep_keeps_every_row(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    """For any steps in any order, rows and pages are those of the groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "FAN_IN", 2)
        patch.setattr(tiers, "FULL_ROWS", 9)
        patch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 5)
        story = Story(tmp_path_factory.mktemp("t") / "log")
        story.play(steps)
        assert TopicLog.open(story.log.path).state == story.log.state


def test_small_files_become_one_of_the_next_tier(tmp_path: Path) -> None:
    """Sixteen commits are one file, sixteen of these one more; a file is never twice in a tier."""
    story = Story(tmp_path / "log")
    written: list[str] = []
    for _ in range(FAN_IN**2 + 3):
        story.commit(1, 1)
        story.upkeep()
    assert tiers_of(story.log) == [2, 0, 0, 0]
    for version in range(1, story.log.version + 1):
        written += [f.path for f in read_commit(LocalStore(story.log.path), version).added]
    assert sum("/t1-" in path for path in written) == 2 * FAN_IN  # messages and settlements
    assert sum("/t2-" in path for path in written) == 2
    assert_same(story)


def test_a_day_that_is_over_becomes_one_file(tmp_path: Path) -> None:
    """The other files of a day are merged when it is over, but not before its last groups can
    come."""
    story = Story(tmp_path / "log")
    for _ in range(5):
        story.commit(2, 1)
    assert story.upkeep() == []
    story.now = NOON - NOON % DAY_US + DAY_US + table_upkeep.DAY_GRACE_US - 1
    assert story.upkeep() == []
    story.now += 1
    assert story.upkeep() == ["merge", "merge"]
    assert tiers_of(story.log) == tiers_of(story.log, "settlement") == [tiers.LAST_TIER]
    assert_same(story)


def test_full_files_are_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is big in rows or in bytes is never read again; its neighbours still merge."""
    monkeypatch.setattr(tiers, "FULL_BYTES", 3_000)
    story = Story(tmp_path / "log")
    story.commit(1)
    story.commit(1)
    story.commit(400)
    big = {file.path for file in story.log.state.files if file.rows == 400}
    assert "merge" in story.upkeep()
    for _ in range(3):
        story.commit(1)
    story.now += 2 * DAY_US
    story.upkeep()
    assert {file.path for file in story.log.state.files if file.rows == 400} == big
    assert [file.rows for file in story.log.state.files if file.record == "message"] == [2, 400, 3]
    assert_same(story)


def test_one_merge_reads_a_bounded_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long run becomes several full files, one step each."""
    monkeypatch.setattr(tiers, "FULL_BYTES", 20_000)
    monkeypatch.setattr(tiers, "MERGE_BYTES_MAX", 40_000)
    story = Story(tmp_path / "log")
    for _ in range(2 * FAN_IN):
        story.commit(100, 100)
    sizes = []
    while step := story.log.upkeep(now=story.now, floor=0):
        sizes.append(step.bytes)
    assert len(sizes) > 4
    assert max(sizes) < 40_000
    assert_same(story)


def test_a_merged_file_lies_by_topic(tmp_path: Path) -> None:
    """One topic's messages are neighbours after a merge, in row groups of their own."""
    story = Story(tmp_path / "log")
    for _ in range(FAN_IN):
        story.commit(20, 20, 1)
    story.upkeep()
    (path,) = story.log.files("message", 0)
    with LocalStore(path.parent).parquet(path.name) as file:
        topics = [file.read_row_group(i)["topic"].to_pylist() for i in range(file.num_row_groups)]
    assert [sorted(set(part)) for part in topics] == [["a"], ["b"], ["c"]]
    assert_same(story)


# Crashes


def test_a_merge_that_is_cut_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its commit the table is as it was, and what the merge had written goes at the next
    start; nothing else goes."""
    story = Story(tmp_path / "log")
    for _ in range(FAN_IN):
        story.commit(1, 2)
    cut = tmp_path / "cut"
    create = LocalStore.create

    def before_the_link(store: LocalStore, path: str, data: bytes) -> bool:
        shutil.copytree(store.root, cut)
        monkeypatch.setattr(LocalStore, "create", create)
        return create(store, path, data)

    monkeypatch.setattr(LocalStore, "create", before_the_link)
    assert story.log.upkeep(now=NOON, floor=0) is not None
    after = set(story.log.path.rglob("*.parquet"))
    story.log = TopicLog.open(cut, limits=KEEP_ALL)
    assert_same(story)
    left = {path.name for path in cut.rglob("*.parquet")}
    assert left == {path.name for path in after}
    assert "orphans" in story.upkeep()
    gone = left - {path.name for path in cut.rglob("*.parquet")}
    assert len(gone) == 1
    assert gone < {path.name for path in after}
    assert_same(story)


def test_no_file_that_the_log_names_is_an_orphan(tmp_path: Path) -> None:
    """A file that was merged away stays as long as its entry, also if its time is wrong."""
    story = Story(tmp_path / "log")
    for _ in range(FAN_IN):
        story.commit(1)
    story.upkeep()
    before = set(story.log.path.rglob("*.parquet"))
    for path in before:
        path.touch()
        path.parent.touch()
    stray = next(iter(before)).with_name("t0-stray.parquet")
    stray.write_bytes(b"")
    story.reopen()
    assert story.upkeep() == []
    assert stray.exists()
    story.commit(1)
    before |= set(story.log.files("message", 0)) | set(story.log.files("settlement", 0))
    assert story.upkeep() == ["orphans"]
    assert set(story.log.path.rglob("*.parquet")) == before


def test_a_merge_of_random_runs_is_sorted(tmp_path: Path) -> None:
    """For inputs in any order, the rows come out by topic and sequence."""
    story = Story(tmp_path / "log")
    chance = random.Random(5)
    for _ in range(6):
        story.commit(*(chance.randint(0, 30) for _ in TOPICS))
    files = [f for f in story.log.state.files if f.record == "message"]
    chance.shuffle(files)
    store = LocalStore(story.log.path)
    made = merge.merge(store, merge.load(store, tiers.Run(tuple(files), 1, closed=True)), 1)
    with LocalStore(story.log.path).parquet(made.path) as file:
        table = file.read()
    keys = list(zip(table["topic"].to_pylist(), table["sequence"].to_pylist(), strict=True))
    assert keys == sorted((topic, sequence) for sequence, topic, _ in story.messages())


def test_a_rotten_file_stops_its_own_merge_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt reports the unreadable file; checkpoints and all other steps go on."""
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 5)
    story = Story(tmp_path / "log")
    for _ in range(FAN_IN):
        story.commit(1)
    path = story.log.files("message", 0)[3]
    path.write_bytes(bytes(path.stat().st_size))
    done: list[str] = []
    failed = 0
    for _ in range(8):
        try:
            step = story.log.upkeep(now=NOON, floor=0)
        except StoreError:
            failed += 1
        else:
            done += [step.kind] if step else []
    assert failed > 1
    assert "checkpoint" in done
    story.commit(1)
