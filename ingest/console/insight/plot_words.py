"""The plots of the first page, each with its contents in words, for screen readers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from distributary.ingest.console.insight.series import Point
from distributary.ingest.console.insight.spoken_numbers import number


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot: a column of the series, and its name."""

    column: str
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot. `unit` follows its numbers."""

    name: str
    title: str
    unit: str
    lines: tuple[Line, ...]


PLOTS: Final = (
    Plot(
        "rates",
        "Messages a second",
        "/s",
        (Line("published", "published"), Line("delivered", "delivered")),
    ),
    Plot("backlog", "Backlog", " messages", (Line("backlog", "waiting"),)),
    Plot(
        "latency",
        "Accept and fsync, at most",
        " ms",
        (
            Line("accept_p50_ms", "accept, half"),
            Line("accept_p99_ms", "accept, 99 %"),
            Line("write_p99_ms", "fsync, 99 %"),
        ),
    ),
    Plot("commits", "Not yet in the table", " messages", (Line("uncommitted", "uncommitted"),)),
)


@dataclass(frozen=True, slots=True)
class PlotShown:
    """A plot with its numbers in words."""

    plot: Plot
    words: str


def plots(points: Sequence[Point]) -> list[PlotShown]:
    """All plots of these points."""
    return [
        PlotShown(plot, "; ".join(_line(line, plot.unit, points) for line in plot.lines))
        for plot in PLOTS
    ]


def _line(line: Line, unit: str, points: Sequence[Point]) -> str:
    values = [value for point in points if (value := getattr(point, line.column)) is not None]
    if not values:
        return f"{line.label}: nothing yet"
    least, most = number(min(values)), number(max(values))
    return f"{line.label}: {number(values[-1])}{unit} now, from {least} to {most}"
