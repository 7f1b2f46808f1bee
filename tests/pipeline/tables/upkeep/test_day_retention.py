"""Old days are removed as a whole, and no message that a subscription is owed."""

from pathlib import Path

import pytest
from table_groups import DAY_US, NOON, event, framed, group
from table_story import Story, assert_same, table_rows

from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits

WEEK = UpkeepLimits(log_entries_max=1_000_000, log_retention_days=7, retention_days=7)


def days_left(log: TopicLog, record: str) -> list[str]:
    return sorted({file.day[-2:] for file in log.state.files if file.record == record})


@pytest.fixture
def ten_days(tmp_path: Path) -> Story:
    """A table with one commit a day, from the 11th to the 20th; ten sequences each."""
    story = Story(tmp_path / "log", WEEK)
    for day in range(10):
        story.commit(7, 3, at=NOON - (10 - day) * DAY_US)
    return story


def test_old_days_that_nobody_is_owed_go(ten_days: Story) -> None:
    """With every floor at the end, rows older than a week are removed, settlements too."""
    assert "retention" in ten_days.upkeep()
    assert days_left(ten_days.log, "message") == ["14", "15", "16", "17", "18", "19", "20"]
    assert days_left(ten_days.log, "settlement") == ["14", "15", "16", "17", "18", "19", "20"]
    assert ten_days.log.first_sequence == 30
    assert table_rows(ten_days.log.path) == ten_days.messages()[30:]
    ten_days.reopen()
    assert ten_days.log.first_sequence == 30


@pytest.mark.parametrize(("floor", "first"), [(0, 0), (9, 0), (10, 10), (15, 10), (29, 20)])
def test_what_is_owed_never_goes(ten_days: Story, floor: int, first: int) -> None:
    """A day stays as long as one of its messages isn't below the lowest floor, and its settlements
    as long as an older message does."""
    ten_days.upkeep(floor)
    assert ten_days.log.first_sequence == first
    assert days_left(ten_days.log, "message") == days_left(ten_days.log, "settlement")
    assert table_rows(ten_days.log.path) == ten_days.messages()[first:]


def test_what_went_is_counted(ten_days: Story) -> None:
    """Messages, not the settlements that go with them."""
    done = []
    while step := ten_days.log.upkeep(now=ten_days.now, floor=ten_days.next_sequence):
        done.append(step)
    assert {step.kind: step.messages for step in done if step.messages} == {"retention": 30}


def test_kept_for_ever_is_kept(tmp_path: Path) -> None:
    """With retention off no day goes, however old."""
    story = Story(tmp_path / "log")
    story.commit(1, at=NOON - 400 * DAY_US)
    story.upkeep()
    assert_same(story)


def test_the_life_of_subscriptions_stays(ten_days: Story) -> None:
    """The event that began a subscription is kept, however old the day."""
    story = ten_days
    one = group(11, 100, at=NOON - 10 * DAY_US, subscriptions=[event(SubscriptionEvent.CREATED, 0)])
    story.log.commit([framed(one)])
    story.upkeep()
    assert days_left(story.log, "subscription") == ["11"]


def test_retention_leaves_no_gap(tmp_path: Path) -> None:
    """When the clock was set back, an old day behind a younger one stays until that one goes."""
    story = Story(tmp_path / "log", WEEK)
    for days_ago in (9, 2, 9):
        story.commit(2, at=NOON - days_ago * DAY_US)
    story.upkeep()
    assert story.log.first_sequence == 0
    assert_same(story)
