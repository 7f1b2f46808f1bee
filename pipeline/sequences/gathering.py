"""Sequences as few runs: consecutive ones, ones at even distances, short ones behind each other."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from distributary.pipeline.sequences.sequence_set import Run

#: A range of this many sequences costs less as it is than in an array.
_LONG: Final = 16
#: Fewer ranges than this behind each other aren't worth an array.
_MANY: Final = 4


def stretches(sequences: Iterable[int]) -> Iterator[range]:
    """Ascending sequences as runs that are as long as can be."""
    start = stop = -1
    for one in sequences:
        if one != stop:
            if stop > start:
                yield range(start, stop)
            start = one
        stop = one + 1
    if stop > start:
        yield range(start, stop)


def strided(runs: Iterable[range]) -> Iterator[range]:
    """The same sequences in fewer runs: lone ones at even distances become one run with a step.

    Takes runs that ascend and do not overlap; so are those that it gives.
    """
    waiting: range | None = None
    for run in runs:
        if waiting is None:
            waiting = run
        elif len(run) == 1 and (longer := _longer(waiting, run.start)) is not None:
            waiting = longer
        else:
            yield waiting
            waiting = run
    if waiting is not None:
        yield waiting


def gathered(runs: Iterable[range], most: int) -> Iterator[Run]:
    """The same sequences in few runs: as `strided`, and short ranges behind each other in arrays.

    Of the runs, no more are taken at once than hold `most` sequences.
    """
    short: list[range] = []
    size = 0
    for run in strided(runs):
        if len(run) >= _LONG:
            yield from _joined(short)
            short, size = [], 0
            yield run
            continue
        short.append(run)
        size += len(run)
        if size >= most:
            yield from _joined(short)
            short, size = [], 0
    yield from _joined(short)


def gaps(runs: Iterable[range], start: int, stop: int) -> Iterator[range]:
    """Yield the parts of `start .. stop - 1` outside of the runs, which ascend and lie in it."""
    for run in runs:
        if start < run.start:
            yield range(start, run.start)
        start = run.stop
    if start < stop:
        yield range(start, stop)


def _joined(short: list[range]) -> Iterable[Run]:
    if len(short) < _MANY:
        return short
    joined = array("q")
    for run in short:
        joined.extend(run)
    return (joined,)


def _longer(run: range, sequence: int) -> range | None:
    """The run with one more sequence at its end, if that is a run."""
    step = run.step if len(run) > 1 else sequence - run.start
    if sequence - run[-1] != step:
        return None
    return range(run.start, sequence + 1, step)
