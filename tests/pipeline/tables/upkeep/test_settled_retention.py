"""Settled messages are removed before their day is over: by time, by bytes, without delay; no
others."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from table_groups import DAY_US
from table_story import Story, paged, table_rows

from distributary.pipeline.tables.delta.commits import SPARK_APP
from distributary.pipeline.tables.upkeep.table_upkeep import READERS_US, UpkeepLimits

SECOND = 1_000_000


def story_of(path: Path, *, seconds: int = -1, size: int = 0) -> Story:
    limits = UpkeepLimits(
        1_000_000, 7, retention_days=7, retention_seconds=seconds, retention_bytes=size
    )
    return Story(path / "topic_log", limits)


def commits(story: Story, counts: Iterable[int], every: int = 20) -> None:
    """Make one commit after the other, `every` seconds apart; the last one is a moment ago."""
    for count in counts:
        story.commit(count, 1)
        story.now += every * SECOND


def left(story: Story) -> list[int]:
    """The sequences that a reader finds; they have no gap, and the pages are the same."""
    found = [sequence for sequence, _, _ in table_rows(story.log.path)]
    assert found == list(range(story.log.first_sequence, story.next_sequence))
    assert sorted(s for t in "ab" for s, _ in paged(story.log, t)) == found
    assert table_rows(story.log.path) == story.messages()[story.log.first_sequence :]
    return found


def test_what_is_settled_goes_at_once(tmp_path: Path) -> None:
    """All of it, with its settlements; a table that is opened anew goes on from there."""
    story = story_of(tmp_path, seconds=0)
    commits(story, [4] * 5)
    assert "settled" in story.upkeep()
    assert left(story) == []
    assert not [file for file in story.log.state.files if file.record != "subscription"]
    story.reopen()
    assert story.log.first_sequence == story.next_sequence == 25
    commits(story, [2])
    assert left(story) == [25, 26, 27]


@pytest.mark.parametrize(("floor", "first"), [(0, 0), (4, 0), (5, 5), (10, 10), (24, 24)])
def test_what_is_owed_stays(tmp_path: Path, floor: int, first: int) -> None:
    """Files go whole; one of which more than half is settled is cut, another one waits for that."""
    story = story_of(tmp_path, seconds=0)
    commits(story, [4, 4, 4, 4, 4])
    story.upkeep(floor)
    assert left(story)[0] == (first if floor != 4 else 4)
    story.now += 20 * SECOND
    story.upkeep(25)
    assert left(story) == []


def test_a_file_that_is_mostly_owed_isnt_cut(tmp_path: Path) -> None:
    """Its rows would be written again and again."""
    story = story_of(tmp_path, seconds=0)
    commits(story, [99])
    story.upkeep(20)
    assert left(story)[0] == 0
    story.now += 20 * SECOND
    story.upkeep(60)
    assert left(story)[0] == 60


def test_who_is_served_without_a_durable_subscription_is_waited_for(tmp_path: Path) -> None:
    """At most until the day is over, as ever."""
    story = story_of(tmp_path, seconds=0)
    commits(story, [4] * 3)
    while story.log.upkeep(now=story.now, floor=15, served=5):
        pass
    assert left(story)[0] == 5
    story.now += 9 * DAY_US
    while story.log.upkeep(now=story.now, floor=15, served=5):
        pass
    assert left(story) == []


def test_by_hours(tmp_path: Path) -> None:
    """Messages that were published longer ago are removed, and no younger ones."""
    story = story_of(tmp_path, seconds=3_600)
    commits(story, [4] * 6, every=900)
    story.upkeep()
    # Published 90, 75, 60, 45, 30 and 15 minutes ago.
    assert left(story)[0] == 10
    story.now += 800 * SECOND
    story.upkeep()
    assert left(story)[0] == 15


def test_by_bytes(tmp_path: Path) -> None:
    """The oldest are removed until the files of settled messages are within the limit; owed
    messages don't count."""
    story = story_of(tmp_path)
    commits(story, [4] * 6)
    sizes = [file.size for file in story.log.state.files if file.record == "message"]
    story = story_of(tmp_path / "bounded", size=sum(sizes[:2]))
    commits(story, [4] * 6)
    story.upkeep(floor=15)
    assert left(story)[0] == 5
    story.now += 20 * SECOND
    story.upkeep()
    assert left(story)[0] == 20


def spark_has(story: Story, group: int) -> None:
    """Spark's tables have the log up to this group."""
    said = CommitProperties(app_transactions=[Transaction(SPARK_APP, group)])
    rows = pa.table({"log_version": pa.array([group], pa.int64())})
    folder = story.log.path.parent / "cursors"
    write_deltalake(folder, rows, mode="overwrite", commit_properties=said)


def test_sparks_tables_have_it_before(tmp_path: Path) -> None:
    """Messages that its job hasn't read yet stay, until an entry of the log would go, too."""
    story = story_of(tmp_path, seconds=0)
    commits(story, [4] * 4)
    spark_has(story, 2)
    story.upkeep()
    assert left(story)[0] == 10
    spark_has(story, 3)
    story.now += 120 * SECOND
    story.upkeep()
    assert left(story)[0] == 15
    story.now += 8 * DAY_US
    story.upkeep()
    assert left(story) == []


def test_the_disk_has_it_no_longer_either(tmp_path: Path) -> None:
    """When readers have had time to read the files that they found, and with the next commit."""
    story = story_of(tmp_path, seconds=0)
    commits(story, [40] * 8)
    story.upkeep()
    assert len(list(story.log.path.glob("record=message/*/*.parquet"))) == 8
    story.now += READERS_US + SECOND
    commits(story, [1])
    assert "clean-up" in story.upkeep(328)
    assert len(list(story.log.path.glob("record=message/*/*.parquet"))) == 1
    story.reopen()
    assert left(story) == [328, 329]
