"""A cursor against a set: it has the settled sequences and no others, as compact as possible."""

from itertools import pairwise

from cursor_model import Cursor, fold
from hypothesis import given
from hypothesis import strategies as st

run = st.builds(
    lambda start, count, step: range(start, start + count * step, step),
    st.integers(0, 60),
    st.integers(0, 9),
    st.integers(1, 4),
)
runs = st.lists(run, max_size=8)
floors = st.integers(0, 50)


def members(cursor):
    return {sequence for sequence in range(120) if sequence in cursor}


@given(runs, floors)
def test_a_cursor_is_a_set(settled, floor):
    """The cursor has all sequences below the floor and all settled ones, and no others."""
    model = set(range(floor)).union(*settled)
    assert members(fold(settled, floor)) == model


@given(runs, floors)
def test_a_cursor_is_compact(settled, floor):
    """The exceptions ascend above the floor, and no two touch."""
    cursor = fold(settled, floor)
    assert all(run and run.step == 1 and run.start >= floor for run in cursor.settled)
    assert all(left.stop < right.start for left, right in pairwise(cursor.settled))


@given(runs, runs, floors, st.integers(0, 20))
def test_folding_on_is_folding_all(earlier, later, floor, progress):
    """A cursor with the settlements after it is the cursor of all settlements."""
    halfway = fold(earlier, floor)
    assert fold([*halfway.settled, *later], floor + progress) == fold(
        [*earlier, *later], floor + progress
    )


def test_a_new_cursor_is_empty():
    """Without settlements, all sequences below the floor are settled and the floor itself is
    not."""
    assert fold([], 7) == Cursor(7)
    assert 6 in Cursor(7)
    assert 7 not in Cursor(7)
