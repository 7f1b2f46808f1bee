"""The judge of the crash tests sees each kind of wrong, and nothing wrong in what is right."""

import pytest
from checker import check
from history import (
    DeadLettered,
    Delivered,
    Drained,
    Ended,
    Event,
    Harmed,
    How,
    Leaving,
    Left,
    Lost,
    Publish,
    Published,
    Recovered,
    Said,
    Searched,
    Settle,
    Settled,
    Subscribed,
)

SUBSCRIBED = Subscribed("s", "t", exclusive=True)
SHARED = Subscribed("s", "t", exclusive=False)
DRAINED = Drained("s")


def sent(number: int = 0, *, kept: bool = True, topic: str = "t") -> Publish:
    return Publish(f"m{number}", topic, "p", number, kept)


def accepted(number: int = 0) -> Published:
    return Published(f"m{number}")


def came(number: int = 0, count: int = 0, consumer: str = "c") -> Delivered:
    return Delivered("s", f"m{number}", consumer, count)


def settle(number: int = 0, said: Said = Said.ACCEPTED, consumer: str = "c") -> Settle:
    return Settle("s", f"m{number}", consumer, said)


def settled(number: int = 0, said: Said = Said.ACCEPTED, consumer: str = "c") -> Settled:
    return Settled("s", f"m{number}", consumer, said)


def crashed(how: How = How.KILLED, credit: int = 0) -> Ended:
    return Ended(how, {"s": credit})


REJECTED = (came(), settle(said=Said.REJECTED), settled(said=Said.REJECTED))
COPY, SEARCHED = DeadLettered("s", "m0"), Searched("s")
WHOLE = (sent(), accepted(), came(), settle(), settled())

SOUND: dict[str, tuple[Event, ...]] = {
    "nothing": (),
    "sent, accepted, delivered, settled": (SUBSCRIBED, *WHOLE, DRAINED),
    "published before the subscription": (sent(), accepted(), SUBSCRIBED, DRAINED),
    "unknown, and it isn't there": (SUBSCRIBED, sent(), crashed(), DRAINED),
    "unknown, and it is there": (SUBSCRIBED, sent(), crashed(), came(), settle(), DRAINED),
    "not persistent, and it is gone": (
        *(SUBSCRIBED, sent(kept=False), accepted(), crashed(), DRAINED),
    ),
    "not drained, so still owed": (SUBSCRIBED, sent(), accepted()),
    "another topic's": (SUBSCRIBED, sent(topic="u"), accepted(), DRAINED),
    "settled, not confirmed, and it comes again": (
        *(SUBSCRIBED, sent(), accepted(), came(), settle(), crashed(), came(count=1)),
        *(settle(), settled(), DRAINED),
    ),
    "held at a crash, comes again marked": (
        *(SUBSCRIBED, sent(), accepted(), came(), crashed(), came(count=1), settle(), DRAINED),
    ),
    "its consumer had asked to go, comes again unmarked": (
        *(SUBSCRIBED, sent(), accepted(), came(), Leaving("c"), crashed(), came(), settle()),
        DRAINED,
    ),
    "released, comes again unmarked": (
        *(SUBSCRIBED, sent(), accepted(), came(), settle(said=Said.RELEASED)),
        *(settled(said=Said.RELEASED), came(), settle(), settled(), DRAINED),
    ),
    "its consumer left, another gets it": (
        *(SHARED, sent(), accepted(), came(), Left("c"), came(consumer="d")),
        *(settle(consumer="d"), DRAINED),
    ),
    "its consumer had asked to go and heard no answer, another gets it": (
        *(SHARED, sent(), accepted(), came(), Leaving("c"), came(consumer="d"), crashed()),
        *(came(count=1, consumer="d"), settle(consumer="d"), DRAINED),
    ),
    "as before, and the other one is read first": (
        *(SHARED, sent(), accepted(), Leaving("c"), came(consumer="d"), came(), crashed()),
        *(came(count=1, consumer="d"), settle(consumer="d"), DRAINED),
    ),
    "sent twice, there twice": (
        *(SUBSCRIBED, sent(), crashed(), sent(), accepted(), came(), came(), settle(), settled()),
        *(settle(), settled(), DRAINED),
    ),
    "on its way at a crash, marked": (
        *(SUBSCRIBED, sent(), accepted(), crashed(credit=1), came(count=1), settle(), DRAINED),
    ),
    "never delivered, marked after a power cut": (
        *(SUBSCRIBED, sent(), accepted(), crashed(How.POWER_CUT), came(count=1), settle()),
    ),
    "held at a clean stop, comes again marked": (
        *(SUBSCRIBED, sent(), accepted(), came(), crashed(How.STOPPED), came(count=1)),
        *(settle(), DRAINED),
    ),
    "held when a stop was cut short": (
        *(SUBSCRIBED, sent(0), accepted(0), sent(1), accepted(1), came(0)),
        *(crashed(How.CUT_SHORT, credit=1), came(0, 1), came(1, 1), settle(0), settle(1), DRAINED),
    ),
    "held when the power cut a stop short": (
        *(SUBSCRIBED, sent(0), accepted(0), sent(1), accepted(1), came(0)),
        *(crashed(How.CUT_OFF), came(0, 1), came(1, 1), settle(0), settle(1), DRAINED),
    ),
    "given back and taken in its old place": (
        *(SUBSCRIBED, sent(0), sent(1), came(0), came(1), settle(0, Said.RELEASED), came(0)),
    ),
    "shared, the second consumer is read first": (
        *(SHARED, sent(0), sent(1), came(1, consumer="d"), came(0)),
    ),
    "held in a fleet that was harmed, another gets it": (
        *(SHARED, sent(), accepted(), came(), Harmed("x"), came(consumer="d"), came(consumer="e")),
        *(Recovered(), settle(), settle(consumer="d"), DRAINED),
    ),
    "its gateway is gone, comes again marked": (
        *(SHARED, sent(), accepted(), Harmed("x"), came(), Lost("c"), came(count=1, consumer="d")),
        *(settle(consumer="d"), DRAINED),
    ),
    "marked in a fleet that is harmed": (
        *(SHARED, Harmed("x"), sent(), accepted(), came(count=1), settle(), DRAINED),
    ),
    "its gateway ends by itself, the message on its way to another consumer comes marked": (
        *(SHARED, sent(), accepted(), Lost("d"), came(count=1), settle(), DRAINED),
    ),
    "its gateway is gone, and the log has had another owner before": (
        *(SHARED, sent(), came(), Harmed("x"), came(count=1, consumer="d")),
        *(settle(0, Said.RELEASED, "d"), Lost("c"), came(consumer="e"), settle(consumer="e")),
    ),
    "rejected, and there is a copy": (SUBSCRIBED, sent(), *REJECTED, DRAINED, COPY, SEARCHED),
    "rejected, unknown, rejected again": (
        *(SUBSCRIBED, sent(), came(), settle(said=Said.REJECTED), crashed(), *REJECTED[1:]),
        *(COPY, SEARCHED),
    ),
    "failed as often as it may": (
        *(SUBSCRIBED, sent(), accepted(), *(came(), settle(said=Said.FAILED)) * 10),
        *(DRAINED, COPY, SEARCHED),
    ),
}

BAD: dict[str, tuple[str, tuple[Event, ...]]] = {
    "accepted, never delivered": ("lost", (SUBSCRIBED, sent(), accepted(), crashed(), DRAINED)),
    "released, never again delivered": (
        "lost",
        (SUBSCRIBED, sent(), accepted(), came(), settle(said=Said.RELEASED), DRAINED),
    ),
    "held at a crash, never again delivered": (
        "lost",
        (SUBSCRIBED, sent(), accepted(), came(), crashed(), DRAINED),
    ),
    "unknown once, then accepted, never delivered": (
        "lost",
        (SUBSCRIBED, sent(), crashed(), sent(), accepted(), DRAINED),
    ),
    "a message of another topic": ("wrong", (SUBSCRIBED, sent(topic="u"), came())),
    "confirmed, and it comes again": (
        "settled_then_redelivered",
        (SUBSCRIBED, *WHOLE, crashed(), came(count=1)),
    ),
    "rejected and confirmed, and it comes again": (
        "settled_then_redelivered",
        (
            *(SUBSCRIBED, sent(), came(), settle(said=Said.REJECTED)),
            *(settled(said=Said.REJECTED), came()),
        ),
    ),
    "sent twice, there three times": (
        "settled_then_redelivered",
        (
            *(SUBSCRIBED, sent(), crashed(), sent(), came(), settle(), settled()),
            *(came(), settle(), settled(), came()),
        ),
    ),
    "nobody sent it": ("never_sent", (SUBSCRIBED, came(7))),
    "twice at the same time": ("doubled", (SHARED, sent(), came(), came(consumer="d"))),
    "twice at the same time, and another one had asked to go": (
        "doubled",
        (SHARED, sent(), came(), Leaving("e"), came(consumer="d")),
    ),
    "a third one has it, too, when its consumer had asked to go": (
        "doubled",
        (SHARED, sent(), came(), Leaving("c"), came(consumer="d"), came(consumer="e")),
    ),
    "twice at the same time, behind an answer": (
        "doubled",
        (SHARED, sent(), Leaving("c"), Left("c"), came(consumer="d"), came()),
    ),
    "twice at the same time, in a fleet that is whole again": (
        "doubled",
        (SHARED, Harmed("x"), sent(), Recovered(), came(), came(consumer="d")),
    ),
    "confirmed, and it comes again in a fleet that was harmed": (
        "settled_then_redelivered",
        (SUBSCRIBED, *WHOLE, Harmed("x"), came()),
    ),
    "a later one first": ("reordered", (SUBSCRIBED, sent(0), sent(1), came(1), came(0))),
    "held at a crash, comes again as if new": (
        "unmarked",
        (SUBSCRIBED, sent(), accepted(), came(), crashed(), came(), settle()),
    ),
    "its gateway is gone, comes again as if new": (
        "unmarked",
        (SHARED, sent(), accepted(), came(), Harmed("x"), Lost("c"), came(consumer="d")),
    ),
    "marked in a fleet that is whole again": (
        "marked",
        (SHARED, Harmed("x"), Recovered(), sent(), accepted(), came(count=1), settle(), DRAINED),
    ),
    "held at a crash, and another one had asked to go": (
        "unmarked",
        (SHARED, sent(), accepted(), came(), Leaving("d"), crashed(), came(), settle()),
    ),
    "held at a power cut, comes again as if new": (
        "unmarked",
        (SUBSCRIBED, sent(), accepted(), came(), crashed(How.POWER_CUT), came(), settle()),
    ),
    "more marked than can have been on their way": (
        "marked",
        (SUBSCRIBED, sent(0), sent(1), crashed(credit=1), came(0, 1), came(1, 1)),
    ),
    "published after a power cut, and marked": (
        "marked",
        (SUBSCRIBED, sent(0), crashed(How.POWER_CUT), sent(1), came(0, 1), came(1, 1)),
    ),
    "marked after a clean stop": (
        "marked",
        (SUBSCRIBED, sent(), crashed(How.STOPPED), came(count=1)),
    ),
    "rejected, and there is no copy": ("unburied", (SUBSCRIBED, sent(), *REJECTED, SEARCHED)),
    "a copy that nobody asked for": (
        "buried_unasked",
        (SUBSCRIBED, sent(), came(), COPY, SEARCHED),
    ),
    "two copies of one message": (
        "buried_and_settled",
        (SUBSCRIBED, sent(), *REJECTED[:2], crashed(), *REJECTED, COPY, COPY, SEARCHED),
    ),
    "a copy, and accepted": (
        "buried_and_settled",
        (
            *(SUBSCRIBED, sent(), came(), settle(said=Said.REJECTED), crashed(), came(count=1)),
            *(settle(), settled(), COPY, SEARCHED),
        ),
    ),
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_right_history_is_let_be(kind: str) -> None:
    """A history without a broken promise is sound."""
    report = check(SOUND[kind])
    assert report.sound, report


@pytest.mark.parametrize("kind", BAD)
def test_a_wrong_history_is_seen(kind: str) -> None:
    """And said by its name, and that alone."""
    name, events = BAD[kind]
    report = check(events)
    assert set(report.violations) == {name}, report
    assert f"{name} 1" in str(report) or name == "marked"


def test_what_a_topic_knows_again_is_there_once() -> None:
    """However often it was sent; without ids it may be there as often."""
    events = (SUBSCRIBED, *WHOLE, sent(), accepted(), came())
    assert check(events).sound
    assert set(check(events, once=True).violations) == {"settled_then_redelivered"}


@pytest.mark.parametrize("how", How)
def test_what_was_held_at_any_end_must_come_marked(how: How) -> None:
    """A stop ends connections with an error, too: what they held may have been seen."""
    events = (SUBSCRIBED, sent(), accepted(), came(), crashed(how), came())
    assert check(events).violations == {"unmarked": (("s", "m0"),)}


def test_marks_are_judged_only_when_asked() -> None:
    """All other promises are judged all the same."""
    kinds = [kind for kind, (name, _) in BAD.items() if name in {"marked", "unmarked"}]
    assert all(check(BAD[kind][1], flags=False).sound for kind in kinds)
    assert not check(BAD["nobody sent it"][1], flags=False).sound


def test_the_counts_are_those_of_the_history() -> None:
    """Attempted, acknowledged, delivered, redelivered, duplicated."""
    events = (
        *(SUBSCRIBED, *WHOLE, sent(1), crashed(), sent(1), accepted(1), sent(2, kept=False)),
        *(accepted(2), came(1), came(1), settle(1), settled(1), settle(1), settled(1), DRAINED),
    )
    report = check(events)
    assert (report.attempted, report.acknowledged, report.delivered) == (3, 2, 3)
    assert (report.redelivered, report.duplicated) == (1, 1)
    assert report.sound, report
