"""The life of a message to be drawn and to be read: a lane for each subscription, its deliveries as
bars, and each of them in a sentence.

The scale isn't linear: between two moments lies as much room as the logarithm of the time between
them, so that milliseconds can be seen beside hours.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, assert_never

from distributary.ingest.console.insight.spoken_numbers import instant, span
from distributary.ingest.console.log_rows.subscription_lives import Event
from distributary.ingest.console.records.kinship import Kin, Relation
from distributary.ingest.console.records.message_life import (
    Delivery,
    Lane,
    MessageLife,
    Stay,
    StayState,
)
from distributary.pipeline.model.outcome import Outcome

#: The width that positions refer to, and the margin on both sides.
WIDTH: Final = 1_000.0
MARGIN: Final = 12.0
#: The least width of a bar, and the least room between two ticks.
BAR_MIN: Final = 7.0
TICKS_APART: Final = 150.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A bar from `x`, `width` wide; `kind` is its colour: waiting, done, back, gone, flying."""

    x: float
    width: float
    kind: str


@dataclass(frozen=True, slots=True)
class LaneShown:
    """A lane with its state in words, and the tone of that: good, warn, bad or faint."""

    subscription: str
    state: str
    tone: str
    marks: tuple[Mark, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment on the scale, as time since publishing."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lanes, and the scale below them."""

    lanes: tuple[LaneShown, ...]
    ticks: tuple[Tick, ...]


def timeline(life: MessageLife, now: int) -> Timeline:
    """The lanes of a life; `now` (microseconds) is where open stays end."""
    published = life.message.published_at
    scale = _Scale(sorted({published, *_moments(life, now)}))
    lanes = tuple(_lane(lane, scale, now) for lane in life.lanes)
    return Timeline(lanes, tuple(scale.ticks(published)))


def kin_words(kin: Kin) -> str:
    """Relation of another message to this one, in words."""
    match kin.relation:
        case Relation.DEAD_LETTER_OF:
            return f"This is a dead letter: {kin.subscription} gave up"
        case Relation.DEAD_LETTER:
            return f"Its dead letter, of {kin.subscription}, is"
        case Relation.REDRIVEN_FROM:
            return f"It was redriven to {kin.subscription}; before, it was the dead letter"
        case Relation.REDRIVEN_TO:
            return f"It was redriven to {kin.subscription}: there it is"
        case Relation.ROUTED_FROM:
            return "A route copied it from"
        case Relation.ROUTED_TO:
            return "A route copied it to"
        case _ as never:
            assert_never(never)


#: A stay that was never owed, or whose state is unknown, has no bar.
_NOT_DRAWN: Final = frozenset({StayState.NEVER_OWED, StayState.NOT_SELECTED, StayState.UNKNOWN})


def state_words(lane: Lane) -> tuple[str, str]:
    """How it stands with a subscription now, and the tone of that."""
    stay = lane.stays[-1]
    match stay.state:
        case StayState.SETTLED:
            outcome = _final(stay)
            return outcome.value.replace("_", "-"), "good" if outcome is Outcome.ACCEPTED else "bad"
        case StayState.WAITING:
            return "waiting", "warn"
        case StayState.IN_FLIGHT:
            return "in flight", "warn"
        case StayState.ENDED:
            return f"{_event_word(stay.incarnation.ended)} while it waited", "bad"
        case StayState.NEVER_OWED | StayState.NOT_SELECTED:
            return stay.state.value, "faint"
        case StayState.PASSED:
            return "passed without a settlement", "bad"
        case StayState.UNKNOWN:
            return "unknown", "bad"
        case _ as never:
            assert_never(never)


def _final(stay: Stay) -> Outcome:
    if stay.end is not None:
        return stay.end.outcome
    outcome = next((one.outcome for one in stay.deliveries if one.final), None)
    return Outcome.ACCEPTED if outcome is None else outcome


def _moments(life: MessageLife, now: int) -> Iterator[int]:
    for lane in life.lanes:
        for stay in lane.stays:
            if stay.state in _NOT_DRAWN:
                continue
            yield stay.since
            yield _end(stay, now)
            for one in stay.deliveries:
                yield one.delivered_at or stay.since
                yield one.settled_at or now


def _end(stay: Stay, now: int) -> int:
    """When it was owed no more, or now."""
    if stay.end is not None:
        return max(stay.end.settled_at, stay.since)
    if stay.state is StayState.SETTLED:
        return max((one.settled_at or now for one in stay.deliveries), default=now)
    ended = stay.incarnation.ended
    return now if ended is None else max(ended.at, stay.since)


def _lane(lane: Lane, scale: "_Scale", now: int) -> LaneShown:
    marks: list[Mark] = []
    sentences: list[str] = []
    for nth, stay in enumerate(lane.stays):
        if stay.state not in _NOT_DRAWN:
            marks.append(scale.bar(stay.since, _end(stay, now), "waiting"))
        marks += [
            scale.bar(one.delivered_at or stay.since, one.settled_at or now, _kind(one))
            for one in stay.deliveries
        ]
        if stay.end is not None and stay.state is StayState.SETTLED:
            marks.append(scale.bar(stay.end.settled_at, stay.end.settled_at, "gone"))
        sentences += _sentences(stay, first=nth == 0)
    state, tone = state_words(lane)
    return LaneShown(lane.subscription, state, tone, tuple(marks), tuple(sentences))


def _kind(one: Delivery) -> str:
    if one.outcome is None:
        return "flying"
    if one.outcome is Outcome.ACCEPTED:
        return "done"
    return "gone" if one.final else "back"


def _sentences(stay: Stay, *, first: bool) -> list[str]:
    said: list[str] = []
    began = stay.incarnation.began
    if not first or began.at >= stay.since:
        said.append(f"{_event_sentence(began)}: owed from then on.")
    said += [_delivery(one) for one in stay.deliveries]
    match stay.state:
        case StayState.NEVER_OWED if stay.end is not None:
            said.append(_NEVER[stay.end.outcome])
        case StayState.NOT_SELECTED:
            said.append(f"Its selector doesn't select it: {stay.incarnation.selector}")
        case StayState.WAITING:
            said.append("It waits, and no consumer holds it.")
        case StayState.PASSED:
            said.append("The floor has passed it, and no settlement says why: run the audit.")
        case StayState.UNKNOWN:
            said.append("Its selector can't be evaluated for this message.")
        case StayState.ENDED if stay.incarnation.ended is not None:
            said.append(f"{_event_sentence(stay.incarnation.ended)} while it waited.")
        case StayState.SETTLED if stay.end is not None:
            words = _ENDS.get(stay.end.outcome, stay.end.outcome.value)
            said.append(f"{words} at {instant(stay.end.settled_at)}; no consumer had it then.")
        case _:
            pass
    return said


_NEVER: Final = {
    Outcome.LOCAL: "Never owed: its own container published it (no-local).",
    Outcome.FORBIDDEN: "Never owed: the pattern's creator may not consume from this topic.",
    Outcome.REDRIVEN: "Never owed: it was redriven for another subscription alone.",
}
_ENDS: Final = {
    Outcome.EXPIRED: "Expired",
    Outcome.DEAD_LETTERED: "Dead-lettered",
    Outcome.DROPPED: "Dropped, as the backlog was full,",
    Outcome.REDRIVEN: "Redriven",
    Outcome.MODIFIED: "Given up without a copy",
}
_HOW: Final = {
    Outcome.ACCEPTED: "accepted it",
    Outcome.REJECTED: "rejected it",
    Outcome.RELEASED: "gave it back",
    Outcome.LOST: "was lost with it",
    Outcome.MODIFIED: "failed",
    Outcome.EXPIRED: "had it when it expired",
    Outcome.DEAD_LETTERED: "ended its last attempt: dead-lettered",
    Outcome.DROPPED: "had it when it was dropped",
}


def _delivery(one: Delivery) -> str:
    count = f" (attempt {one.delivery_count + 1})" if one.delivery_count else ""
    at = instant(one.delivered_at)
    if one.outcome is None:
        return f"{one.consumer} holds it since {at}{count}."
    how = _HOW.get(one.outcome, one.outcome.value)
    if one.outcome is Outcome.MODIFIED and one.final:
        how = "ended its last attempt: given up without a copy"
    if one.settled_at is None or one.delivered_at is None:
        return f"{one.consumer} {how}{count}."
    if one.outcome is Outcome.LOST or one.settled_at == one.delivered_at:
        return f"{one.consumer} {how}, {instant(one.settled_at)}{count}."
    took = span(one.settled_at - one.delivered_at)
    return f"{one.consumer} got it {at} and {took} later {how}{count}."


def _event_word(event: Event | None) -> str:
    return "ended" if event is None else event.what.value


def _event_sentence(event: Event) -> str:
    by = f" by {event.by}" if event.by else ""
    return f"The subscription was {event.what.value}{by} at {instant(event.at)}"


class _Scale:
    """Moments (ascending) to positions."""

    def __init__(self, moments: Sequence[int]) -> None:
        self._moments = moments
        gaps = [b - a for a, b in pairwise(moments)]
        weights = [1 + math.log10(1 + gap / 1_000) for gap in gaps]
        room, total = WIDTH - 2 * MARGIN, sum(weights) or 1.0
        self._places = [MARGIN]
        for weight in weights:
            self._places.append(self._places[-1] + weight / total * room)

    def at(self, moment: int) -> float:
        """The position of one of its moments."""
        return self._places[bisect_left(self._moments, moment)]

    def bar(self, begin: int, end: int, kind: str) -> Mark:
        """A bar between two of its moments."""
        x = self.at(begin)
        width = max(self.at(max(end, begin)) - x, BAR_MIN)
        return Mark(round(min(x, WIDTH - width), 1), round(width, 1), kind)

    def ticks(self, since: int) -> Iterator[Tick]:
        """Some of its moments, far enough from each other to be read."""
        last = -TICKS_APART
        for moment, place in zip(self._moments, self._places, strict=True):
            if place - last >= TICKS_APART:
                last = place
                yield Tick(
                    round(place, 1), "published" if moment == since else _since(moment - since)
                )


def _since(microseconds: int) -> str:
    return f"{'+' if microseconds >= 0 else '-'}{span(abs(microseconds))}"
