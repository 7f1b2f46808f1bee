"""Failed attempts of returned messages, and possible deliveries, from the log's records."""

from collections.abc import Mapping
from dataclasses import dataclass

#: Crashes that are kept apart for one subscription. Each further one delivered less than the one
#: before it, with orderly ends in between: rare, and the steps are kept in a slot of fixed size.
POSSIBLY_DELIVERED_STEPS_MAX = 5


@dataclass(frozen=True, slots=True, order=True)
class Failures:
    """The failed attempts of one returned message, as of a record in `group`.

    A record has them in its `delivery_count`, and one more if its outcome counts as a failure.
    """

    count: int
    group: int


@dataclass(frozen=True, slots=True)
class PossiblyDelivered:
    """Deliveries whose outcome isn't known, because the process that made them died.

    A step `(below, group)` stands for one such process: it may have delivered the owed messages
    below `below`, and it wrote no group from `group` on. Records of those later groups include its
    delivery in their counts, earlier ones don't. From step to step `below` falls, `group` rises.
    """

    steps: tuple[tuple[int, int], ...] = ()

    @property
    def below(self) -> int:
        """The first sequence from which on no message was possibly delivered."""
        return self.steps[0][0] if self.steps else 0

    def after_crash(self, position: int, next_group: int, *, floor: int = 0) -> "PossiblyDelivered":
        """Return these steps with that of a process that died and had delivered below `position`
        (0: the outcomes of all its deliveries were durable). `floor` is the subscription's floor
        now."""
        steps = [step for step in self.steps if step[0] > max(position, floor)]
        if position > floor:
            steps.append((position, next_group))
        if len(steps) > POSSIBLY_DELIVERED_STEPS_MAX:
            # The first two become one, with the second's group: a count may be one too high.
            steps[:2] = [(steps[0][0], steps[1][1])]
        return PossiblyDelivered(tuple(steps))

    def failures(self, known: Mapping[int, Failures]) -> dict[int, int]:
        """Return the failed attempts of each message with records in the log. A possible delivery
        counts as a failed attempt, as for every other message below `below`."""
        return {
            sequence: one.count + (one.group < self._group_of(sequence))
            for sequence, one in known.items()
        }

    def _group_of(self, sequence: int) -> int:
        """Return the first group after the last process that may have delivered this message."""
        return max((group for below, group in self.steps if sequence < below), default=0)
