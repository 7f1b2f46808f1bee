"""The readings of the last minutes as columns for plots.

A time without a reading is a gap: no page was open, or the gateway didn't answer.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Seconds between two points from which on a line isn't drawn through.
GAP_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Point:
    """One moment; `at` is seconds since 1970. None where there is nothing to say."""

    at: float
    published: float | None = None
    delivered: float | None = None
    backlog: float | None = None
    accept_p50_ms: float | None = None
    accept_p99_ms: float | None = None
    write_p99_ms: float | None = None
    uncommitted: float | None = None


COLUMNS: Final = tuple(Point.__dataclass_fields__)


class Series:
    """The newest points of `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._points: deque[Point] = deque()

    def add(self, point: Point) -> None:
        """A point later than all before it; after a long time without any, a gap stands first."""
        if self._points and point.at - self._points[-1].at > GAP_SECONDS:
            self._points.append(Point(self._points[-1].at + 1e-3))
        self._points.append(point)
        while self._points[0].at < point.at - self._seconds:
            self._points.popleft()

    def points(self) -> Sequence[Point]:
        """All of them, the oldest first."""
        return tuple(self._points)

    def columns(self, after: float) -> dict[str, list[float | None]]:
        """Readings after a moment, by column."""
        newer = [point for point in self._points if point.at > after]
        return {name: [getattr(point, name) for point in newer] for name in COLUMNS}
