"""Counts, and the number of subscriptions and topics that have counts of their own."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.log.message_counts import (
    OTHERS,
    SECONDS,
    STALLS_SECONDS,
    UNNAMED,
    Histogram,
    MessageCounts,
    Stalls,
)
from distributary.pipeline.model.outcome import Outcome


def counts(series_max: int = 2) -> MessageCounts:
    return MessageCounts(series_max, Stalls())


def test_those_that_come_first_have_counts_of_their_own() -> None:
    """All others are one; temporary destinations are another one, and take no place."""
    made = counts()
    for topic in ("temp-topic://a", "a", "temp-queue://b", "b", "c", "d", "a"):
        made.published(topic, 2, 10)
    assert {topic: (one.messages, one.bytes) for topic, one in made.topics()} == {
        "a": (4, 20),
        "b": (2, 10),
        UNNAMED: (4, 20),
        OTHERS: (4, 20),
    }


def test_a_subscription_keeps_its_counts_while_it_lives() -> None:
    """Redefined it goes on; ended it gives its place to the next one that begins."""
    made = counts()
    first = made.of_subscription("global/a", "t")
    first.delivered(3, 300, 0)
    first.settle(Outcome.ACCEPTED, 2)
    assert made.of_subscription("global/a", "another") is first
    made.of_subscription("global/b", "t").delivered(1, 1, 2)
    others = made.of_subscription("global/c", "t")
    assert others is made.of_subscription("global/d", "t")
    others.delivered(5, 1, 0)
    assert made.of_subscription("queue/temp-queue://x", "temp-queue://x") is made.unnamed
    made.forget("global/a")
    assert made.of_subscription("global/e", "t") not in {first, others}
    assert [(one.name, one.deliveries, one.redeliveries) for one in made.subscriptions()] == [
        ("global/b", 1, 1),
        ("global/e", 0, 0),
        (UNNAMED, 0, 0),
        (OTHERS, 5, 0),
    ]
    made.forget("global/c")  # has none of its own: the sum stays
    assert {one.name: one for one in made.subscriptions()}[OTHERS].deliveries == 5


@given(st.lists(st.floats(0, 20)))
def test_a_histogram_counts_each_value_once(values: list[float]) -> None:
    """In the first bucket that isn't below it; buckets are sums from the lowest on."""
    histogram = Histogram(SECONDS)
    for value in values:
        histogram.observe(value)
    found = dict(histogram.buckets())
    for bound in SECONDS:
        assert found[str(bound)] == sum(value <= bound for value in values)
    assert found["+Inf"] == len(values)
    assert histogram.sum == sum(values)


def test_the_longest_turn_is_remembered_for_a_minute_or_two() -> None:
    """However often it is asked for: two readers of the metrics see the same."""
    stalls = Stalls()
    assert stalls.longest(1_000.0) == 0
    stalls.observe(0.5, 1_010.0)
    stalls.observe(0.2, 1_011.0)
    assert [stalls.longest(at) for at in (1_011.0, 1_059.0, 1_060.0, 1_119.0)] == [0.5] * 4
    stalls.observe(0.1, 1_119.5)
    assert [stalls.longest(at) for at in (1_120.0, 1_179.0, 1_180.0)] == [0.1, 0.1, 0.0]
    stalls.observe(0.3, 1_190.0)
    assert stalls.longest(1_190.0 + 2 * STALLS_SECONDS) == 0
    assert dict(stalls.seconds.buckets())["+Inf"] == 4
