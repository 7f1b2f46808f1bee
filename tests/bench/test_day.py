"""The simulated day: nothing appears or vanishes in it, and the page says what it says."""

from pathlib import Path

import pytest

from tests.bench.day import BEGIN, DAYS, OUT, Day, Second, rows

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture(scope="module")
def days() -> list[list[Second]]:
    return [list(Day(store_out).run()) for store_out in DAYS.values()]


def test_all_that_is_published_is_accepted_or_waits(days: list[list[Second]]) -> None:
    for day in days:
        published = accepted = 0.0
        for second in day:
            published += second.offered
            accepted += second.accepted
            assert abs(published - accepted - second.waiting) <= 1


def test_nothing_is_accepted_while_there_is_no_store(days: list[list[Second]]) -> None:
    without = dict(zip(DAYS.values(), days, strict=True))[True]
    assert not any(second.accepted for second in without[BEGIN : BEGIN + OUT])


def test_the_page_says_what_the_days_say(days: list[list[Second]]) -> None:
    said = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
    ]
    for of_one, of_other in zip(*map(rows, days), strict=True):
        assert [of_one[0], of_one[1], of_other[1]] in said
