"""Turns of consumers: any two that always have credit differ by at most one message."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.dispatch.service_queue import ServiceQueue


def lined_up(*consumers, credit=1_000_000):
    """A line of these, as (number, priority, selector)."""
    queue = ServiceQueue()
    for number, priority, selector in consumers:
        queue.attach(number, priority, selector)
        queue.set_credit(number, credit)
    return queue


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=12),
    st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=30),
)
def test_prefetch_makes_no_difference(prefetch, steps):
    """With any credit at a time, and any number of messages at once, one by one or in runs, all
    consumers that always have credit get equally many."""
    queue = ServiceQueue()
    for consumer, credit in enumerate(prefetch, 1):
        queue.attach(consumer, 0, None)
        queue.set_credit(consumer, credit)
    got = Counter(dict.fromkeys(range(1, len(prefetch) + 1), 0))
    for count, singly in steps:
        # So many at a time that no consumer is out of credit before it is given more.
        few = 1 if singly else min(prefetch)
        for at in range(0, count, few):
            for consumer, part in dealt(queue, range(at, min(at + few, count)), singly=singly):
                got[consumer] += len(part)
            for consumer, credit in enumerate(prefetch, 1):
                queue.set_credit(consumer, credit)
            assert max(got.values()) - min(got.values()) <= 1
            assert queue.queued == len(queue.order()) == len(prefetch)


def dealt(queue, run, *, singly):
    """Each consumer's part of the run, in one deal or message by message."""
    if not singly:
        return queue.deal(run)
    takers = [queue.next(frozenset()) for _ in run]
    for taker in takers:
        queue.take(taker)
    return [(taker, (one,)) for taker, one in zip(takers, run, strict=True)]


def test_the_higher_priority_gets_all_while_it_has_credit():
    """Then the next one; in one priority it is a turn."""
    queue = lined_up((1, 0, None), (2, 7, None), (3, 7, None), (4, -1, None), credit=2)
    assert queue.deal(range(7)) == [
        (2, range(0, 4, 2)),
        (3, range(1, 4, 2)),
        (1, range(4, 6)),
        (4, range(6, 7)),
    ]
    assert (queue.queued, queue.room, queue.order()) == (1, 1, [4])


def test_a_message_goes_to_the_next_one_that_may_have_it():
    """Others keep their place in the line."""
    queue = lined_up((1, 0, "red"), (2, 0, "blue"), (3, 0, None))
    assert queue.next(frozenset({"blue"})) == 2
    queue.take(2)
    assert queue.order() == [1, 3, 2]
    assert queue.next(frozenset({"blue"})) == 3
    assert queue.next(frozenset({"red"})) == 1
    assert queue.waiting_selectors() == {"red", "blue", None}


def test_a_single_active_consumer_stays_until_it_goes():
    """Credit of the others waits for their turn to be it."""
    queue = lined_up((1, 0, None), (2, 5, None), (3, 5, None))
    queue.single = True
    assert [one for one in (1, 2, 3) if queue.active(one)] == [2]
    queue.attach(4, 9, None)
    queue.set_credit(4, 1)
    assert (queue.order(), queue.queued) == ([2], 1)
    queue.detach(2)
    assert (queue.order(), queue.active(4)) == ([4], True)
    queue.set_credit(4, 0)
    assert queue.queued == 0
    queue.single = False
    assert queue.order() == [3, 1]


def test_selectors_are_those_of_the_attached():
    """A selector of two consumers stays until both have gone."""
    queue = lined_up((1, 0, "red"), (2, 0, "red"), (3, 0, None))
    queue.detach(1)
    assert queue.selectors == {"red"}
    queue.detach(2)
    assert queue.selectors == frozenset()
