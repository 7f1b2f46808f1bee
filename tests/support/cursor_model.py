"""A cursor folded run by run: the model of what a restart and Spark make of settlements."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from distributary.pipeline.sequences.sequence_set import SequenceSet


@dataclass(frozen=True, slots=True)
class Cursor:
    """The settled sequences of a subscription: with the log they are all that a restart needs.

    All that the subscription is owed below `floor` is settled. `settled` are the exceptions above:
    runs of consecutive sequences, none below the floor, ascending, no two touching.
    """

    floor: int
    settled: tuple[range, ...] = ()

    def __contains__(self, sequence: int) -> bool:
        """Whether this sequence is settled and must not be delivered again."""
        if sequence < self.floor:
            return True
        nth = bisect_right(self.settled, sequence, key=lambda run: run.start)
        return nth > 0 and sequence in self.settled[nth - 1]


def fold(runs: Iterable[range], floor: int) -> Cursor:
    """The cursor after settlements of these runs, in whatever order, the last with this floor.

    Of the runs, give only those that are final. An older cursor goes on as
    `fold([*cursor.settled, *runs], floor)`.
    """
    settled = SequenceSet(run[bisect_left(run, floor) :] for run in runs)
    return Cursor(floor, tuple(settled.runs()))
