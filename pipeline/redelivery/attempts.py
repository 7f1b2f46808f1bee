"""Delivery attempts of owed messages: the number of failed ones, and of acquisitions.

Rule 1: a failed attempt is counted when it fails. All attempts whose end isn't known together count
        as one more in the number that consumers are told: possible deliveries before a crash as
        one, deliveries to lost consumers as one.
Rule 2: `released` and a lost consumer are no failures; they count as acquisitions.
Rule 3: the log has an own outcome for attempts of lost consumers, so recorded counts leave them
        out.
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
        """An owed message below `possibly_delivered_below` that isn't in `failures` counts as
        failed once. `lost` are messages that a lost consumer had; the set is changed here."""
        self.failures = dict(failures)
        self.possibly_delivered_below = possibly_delivered_below
        #: Sequences from `possibly_delivered_below` on; all messages below are marked anyhow.
        self.lost = SequenceSet() if lost is None else lost
        self.lost.discard(range(possibly_delivered_below))
        self._releases: dict[int, int] = {}  #: returns without a failure

    def __len__(self) -> int:
        return len(self.failures) + len(self._releases) + len(self.lost)

    def copy(self) -> "Attempts":
        """Return an independent copy with the counts that consumers are told."""
        return Attempts(self.failures, self.possibly_delivered_below, self.lost.copy())

    def of(self, sequence: int) -> int:
        """Return the failed attempts of a message, as consumers are told."""
        return self.failures.get(sequence, self._usual(sequence)) + (sequence in self.lost)

    def recorded(self, sequence: int, told: int) -> int:
        """Return the count for the log, from the count `told` to consumers."""
        return told - (sequence in self.lost)

    def known(self, sequence: int, told: int) -> int:
        """Return the attempts that certainly failed, from the count `told` to consumers."""
        return told - (sequence < self.possibly_delivered_below or sequence in self.lost)

    def parts(self, run: Run) -> list[tuple[Run, int]]:
        """Cut a run into parts, each with the same number of failed attempts as consumers are told,
        and either wholly or not at all in doubt; nearly always one part with 0."""
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
        """Do `parts` for a run on one side of `possibly_delivered_below`, ignoring `lost`."""
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
        """Count a failed attempt of each of these messages."""
        for sequence in run:
            self.failures[sequence] = self.failures.get(sequence, self._usual(sequence)) + 1

    def back(self, run: Run) -> None:
        """Count that these messages were acquired and returned without a failure."""
        for sequence in run:
            self._releases[sequence] = self._releases.get(sequence, 0) + 1

    def lose(self, run: Run) -> None:
        """Take note that a consumer that had these messages was lost: it may have seen them."""
        self.back(run)
        below = self.possibly_delivered_below
        self.lost.add(run if run[0] >= below else run[bisect_left(run, below) :])

    def acquired(self, sequence: int) -> int:
        """Return the known number of times that the message was acquired and returned: failed
        attempts, and returns without a failure since the start."""
        return self.recorded(sequence, self.of(sequence)) + self._releases.get(sequence, 0)

    @property
    def none(self) -> bool:
        """Whether no attempt of any owed message is known."""
        return not (self.failures or self._releases or self.possibly_delivered_below or self.lost)

    def forget(self, run: Run) -> None:
        """Forget messages that are owed no more."""
        if self.lost:
            self.lost.discard(run)
        for known in (self.failures, self._releases):
            if known and _any(known, run):
                for sequence in run:
                    known.pop(sequence, None)

    def clear(self) -> None:
        """Forget all messages."""
        self.failures.clear()
        self._releases.clear()
        self.lost.clear()
        self.possibly_delivered_below = 0

    def _usual(self, sequence: int) -> int:
        """Return the failed attempts of a message that isn't in `failures`."""
        return 1 if sequence < self.possibly_delivered_below else 0


def _split(run: Run, lost: SequenceSet) -> list[tuple[Run, bool]]:
    """Cut a run into parts that are wholly in the set, or not at all."""
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
