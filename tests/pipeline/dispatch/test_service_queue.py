"""Whose turn it is: any two consumers that always have credit differ by at most one message."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.dispatch.service_queue import ServiceQueue


def lined_up(*consumers, credit=1_000_000):
    """A line of these, as (number, priority, selector)."""
    line = ServiceQueue()
    for number, priority, selector in consumers:
        line.attach(number, priority, selector)
        line.set_credit(number, credit)
    return line


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=12),
    st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=30),
)
def test_prefetch_makes_no_difference(prefetch, steps):
    """However much credit each has at a time, and however many messages come at once, one by one
    or in runs: who always has credit gets as much as any other who has."""
    line = ServiceQueue()
    for consumer, credit in enumerate(prefetch, 1):
        line.attach(consumer, 0, None)
        line.set_credit(consumer, credit)
    got = Counter(dict.fromkeys(range(1, len(prefetch) + 1), 0))
    for count, singly in steps:
        # So many at a time that nobody is out of credit before it is given more.
        few = 1 if singly else min(prefetch)
        for at in range(0, count, few):
            for consumer, part in dealt(line, range(at, min(at + few, count)), singly=singly):
                got[consumer] += len(part)
            for consumer, credit in enumerate(prefetch, 1):
                line.set_credit(consumer, credit)
            assert max(got.values()) - min(got.values()) <= 1
            assert line.ready == len(line.turns()) == len(prefetch)


def dealt(line, run, *, singly):
    """Who gets what of the run, in one deal or message by message."""
    if not singly:
        return line.deal(run)
    takers = [line.next(frozenset()) for _ in run]
    for taker in takers:
        line.take(taker)
    return [(taker, (one,)) for taker, one in zip(takers, run, strict=True)]


def test_the_higher_priority_gets_all_while_it_has_credit():
    """Then the next one; in one priority it is a turn."""
    line = lined_up((1, 0, None), (2, 7, None), (3, 7, None), (4, -1, None), credit=2)
    assert line.deal(range(7)) == [
        (2, range(0, 4, 2)),
        (3, range(1, 4, 2)),
        (1, range(4, 6)),
        (4, range(6, 7)),
    ]
    assert (line.ready, line.room, line.turns()) == (1, 1, [4])


def test_a_message_goes_to_the_next_one_that_may_have_it():
    """Others keep their place in the line."""
    line = lined_up((1, 0, "red"), (2, 0, "blue"), (3, 0, None))
    assert line.next(frozenset({"blue"})) == 2
    line.take(2)
    assert line.turns() == [1, 3, 2]
    assert line.next(frozenset({"blue"})) == 3
    assert line.next(frozenset({"red"})) == 1
    assert line.takers() == {"red", "blue", None}


def test_a_single_active_consumer_stays_until_it_goes():
    """Credit of the others waits for their turn to be it."""
    line = lined_up((1, 0, None), (2, 5, None), (3, 5, None))
    line.single = True
    assert [one for one in (1, 2, 3) if line.active(one)] == [2]
    line.attach(4, 9, None)
    line.set_credit(4, 1)
    assert (line.turns(), line.ready) == ([2], 1)
    line.detach(2)
    assert (line.turns(), line.active(4)) == ([4], True)
    line.set_credit(4, 0)
    assert line.ready == 0
    line.single = False
    assert line.turns() == [3, 1]


def test_selectors_are_those_of_the_attached():
    """One that two have stays until both went."""
    line = lined_up((1, 0, "red"), (2, 0, "red"), (3, 0, None))
    line.detach(1)
    assert line.selectors == {"red"}
    line.detach(2)
    assert line.selectors == frozenset()
