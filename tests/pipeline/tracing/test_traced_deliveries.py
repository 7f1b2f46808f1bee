"""Followed deliveries of traced messages, and their spans."""

import random

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tracing.trace_span import (
    Span,
    Step,
    TracedDelivery,
    TracedMessage,
    span_of,
)
from distributary.pipeline.tracing.traced_deliveries import TracedDeliveries, TracedOutcome

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def delivery(sequence: int, at: int, consumer: str = "c") -> TracedDelivery:
    return TracedDelivery(TracedMessage(PARENT, b"", sequence, 10), "s", "topic", consumer, 0, at)


def said(outcome: Outcome, delivered_at: int, at: int, *, final: bool = True) -> TracedOutcome:
    return TracedOutcome(outcome, final, delivered_at, at, at + 1)


def spans_of(steps: list[Step]) -> list[Span]:
    spans = [span_of(step) for step in steps]
    return [span for span in spans if span is not None]


def names(spans: list[Span]) -> list[str]:
    return [one.name.split()[0] for one in spans]


def test_a_run_settles_the_traced_ones_in_it() -> None:
    known = TracedDeliveries(10, 100)
    for sequence in (3, 5, 9, 12):
        known.delivered("s", sequence, delivery(sequence, 1))
    spans = spans_of(known.settled("s", range(3, 12, 2), said(Outcome.ACCEPTED, 1, 2)))
    assert [one.attributes["distributary.sequence"] for one in spans] == [3, 3, 5, 5, 9, 9]
    assert names(spans) == ["deliver", "settle"] * 3
    assert all(spans[nth + 1].parent_id == spans[nth].span_id for nth in (0, 2, 4))
    assert len(known) == 1
    assert known.settled("other", range(20), said(Outcome.ACCEPTED, 1, 2)) == []


def test_a_redelivery_links_to_the_one_before() -> None:
    """Also where the next one goes out before the first one's outcome is durable."""
    known = TracedDeliveries(10, 100)
    known.delivered("s", 1, delivery(1, 1))
    known.delivered("s", 1, delivery(1, 5))
    first = spans_of(known.settled("s", range(1, 2), said(Outcome.RELEASED, 1, 4, final=False)))
    second = spans_of(known.settled("s", range(1, 2), said(Outcome.ACCEPTED, 5, 6)))
    assert (first[0].began, first[0].ended, first[0].link) == (1, 4, b"")
    assert second[0].link == first[0].span_id != second[0].span_id
    assert not len(known)


def test_an_outcome_that_follows_another_belongs_to_the_last_delivery() -> None:
    """A message's last failure is recorded, then dead-lettered, without a time of delivery."""
    known = TracedDeliveries(10, 100)
    known.delivered("s", 1, delivery(1, 1))
    failed = spans_of(known.settled("s", range(1, 2), said(Outcome.MODIFIED, 1, 2, final=False)))
    given_up = spans_of(known.settled("s", range(1, 2), said(Outcome.DEAD_LETTERED, 3, 3)))
    assert names(failed + given_up) == ["deliver", "settle", "settle"]
    assert given_up[0].parent_id == failed[0].span_id
    assert [one.error for one in failed + given_up] == ["", "modified", "dead_lettered"]
    assert not len(known)


def test_what_is_too_much_or_too_old_is_forgotten() -> None:
    known = TracedDeliveries(2, 100)
    assert known.delivered("s", 1, delivery(1, 1)) == []
    assert known.delivered("s", 2, delivery(2, 2)) == []
    [one] = spans_of(known.delivered("s", 3, delivery(3, 3)))
    assert one.attributes["distributary.sequence"] == 1
    assert one.attributes["distributary.outcome"] == "none"
    assert names(spans_of(known.due(101))) == []
    assert names(spans_of(known.due(102))) == ["deliver"]
    assert names(spans_of(known.due(500))) == ["deliver"]
    assert not len(known)


def test_a_message_that_comes_again_and_again_is_not_kept_as_often() -> None:
    known = TracedDeliveries(10, 10**6)
    steps = [one for at in range(100) for one in known.delivered("s", 1, delivery(1, at))]
    spans = spans_of(steps)
    assert [one.began for one in spans] == [*range(92)]


def test_random_lives_leave_nothing_and_say_each_delivery_once() -> None:
    """Against a count by hand: each delivery is one span, each outcome at most one."""
    for seed in range(200):
        dice = random.Random(seed)
        known = TracedDeliveries(dice.randint(1, 30), dice.randint(1, 200))
        made, delivers = 0, list[Span]()
        held: list[tuple[str, int, int]] = []
        for now in range(1, 300):
            steps: list[Step] = []
            if dice.random() < 0.6:
                key, number = dice.choice("ab"), dice.randint(0, 20)
                steps = known.delivered(key, number, delivery(number, now, key))
                held.append((key, number, now))
                made += 1
            elif held:
                key, number, at = held.pop(dice.randrange(len(held)))
                outcome = said(Outcome.ACCEPTED, at, now, final=dice.random() < 0.5)
                steps = known.settled(key, range(number, number + 1), outcome)
            delivers += [one for one in spans_of(steps) if one.name.startswith("deliver")]
        delivers += spans_of(known.due(10**9))
        assert not len(known)
        assert len(delivers) == made == len({one.span_id for one in delivers}), seed
