"""Delivery attempts of owed messages: how many failed, and how often each was acquired.

Rule 1: a failed attempt is counted when it is shown. An attempt whose end isn't known counts as one
        more in what consumers are told, however many such attempts there were: those of before a
        crash, and those of consumers that were lost.
Rule 2: `released` and a lost consumer are no failures; they raise the times acquired.
Rule 3: the log tells attempts of lost consumers by their own outcome, so what is recorded leaves
        them out.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import groupby

from distributary.pipeline.sequences.sequence_set import Run, SequenceSet


class Attempts:
    """The attempts of one subscription's messages, as long as they are owed."""

    __slots__ = ("_releases", "failures", "lost", "possibly_delivered_below")

    def __init__(
        self,
        failures: Mapping[int, int],
        possibly_delivered_below: int,
        lost: SequenceSet | None = None,
    ) -> None:
        """A message that is owed below `possibly_delivered_below` and isn't in `failures` counts
        as failed once. `lost` are those that a lost consumer had: kept and changed here."""
        self.failures = dict(failures)
        self.possibly_delivered_below = possibly_delivered_below
        #: From `possibly_delivered_below` on; all below is marked anyhow.
        self.lost = SequenceSet() if lost is None else lost
        self.lost.discard(range(possibly_delivered_below))
        self._releases: dict[int, int] = {}  #: how often they came back without having failed

    def __len__(self) -> int:
        return len(self.failures) + len(self._releases) + len(self.lost)

    def copy(self) -> "Attempts":
        """What consumers are told, apart from this."""
        return Attempts(self.failures, self.possibly_delivered_below, self.lost.copy())

    def of(self, sequence: int) -> int:
        """Failed attempts of a message, as consumers are told."""
        return self.failures.get(sequence, self._usual(sequence)) + (sequence in self.lost)

    def recorded(self, sequence: int, told: int) -> int:
        """What the log says of a message of which consumers are told so many."""
        return told - (sequence in self.lost)

    def known(self, sequence: int, told: int) -> int:
        """How many attempts have failed for certain, of so many that consumers are told."""
        return told - (sequence < self.possibly_delivered_below or sequence in self.lost)

    def parts(self, run: Run) -> list[tuple[Run, int]]:
        """The run in parts of one number of failed attempts each, as consumers are told, and of one
        answer to whether some of them are in doubt; nearly always whole, with 0."""
        below = self.possibly_delivered_below
        if not below and not self.failures and not self.lost:
            return [(run, 0)]
        if run and run[0] < below <= run[-1]:
            cut = bisect_left(run, below)
            return self.parts(run[:cut]) + self.parts(run[cut:])
        if not self.lost:
            return self._parts(run)
        return [
            (part, failures + lost)
            for same, lost in _split(run, self.lost)
            for part, failures in self._parts(same)
        ]

    def _parts(self, run: Run) -> list[tuple[Run, int]]:
        """As `parts`, of a run on one side of `possibly_delivered_below`, without lost ones."""
        usual = self._usual(run[0]) if run else 0
        if not self.failures or not _any(self.failures, run):
            return [(run, usual)]
        parts: list[tuple[Run, int]] = []
        at = 0
        for failures, group in groupby(run, lambda sequence: self.failures.get(sequence, usual)):
            stop = at + sum(1 for _ in group)
            parts.append((run[at:stop], failures))
            at = stop
        return parts

    def fail(self, run: Run) -> None:
        """An attempt of each of these failed."""
        for sequence in run:
            self.failures[sequence] = self.failures.get(sequence, self._usual(sequence)) + 1

    def back(self, run: Run) -> None:
        """These messages were acquired and returned without a failure."""
        for sequence in run:
            self._releases[sequence] = self._releases.get(sequence, 0) + 1

    def lose(self, run: Run) -> None:
        """A consumer that had these was lost: it may have seen them."""
        self.back(run)
        below = self.possibly_delivered_below
        self.lost.add(run if run[0] >= below else run[bisect_left(run, below) :])

    def acquired(self, sequence: int) -> int:
        """How often the message was acquired and returned, as far as it is known: failed
        attempts, and since the start those that didn't fail."""
        return self.recorded(sequence, self.of(sequence)) + self._releases.get(sequence, 0)

    @property
    def none(self) -> bool:
        """Whether no message that is owed has been tried, as far as anybody knows."""
        return not (self.failures or self._releases or self.possibly_delivered_below or self.lost)

    def forget(self, run: Run) -> None:
        """These are owed no more."""
        if self.lost:
            self.lost.discard(run)
        for known in (self.failures, self._releases):
            if known and _any(known, run):
                for sequence in run:
                    known.pop(sequence, None)

    def clear(self) -> None:
        """Nothing is known of any message."""
        self.failures.clear()
        self._releases.clear()
        self.lost.clear()
        self.possibly_delivered_below = 0

    def _usual(self, sequence: int) -> int:
        """Those of a message that isn't in `failures`."""
        return 1 if sequence < self.possibly_delivered_below else 0


def _split(run: Run, lost: SequenceSet) -> list[tuple[Run, bool]]:
    """The run in parts that are all in the set, or all not in it."""
    if not run or lost.contains_all(run):
        return [(run, True)] if run else []
    if next(lost.runs_within(run[0], run[-1] + 1), None) is None:
        return [(run, False)]
    parts: list[tuple[Run, bool]] = []
    if isinstance(run, range) and run.step == 1:
        at = run.start
        for part in lost.runs_within(run.start, run.stop):
            if at < part.start:
                parts.append((range(at, part.start), False))
            parts.append((part, True))
            at = part.stop
        return [*parts, (range(at, run.stop), False)] if at < run.stop else parts
    at = 0
    for there, group in groupby(run, lost.__contains__):
        stop = at + sum(1 for _ in group)
        parts.append((run[at:stop], there))
        at = stop
    return parts


def _any(known: Mapping[int, int], run: Run) -> bool:
    """Whether any message of the run is known."""
    if isinstance(run, range) and len(known) < len(run):
        return any(sequence in run for sequence in known)
    return not known.keys().isdisjoint(run)
