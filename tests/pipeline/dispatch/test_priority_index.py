"""The priority index knows what lies ahead: urgent messages in order, and stretches that expire."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.dispatch.priority_index import STRETCH_MAX, TOGETHER_US, PriorityIndex
from distributary.pipeline.dispatch.read_cursor import ReadCursor
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.sequences.sequence_set import SequenceSet


def added(priorities, *, first=0, sequences=None, expires=()):
    """Header attributes as a batch has them."""
    listed = None if sequences is None else array("q", sequences)
    return HeaderAttributes(first, listed, bytes(priorities), array("q", expires).tobytes())


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=8),
    st.integers(0, 60),
    st.lists(st.integers(0, 50), max_size=6),
)
def test_the_most_urgent_unread_one_is_found(batches, position, passed):
    """It is the lowest sequence of the highest priority above the usual, from the position on,
    without those that are passed over; wherever the priority index was trimmed below the
    position."""
    priority_index, known, head = PriorityIndex(), {}, 0
    for priorities in batches:
        priority_index.add(head, head + len(priorities), added(priorities, first=head))
        known |= {head + nth: priority for nth, priority in enumerate(priorities)}
        head += len(priorities)
    priority_index.trim(position // 2)
    unread = ReadCursor(
        position, SequenceSet(range(one, one + 1) for one in passed), priority_index
    )
    ahead = {one: level for one, level in known.items() if level > 4 and one >= unread.position}
    while left := {one: level for one, level in ahead.items() if one not in passed}:
        expected = min((-level, one) for one, level in left.items())
        assert unread.ahead() == (-expected[0], expected[1])
        unread.pass_over(range(expected[1], expected[1] + 1))
        passed = [*passed, expected[1]]
    assert unread.ahead() is None


def test_those_of_a_sparse_batch_are_known_by_their_sequences():
    """A batch may list its sequences."""
    priority_index = PriorityIndex()
    priority_index.add(3, 12, added([9, 4, 9], first=3, sequences=[3, 7, 11]))
    assert list(priority_index.high[9].runs()) == [range(3, 4), range(11, 12)]


def test_what_comes_later_is_seen():
    """A reader that found nothing looks again when something was added."""
    priority_index = PriorityIndex()
    unread = ReadCursor(0, SequenceSet(), priority_index)
    assert unread.ahead() is None
    priority_index.add(0, 2, added([4, 6]))
    assert unread.ahead() == (6, 1)


def test_a_stretch_lapses_with_its_first_message_and_once():
    """It leaves the priority index then; `again` says when more of it expires."""
    priority_index = PriorityIndex()
    priority_index.add(0, 3, added([4] * 3, expires=[0, 500, 90]))
    assert priority_index.next_lapse == 90
    assert priority_index.lapsed(89) == []
    assert priority_index.lapsed(90) == [range(3)]
    assert (priority_index.lapsed(1_000), priority_index.next_lapse) == ([], None)
    priority_index.again(range(3), 500)
    assert priority_index.next_lapse == 500
    assert priority_index.lapsed(500) == [range(3)]


def test_stretches_that_expire_together_are_one():
    """Many small batches are few entries; what expires at another time is apart, and so is what
    would be too long to be looked through at once."""
    priority_index = PriorityIndex()
    for one in range(100):
        priority_index.add(one, one + 1, added([4], first=one, expires=[1_000 + one]))
    priority_index.add(100, 101, added([4], first=100, expires=[TOGETHER_US * 9]))
    assert priority_index.lapsed(2_000) == [range(100)]
    for one in range(101, 101 + 2 * STRETCH_MAX):
        priority_index.add(one, one + 1, added([4], first=one, expires=[2_000]))
    assert [len(one) for one in priority_index.lapsed(2_000)] == [STRETCH_MAX, STRETCH_MAX]


def test_what_nobody_is_owed_leaves():
    """A trimmed priority index neither names what is below nor keeps it."""
    priority_index = PriorityIndex()
    for first in range(0, 20_000, 10):
        priority_index.add(
            first, first + 10, added([9] * 10, first=first, expires=[first * 10**7 + 1] * 10)
        )
    priority_index.trim(19_995)
    assert list(priority_index.high[9].runs()) == [range(19_995, 20_000)]
    assert priority_index.lapsed(10**15) == [range(19_995, 20_000)]


def test_what_is_settled_among_strangers_is_not_read_again():
    """Passing over what isn't owed may move the position beyond what was passed over before."""
    priority_index = PriorityIndex()
    priority_index.add(0, 4, added([9, 9, 9, 4]))
    unread = ReadCursor(0, SequenceSet([range(1, 3)]), priority_index)
    assert not unread.early(9, 4, array("q", [1, 2, 3]), 10)
    assert (unread.position, unread.ahead()) == (3, None)
