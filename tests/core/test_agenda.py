"""The agenda knows what lies ahead: urgent messages in order, and stretches that expire."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from pipeline.agenda import STRETCH_MAX, TOGETHER_US, Agenda
from pipeline.sequences import SequenceSet
from pipeline.traits import Traits
from pipeline.unread import Unread


def added(priorities, *, first=0, sequences=None, expires=()):
    """Traits as a slab has them."""
    listed = None if sequences is None else array("q", sequences)
    return Traits(first, listed, bytes(priorities), array("q", expires).tobytes())


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=8),
    st.integers(0, 60),
    st.lists(st.integers(0, 50), max_size=6),
)
def test_the_most_urgent_unread_one_is_found(slabs, position, passed):
    """It is the lowest sequence of the highest priority above the usual, from the position on,
    without those that are passed over; wherever the agenda was trimmed below the position."""
    agenda, known, head = Agenda(), {}, 0
    for priorities in slabs:
        agenda.add(head, head + len(priorities), added(priorities, first=head))
        known |= {head + nth: priority for nth, priority in enumerate(priorities)}
        head += len(priorities)
    agenda.trim(position // 2)
    unread = Unread(position, SequenceSet(range(one, one + 1) for one in passed), agenda)
    ahead = {one: level for one, level in known.items() if level > 4 and one >= unread.position}
    while left := {one: level for one, level in ahead.items() if one not in passed}:
        expected = min((-level, one) for one, level in left.items())
        assert unread.ahead() == (-expected[0], expected[1])
        unread.pass_over(range(expected[1], expected[1] + 1))
        passed = [*passed, expected[1]]
    assert unread.ahead() is None


def test_those_of_a_sparse_slab_are_known_by_their_sequences():
    """A slab may list its sequences."""
    agenda = Agenda()
    agenda.add(3, 12, added([9, 4, 9], first=3, sequences=[3, 7, 11]))
    assert list(agenda.high[9].runs()) == [range(3, 4), range(11, 12)]


def test_what_comes_later_is_seen():
    """A reader that found nothing looks again when something was added."""
    agenda = Agenda()
    unread = Unread(0, SequenceSet(), agenda)
    assert unread.ahead() is None
    agenda.add(0, 2, added([4, 6]))
    assert unread.ahead() == (6, 1)


def test_a_stretch_lapses_with_its_first_message_and_once():
    """It leaves the agenda then; `again` says when more of it expires."""
    agenda = Agenda()
    agenda.add(0, 3, added([4] * 3, expires=[0, 500, 90]))
    assert agenda.next_lapse == 90
    assert agenda.lapsed(89) == []
    assert agenda.lapsed(90) == [range(3)]
    assert (agenda.lapsed(1_000), agenda.next_lapse) == ([], None)
    agenda.again(range(3), 500)
    assert agenda.next_lapse == 500
    assert agenda.lapsed(500) == [range(3)]


def test_stretches_that_expire_together_are_one():
    """Many small slabs are few entries; what expires at another time is apart, and so is what
    would be too long to be looked through at once."""
    agenda = Agenda()
    for one in range(100):
        agenda.add(one, one + 1, added([4], first=one, expires=[1_000 + one]))
    agenda.add(100, 101, added([4], first=100, expires=[TOGETHER_US * 9]))
    assert agenda.lapsed(2_000) == [range(100)]
    for one in range(101, 101 + 2 * STRETCH_MAX):
        agenda.add(one, one + 1, added([4], first=one, expires=[2_000]))
    assert [len(one) for one in agenda.lapsed(2_000)] == [STRETCH_MAX, STRETCH_MAX]


def test_what_nobody_is_owed_leaves():
    """A trimmed agenda neither names what is below nor keeps it."""
    agenda = Agenda()
    for first in range(0, 20_000, 10):
        agenda.add(
            first, first + 10, added([9] * 10, first=first, expires=[first * 10**7 + 1] * 10)
        )
    agenda.trim(19_995)
    assert list(agenda.high[9].runs()) == [range(19_995, 20_000)]
    assert agenda.lapsed(10**15) == [range(19_995, 20_000)]


def test_what_is_settled_among_strangers_is_not_read_again():
    """Passing over what isn't owed may move the position beyond what was passed over before."""
    agenda = Agenda()
    agenda.add(0, 4, added([9, 9, 9, 4]))
    unread = Unread(0, SequenceSet([range(1, 3)]), agenda)
    assert not unread.early(9, 4, array("q", [1, 2, 3]), 10)
    assert (unread.position, unread.ahead()) == (3, None)
