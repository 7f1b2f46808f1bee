"""Groups under way in parallel: accepted in order, none behind a lost one."""

from itertools import permutations

import pytest

from distributary.pipeline.object_journal.put_window import (
    WINDOW_MAX,
    Accept,
    Again,
    Lost,
    Put,
    PutWindow,
)


@pytest.mark.parametrize("order", [*permutations(range(5, 9))])
def test_groups_are_accepted_in_order_however_they_are_answered(order: tuple[int, ...]) -> None:
    window = PutWindow(4)
    for group in range(5, 9):
        window.begin(group)
    assert not window.room
    effects = [effect for group in order for effect in window.answered(group, Put.STANDS)]
    assert effects == [Accept(group) for group in range(5, 9)]
    assert window.room


def test_what_is_not_known_is_asked_again() -> None:
    """And accepted once, when it is known, however often it is answered."""
    window = PutWindow(2)
    window.begin(1)
    assert window.answered(1, Put.UNKNOWN) == [Again(1)]
    assert window.answered(1, Put.STANDS) == [Accept(1)]
    assert window.answered(1, Put.STANDS) == window.answered(1, Put.UNKNOWN) == []


def test_nothing_is_accepted_behind_a_name_that_is_taken() -> None:
    """Although its entry is stored: no owner will ever take it in."""
    window = PutWindow(3)
    for group in (1, 2, 3):
        window.begin(group)
    assert window.answered(3, Put.STANDS) == []
    assert window.answered(1, Put.STANDS) == [Accept(1)]
    assert window.answered(2, Put.TAKEN) == [Lost(2)]
    assert window.answered(2, Put.STANDS) == window.answered(3, Put.STANDS) == []
    assert window.lost
    assert not window.room


def test_there_is_an_end_to_what_may_be_under_way() -> None:
    window = PutWindow(1_000)
    for group in range(WINDOW_MAX):
        window.begin(group)
    assert not window.room
    with pytest.raises(ValueError, match="may not be begun"):
        window.begin(WINDOW_MAX)


def test_groups_have_no_gaps() -> None:
    window = PutWindow(4)
    window.begin(3)
    with pytest.raises(ValueError, match="group 5"):
        window.begin(5)
