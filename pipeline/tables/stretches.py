"""Sets of sequences as stretches in two arrays: numpy's way of `pipeline.cursor.fold`.

A settled set is a few long stretches even when it has millions of sequences, and the fold of a
whole log must not loop over sequences.
"""

from dataclasses import dataclass, field

import numpy as np

from pipeline.tables.arrow import Int64s


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """The set of all s with `starts[i] <= s < stops[i]`: ascending, none empty, no two touching."""

    starts: Int64s = field(default_factory=_none)
    stops: Int64s = field(default_factory=_none)

    @classmethod
    def of(cls, ascending: Int64s) -> "Stretches":
        """The set of these sequences, which ascend; repeated ones count once."""
        if not len(ascending):
            return cls()
        cuts = np.flatnonzero(np.diff(ascending) > 1)
        starts = ascending[np.concatenate([[0], cuts + 1])]
        stops = ascending[np.concatenate([cuts, [len(ascending) - 1]])] + 1
        return cls(starts, stops)

    def union(self, other: "Stretches") -> "Stretches":
        """All that is in one or the other."""
        if not len(self.starts) or not len(other.starts):
            return self if len(self.starts) else other
        starts = np.concatenate([self.starts, other.starts])
        stops = np.concatenate([self.stops, other.stops])
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(stops[order])
        cuts = np.flatnonzero(starts[1:] > reach[:-1])
        return Stretches(
            starts[np.concatenate([[0], cuts + 1])],
            reach[np.concatenate([cuts, [len(reach) - 1]])],
        )

    def from_floor(self, floor: int) -> "Stretches":
        """What of it isn't below the floor."""
        keep = self.stops > floor
        return Stretches(np.maximum(self.starts[keep], floor), self.stops[keep])

    def ranges(self) -> tuple[range, ...]:
        return tuple(map(range, self.starts.tolist(), self.stops.tolist()))
