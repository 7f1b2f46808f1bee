"""Sequences as few runs: consecutive ones, ones at even distances, short ones behind each other."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

#: A range of this many sequences takes less memory than their array.
_LONG: Final = 16
#: Fewer consecutive short ranges than this aren't worth an array.
_MANY: Final = 4


def stretches(sequences: Iterable[int]) -> Iterator[range]:
    """Yield ascending sequences as runs that are as long as possible."""
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
    """Yield the same sequences in fewer runs: lone ones at even distances become a run with a step.

    Both the given and the yielded runs ascend and do not overlap.
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
    """Yield the same sequences in few runs: as `strided`, with consecutive short ranges in arrays.

    No more runs are taken at once than hold `most` sequences.
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


def common(members: SequenceSet, run: Run) -> list[Run]:
    """Return the sequences of the run that are in the set."""
    if not members or not run:
        return []
    if isinstance(run, range) and run.step == 1:
        return list(gathered(members.runs_within(run.start, run.stop), len(run)))
    return list(gathered((range(one, one + 1) for one in run if one in members), len(run)))


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
    """Return the run with one more sequence at its end, if that is a run."""
    step = run.step if len(run) > 1 else sequence - run.start
    if sequence - run[-1] != step:
        return None
    return range(run.start, sequence + 1, step)
