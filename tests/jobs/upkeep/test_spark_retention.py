"""Days of Spark's tables that may go, edge by edge."""

from datetime import date

import pytest
from msgspec.structs import replace

from distributary.jobs.session.job_settings import UpkeepSettings, load
from distributary.jobs.tables.table_files import Day
from distributary.jobs.upkeep.spark_retention import of_acks, of_messages

TODAY = date(2026, 11, 22)


def settings(messages_days: int = 2, acks_days: int = 2) -> UpkeepSettings:
    return replace(load().upkeep, messages_days=messages_days, acks_days=acks_days)


def table(*last_sequences: int | None) -> list[Day]:
    """One day each from 17 November on; the group is the place."""
    return [
        Day(date(2026, 11, 17 + n), 3, 3, 100, last, n) for n, last in enumerate(last_sequences)
    ]


def messages(days, *, floor=None, logged=None, **limits):
    removal = of_messages(days, settings(**limits), TODAY, floor=floor, logged=logged)
    return None if removal is None else str(removal.first_kept)


def test_days_that_are_old_go() -> None:
    """The last two days stay, and today."""
    assert messages(table(9, 19, 29, 39, 49, 59)) == "2026-11-20"


def test_nothing_goes_unless_it_is_asked_for() -> None:
    """For ever is the default."""
    assert messages(table(9, 19, 29, 39), messages_days=0) is None


@pytest.mark.parametrize(
    ("floor", "first"), [(9, None), (10, "2026-11-18"), (20, "2026-11-19"), (99, "2026-11-20")]
)
def test_what_a_subscription_is_owed_stays(floor: int, first: str | None) -> None:
    """A day goes when its last message lies below the lowest floor."""
    assert messages(table(9, 19, 29, 39, 49, 59), floor=floor) == first


def test_what_topic_log_has_stays() -> None:
    """By a rewind a subscription may be owed any message that is still there."""
    assert messages(table(9, 19, 29, 39, 49), logged=date(2026, 11, 18)) == "2026-11-18"


def test_the_newest_day_stays() -> None:
    """However old: it says how far the table is."""
    assert messages(table(9, 19)) == "2026-11-18"
    assert messages(table(9)) is None


def test_a_day_that_nothing_is_known_of_stays_and_all_after_it() -> None:
    """Files without statistics say neither what they hold nor how far they go."""
    assert messages(table(9, None, 29, 39, 49), floor=99) == "2026-11-18"
    days = table(9, 19, 29, 39)
    days[1] = Day(days[1].day, 3, 3, 100, 19, None)
    assert messages(days) == "2026-11-18"


def test_acks_go_after_their_messages() -> None:
    """A day of acks goes when `messages` has neither it nor an earlier one."""

    def first(messages_from: date | None, acks_days: int = 2) -> str | None:
        removal = of_acks(
            table(9, 19, 29, 39),
            settings(acks_days=acks_days),
            TODAY,
            messages_from=messages_from,
        )
        return None if removal is None else str(removal.first_kept)

    assert first(date(2026, 11, 18)) == "2026-11-18"
    assert first(date(2026, 11, 22)) == "2026-11-20"
    assert first(date(2026, 11, 17)) is None
    assert first(None) is None
    assert first(date(2026, 11, 22), acks_days=0) is None
