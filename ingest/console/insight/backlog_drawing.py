"""A subscription's strip and its backlog over time as shapes, and in words for screen
readers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from distributary.ingest.console.insight.spoken_numbers import messages, number
from distributary.ingest.console.records.backlog_history import BacklogHistory
from distributary.ingest.console.records.cursor_strip import MessageState, Strip

WIDTH: Final = 1_000.0
HEIGHT: Final = 100.0
#: The classes of the states, in the order of `MessageState`.
KINDS: Final = ("settled", "dead", "inflight", "ready")


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; of a mixed range one for each state, above each other. `title` says what it
    is."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """The backlog: a line (points of SVG), bars of arrivals, the highest value, and words."""

    line: str
    area: str
    came: tuple[Box, ...]
    most: int
    most_came: int
    begins_at: int
    ends_at: int
    words: str


def boxes(strip: Strip) -> list[Box]:
    """A strip's ranges, each as wide as it has messages."""
    total = sum(one.messages for one in strip.ranges) or 1
    found: list[Box] = []
    x = 0.0
    for one in strip.ranges:
        width = one.messages / total * WIDTH
        title = f"{number(one.first)} to {number(one.last)}: " + ", ".join(
            f"{messages(count)} {MessageState(nth).name.lower().replace('_', ' ')}"
            for nth, count in enumerate(one.counts)
            if count
        )
        y = 0.0
        for nth, count in enumerate(one.counts):
            height = count / one.messages * HEIGHT
            if count:
                found.append(
                    Box(
                        round(x, 2),
                        round(y, 2),
                        round(width, 2),
                        round(height, 2),
                        KINDS[nth],
                        title,
                    )
                )
            y += height
        x += width
    return found


def drawn(history: BacklogHistory) -> Drawn:
    """The backlog's line where it is known, and the arrivals in each bucket."""
    owed = [one.owed for one in history.buckets]
    most = max((value for value in owed if value is not None), default=0)
    most_came = max((one.came for one in history.buckets), default=0)
    step = WIDTH / len(history.buckets)
    known = [(nth, value) for nth, value in enumerate(owed) if value is not None]
    points = [((nth + 1) * step, _height(value, most)) for nth, value in known]
    if known:  # where the first of its buckets begins
        nth, value = known[0]
        first = history.buckets[nth]
        before = max(value - first.came + first.settled, 0)
        points.insert(0, (nth * step, _height(before, most)))
    line = " ".join(f"{x:.1f},{y}" for x, y in points)
    area = f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}" if points else ""
    came = tuple(
        _bar(nth * step, step, one.came / max(most_came, 1), messages(one.came))
        for nth, one in enumerate(history.buckets)
        if one.came
    )
    begins, ends = history.buckets[0].begins_at, history.buckets[-1].begins_at + history.width
    return Drawn(line, area, came, most, most_came, begins, ends, _words(history, owed, most))


def _height(value: int, most: int) -> float:
    return round(HEIGHT - value / max(most, 1) * HEIGHT * 0.94, 1)


def _bar(x: float, step: float, part: float, title: str) -> Box:
    height = max(part * HEIGHT, 2)
    return Box(
        round(x + step * 0.1, 2),
        round(HEIGHT - height, 2),
        round(step * 0.8, 2),
        round(height, 2),
        "came",
        title,
    )


def _words(history: BacklogHistory, owed: Sequence[int | None], most: int) -> str:
    came = sum(one.came for one in history.buckets)
    settled = sum(one.settled for one in history.buckets)
    said = f"{messages(came)} came, {messages(settled)} settled"
    if owed[-1] is None:
        return f"{said}; how many waited isn't known, as more would have to be read for it."
    at_most = " at most" if history.at_most else ""
    return f"{said}; {messages(owed[-1])} wait now{at_most}, {number(most)} at the highest."
