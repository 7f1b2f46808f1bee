"""The first message at or after a time is found among those that the table doesn't have yet."""

from distributary.pipeline.log.publish_times import Moments


def test_the_first_at_or_after_a_time_is_found() -> None:
    moments = Moments()
    for first, at in ((0, 100), (5, 200), (9, 300)):
        moments.add(first, at, 0)
    assert [moments.first_at(time, 0) for time in (0, 100, 101, 200, 300)] == [0, 0, 5, 5, 9]
    assert moments.first_at(301, 0) is None


def test_what_the_table_has_is_left_to_it() -> None:
    """A group counts from its first message on: the table takes in whole groups."""
    moments = Moments()
    for first, at in ((0, 100), (5, 200), (9, 300)):
        moments.add(first, at, 0)
    assert moments.first_at(0, 5) == 5
    moments.add(12, 400, 9)
    assert moments.first_at(0, 0) == 9


def test_a_clock_that_was_set_back_hides_nothing_that_comes_later() -> None:
    moments = Moments()
    for first, at in ((0, 900), (5, 200), (9, 300)):
        moments.add(first, at, 0)
    assert moments.first_at(300, 0) == 0
    assert moments.first_at(300, 1) == 9


def test_all_that_is_there_may_be_in_the_table() -> None:
    moments = Moments()
    moments.add(0, 100, 0)
    moments.add(1, 200, 2)
    assert moments.first_at(0, 2) is None
