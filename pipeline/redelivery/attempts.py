"""Delivery attempts of owed messages: how many failed, and how often each was acquired.

Rule 1: a failed attempt is counted when it is shown. An attempt whose end isn't known, as after a
        crash, counts as one more in what consumers are told.
Rule 2: `released` and a lost link are no failures; they raise only the times acquired.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import groupby

from distributary.pipeline.sequences.sequence_set import Run


class Attempts:
    """The attempts of one subscription's messages, as long as they are owed."""

    __slots__ = ("_releases", "failures", "possibly_delivered_below")

    def __init__(self, failures: Mapping[int, int], possibly_delivered_below: int) -> None:
        """A message that is owed below `possibly_delivered_below` and isn't in `failures` counts
        as failed once."""
        self.failures = dict(failures)
        self.possibly_delivered_below = possibly_delivered_below
        self._releases: dict[int, int] = {}  #: how often they came back without having failed

    def __len__(self) -> int:
        return len(self.failures) + len(self._releases)

    def of(self, sequence: int) -> int:
        """Failed attempts of a message."""
        return self.failures.get(sequence, self._usual(sequence))

    def parts(self, run: Run) -> list[tuple[Run, int]]:
        """The run in parts of one number of failed attempts each; nearly always whole, with 0."""
        below = self.possibly_delivered_below
        if not below and not self.failures:
            return [(run, 0)]
        if run and run[0] < below <= run[-1]:
            cut = bisect_left(run, below)
            return self.parts(run[:cut]) + self.parts(run[cut:])
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
            self.failures[sequence] = self.of(sequence) + 1

    def back(self, run: Run) -> None:
        """These messages were acquired and returned without a failure."""
        for sequence in run:
            self._releases[sequence] = self._releases.get(sequence, 0) + 1

    def acquired(self, sequence: int) -> int:
        """How often the message was acquired and returned, as far as it is known: failed
        attempts, and since the start those that didn't fail."""
        return self.of(sequence) + self._releases.get(sequence, 0)

    @property
    def none(self) -> bool:
        """Whether no message that is owed has been tried, as far as anybody knows."""
        return not (self.failures or self._releases or self.possibly_delivered_below)

    def forget(self, run: Run) -> None:
        """These are owed no more."""
        for known in (self.failures, self._releases):
            if known and _any(known, run):
                for sequence in run:
                    known.pop(sequence, None)

    def clear(self) -> None:
        """Nothing is known of any message."""
        self.failures.clear()
        self._releases.clear()
        self.possibly_delivered_below = 0

    def _usual(self, sequence: int) -> int:
        """Those of a message that isn't in `failures`."""
        return 1 if sequence < self.possibly_delivered_below else 0


def _any(known: Mapping[int, int], run: Run) -> bool:
    """Whether any message of the run is known."""
    if isinstance(run, range) and len(known) < len(run):
        return any(sequence in run for sequence in known)
    return not known.keys().isdisjoint(run)
