"""Sequences as stretches of consecutive numbers, in two arrays, without a loop over sequences."""

from dataclasses import dataclass, field

import numpy as np

from distributary.pipeline.tables.arrow.arrow_types import Int64s


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """The set of all s with `starts[i] <= s < stops[i]`: ascending, none empty, no two touching."""

    starts: Int64s = field(default_factory=_none)
    stops: Int64s = field(default_factory=_none)

    @classmethod
    def of(cls, ascending: Int64s) -> "Stretches":
        """Return the set of these ascending sequences; repeated ones count once."""
        if not len(ascending):
            return cls()
        cuts = np.flatnonzero(np.diff(ascending) > 1)
        starts = ascending[np.concatenate([[0], cuts + 1])]
        stops = ascending[np.concatenate([cuts, [len(ascending) - 1]])] + 1
        return cls(starts, stops)
