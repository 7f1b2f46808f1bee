"""Choice of the next merge: seconds into quarter minutes, into minutes, into hours, a day.

The files of one record and day are in the order of their groups, older ones in higher tiers. A
merge takes neighbours only, so files stay disjoint in groups. A full file is never merged: a row is
rewritten at most once for each tier, and never when it lies in big files already.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from distributary.pipeline.tables.delta.commits import AddedFile

#: Files of one tier that become one of the next: a day of commits, one a second, is merged four
#: times.
FAN_IN: Final = 16
#: Files that one step reads when a day is over, at most.
MERGE_FILES_MAX: Final = 64
#: Bytes of rows, uncompressed, from which on a file is full: less than a commit has that was made
#: because enough bytes waited, so that under load no row is merged.
FULL_BYTES: Final = 12 << 20
#: Rows from which on a file is full, however small they are.
FULL_ROWS: Final = 131_072
#: Limits of one step's reading: 100 to 200 ms of one core, and thrice as many bytes of memory.
MERGE_BYTES_MAX: Final = 32 << 20
MERGE_ROWS_MAX: Final = 2 * FULL_ROWS
#: The tier of a file that is full, or has all rows of its day.
LAST_TIER: Final = 9


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbours that are to become one file of `tier`. `closed`: no more files will join them."""

    files: tuple[AddedFile, ...]
    tier: int
    closed: bool


def choose(files: Sequence[AddedFile], *, today: str, full: Collection[str]) -> Run | None:
    """Choose the next merge; None if there is none. `full` are the paths of files that are known to
    be full although they are small; `today` is the first day that isn't over."""
    for day, same in _partitions(files):
        runs = list(_runs(same, full))
        for nth, run in enumerate(runs):
            closed = day < today or nth < len(runs) - 1
            if found := _due(run, closed=closed):
                return found
    return None


def is_full(file: AddedFile, full: Collection[str]) -> bool:
    return (
        file.tier >= LAST_TIER
        or file.size >= FULL_BYTES
        or file.rows >= FULL_ROWS
        or file.path in full
    )


def _partitions(files: Sequence[AddedFile]) -> Iterator[tuple[str, list[AddedFile]]]:
    ordered = sorted(files, key=lambda file: (file.day, file.record))  # stable: groups stay
    for (day, _), same in groupby(ordered, key=lambda file: (file.day, file.record)):
        yield day, list(same)


def _runs(files: Sequence[AddedFile], full: Collection[str]) -> Iterator[list[AddedFile]]:
    """Yield the files between full files; the last run is there even if it is empty."""
    run: list[AddedFile] = []
    for file in files:
        if is_full(file, full):
            yield run
            run = []
        else:
            run.append(file)
    yield run


def _due(run: list[AddedFile], *, closed: bool) -> Run | None:
    if closed and len(run) > 1:
        whole = len(run) <= MERGE_FILES_MAX
        some = tuple(run[:MERGE_FILES_MAX])
        highest = max(file.tier for file in some)
        return Run(some, LAST_TIER if whole else min(highest + 1, LAST_TIER - 1), closed=True)
    for tier, same in groupby(run, key=lambda file: file.tier):
        if len(some := tuple(same)) >= FAN_IN:
            return Run(some[:FAN_IN], min(tier + 1, LAST_TIER - 1), closed=False)
    return None
