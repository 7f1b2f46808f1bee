"""Spreading gives each topic files of its own, and never changes, loses or repeats a message."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_groups import DAY_US, framed, group, run
from table_story import TOPICS, Step, Story, assert_same, paged

from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import recluster, table_upkeep, tiers


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is full with forty messages, and no topic ever has enough in one."""
    make_small(monkeypatch)


def make_small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tiers, "FULL_BYTES", 1_200)
    patch.setattr(tiers, "MERGE_BYTES_MAX", 2_400)
    patch.setattr(tiers, "FULL_ROWS", 30)
    patch.setattr(recluster, "FAN_IN", 3)
    patch.setattr(recluster, "TOPIC_BYTES_ENOUGH", 1_000_000)


def message_files(log: TopicLog) -> list[AddedFile]:
    return [file for file in log.state.files if file.record == "message"]


def filled(path: Path, commits: int = 3) -> Story:
    """Full files, each with messages of all topics."""
    story = Story(path)
    for _ in range(commits):
        story.commit(20, 20, 20)
    return story


def test_each_topic_gets_files_of_its_own(tmp_path: Path) -> None:
    """Three files with three topics each become files of which none is opened for two topics."""
    story = filled(tmp_path / "log")
    assert all((f.topic_low, f.topic_high) == ("a", "c") for f in message_files(story.log))
    kinds = Counter(story.upkeep())
    assert kinds["spread"] >= 3
    files = message_files(story.log)
    assert {file.tier for file in files} == {recluster.TIER}
    assert {(file.topic_low, file.topic_high) for file in files} == {(t, t) for t in TOPICS}
    assert sum(file.rows for file in files) == 180
    assert_same(story)


def test_until_the_last_step_nothing_is_seen(tmp_path: Path) -> None:
    """Each step writes one file that no version names; only the last step makes a version."""
    story = filled(tmp_path / "log")
    before = story.log.state
    wrote = 0
    while story.log.state is before:
        step = story.log.upkeep(now=story.now, floor=0)
        assert step is not None
        wrote += step.files if story.log.state is before else 0
    assert wrote == len(message_files(story.log)) > 1
    assert story.log.version == before.version + 1
    assert_same(story)


def test_commits_go_on_meanwhile(tmp_path: Path) -> None:
    """Files committed between two steps are neither lost nor reclustered with the others."""
    story = filled(tmp_path / "log")
    for _ in range(4):
        assert story.log.upkeep(now=story.now, floor=0) is not None
        story.commit(1, 1, 1)
    story.upkeep()
    assert_same(story)


def test_a_process_that_died_leaves_nothing_behind(tmp_path: Path) -> None:
    """Files that were written and never committed are removed at the next start, also after
    commits."""
    story = filled(tmp_path / "log")
    while len(on_disk(story)) == 3:
        story.log.upkeep(now=story.now, floor=0)
    (begun,) = on_disk(story) - {file.path for file in message_files(story.log)}
    story.commit(1)
    story.commit(1)
    story.reopen()
    story.upkeep()
    assert begun not in on_disk(story)
    assert_same(story)


def on_disk(story: Story) -> set[str]:
    root = story.log.path
    return {str(path.relative_to(root)) for path in root.glob("record=message/*/*.parquet")}


def test_files_that_retention_took_are_let_go(tmp_path: Path) -> None:
    """When a file goes before all are written, nothing of it comes back."""
    story = Story(tmp_path / "log", table_upkeep.UpkeepLimits(1_000, 7, retention_days=1))
    for _ in range(3):
        story.commit(20, 20, 20)
    while len(on_disk(story)) == 3:
        story.log.upkeep(now=story.now, floor=0)
    story.now += 5 * DAY_US
    assert "retention" in story.upkeep()
    assert message_files(story.log) == []
    assert paged(story.log, "a") == []
    assert {path for path in on_disk(story) if f"/t{recluster.TIER}-" in path} == set()


def test_a_topic_alone_is_let_be(tmp_path: Path) -> None:
    """If no topics interleave, no row is written again."""
    story = Story(tmp_path / "log")
    for _ in range(4):
        story.commit(60)
    before = message_files(story.log)
    story.upkeep()
    assert message_files(story.log) == before


def test_topics_with_enough_are_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few big topics are read well enough as they lie."""
    monkeypatch.setattr(recluster, "TOPIC_BYTES_ENOUGH", 100)
    story = filled(tmp_path / "log")
    before = message_files(story.log)
    story.upkeep()
    assert message_files(story.log) == before


def test_a_big_topic_among_small_ones_fills_several_files(tmp_path: Path) -> None:
    """No file gets more than a merge may read, whatever one topic has; the order stays."""
    story = Story(tmp_path / "log")
    for _ in range(3):
        story.commit(100, 2, 2)
    story.upkeep()
    files = message_files(story.log)
    assert {file.tier for file in files} == {recluster.TIER}
    assert len([file for file in files if file.topic_low == "a"]) == 3
    assert_same(story)


def test_a_day_that_is_over_is_spread_with_what_it_has(tmp_path: Path) -> None:
    """Less than the usual number of full files will never get more neighbours."""
    story = filled(tmp_path / "log", commits=2)
    assert "spread" not in story.upkeep()
    story.now += 2 * DAY_US
    assert "spread" in story.upkeep()
    assert {file.tier for file in message_files(story.log)} == {recluster.TIER}
    assert_same(story)


def test_what_compresses_well_is_full_by_its_real_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log knows compressed sizes only; a file of much that repeats is full all the same."""
    monkeypatch.setattr(tiers, "FULL_ROWS", 1_000_000)
    monkeypatch.setattr(tiers, "FULL_BYTES", 50_000)
    monkeypatch.setattr(recluster, "ROWS_MIN", 60)
    story = Story(tmp_path / "log")
    for nth in range(3):
        one = group(nth + 1, 60 * nth, *[run(topic, [b"x" * 1_000] * 20) for topic in TOPICS])
        story.log.commit([framed(one)])
    assert all(file.size < 50_000 for file in message_files(story.log))
    assert "spread" in story.upkeep()
    assert {file.tier for file in message_files(story.log)} == {recluster.TIER}
    for topic in TOPICS:
        assert len(paged(story.log, topic)) == 60


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 3)),
        st.sampled_from(["upkeep", "step", "step", "reopen", "day"]),
    ),
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order_of_commits_and_steps_keeps_every_row(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    """For any steps in any order, rows and pages are those of the groups."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        story = Story(tmp_path_factory.mktemp("t") / "log")
        story.play(steps)
