"""Deliveries of traced messages that wait for their outcome, and the last ones before them.

Rule 1: a delivery becomes a step when its outcome is known, or when it is forgotten.
Rule 2: at most `deliveries_max` are followed, for `follow_us`; the oldest are forgotten first.
Rule 3: after an outcome that isn't final the delivery stays here, so that the next one links to it.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.tracing.trace_span import Delivered, Settled, Step, TracedDelivery

#: Most deliveries of one message to one subscription that wait for their outcome: the last one, and
#: earlier ones whose outcome isn't durable yet.
OPEN_MAX: Final = 8


class TracedOutcome(NamedTuple):
    """The outcome of deliveries with one time of delivery: when it came, and when it was
    durable."""

    outcome: Outcome
    final: bool
    delivered_at: int
    settled_at: int
    durable_at: int


@dataclass(slots=True, eq=False)
class _Known:
    """Deliveries of one message to one subscription: the last one, and all without outcome."""

    last: TracedDelivery
    open: list[TracedDelivery]


class TracedDeliveries:
    """The followed deliveries. A subscription is named by a key of the caller's, a message by its
    sequence, or its number in the subscription's stream. Times are microseconds."""

    def __init__(self, deliveries_max: int, follow_us: int) -> None:
        self._most, self._follow_us = deliveries_max, follow_us
        self._known: dict[tuple[Hashable, int], _Known] = {}  # the oldest delivery first
        self._numbers: dict[Hashable, list[int]] = {}  # ascending

    def __len__(self) -> int:
        """The number of pairs of a message and a subscription that have a followed delivery."""
        return len(self._known)

    def delivered(self, key: Hashable, number: int, delivery: TracedDelivery) -> list[Step]:
        """Follow a delivery; return the steps of deliveries that are forgotten for it."""
        known = self._known.pop((key, number), None)
        if known is None:
            insort(self._numbers.setdefault(key, []), number)
            known = _Known(delivery, [])
        else:
            delivery = delivery._replace(before=(known.last.consumer, known.last.delivered_at))
        known.last = delivery
        known.open.append(delivery)
        self._known[key, number] = known
        steps = self._without(delivery.delivered_at)
        if len(known.open) > OPEN_MAX:
            steps.append(Delivered(known.open.pop(0), delivery.delivered_at, settled=False))
        return steps

    def settled(self, key: Hashable, run: Run, said: TracedOutcome) -> list[Step]:
        """Apply an outcome to a run of a subscription's messages; return the steps of those that
        are followed."""
        steps: list[Step] = []
        for number in self._among(key, run):
            known = self._known[key, number]
            waits = next(
                (one for one in known.open if one.delivered_at == said.delivered_at),
                known.open[0] if known.open else None,
            )
            if waits is not None:
                known.open.remove(waits)
                steps.append(Delivered(waits, said.settled_at, settled=True))
            ended = waits or known.last
            steps.append(Settled(ended, said.outcome, said.settled_at, said.durable_at))
            if said.final and not known.open:
                self._forget(key, number)
        return steps

    def due(self, now: int) -> list[Step]:
        """Forget old deliveries; return their steps."""
        return self._without(now)

    def _among(self, key: Hashable, run: Run) -> list[int]:
        numbers = self._numbers.get(key)
        if not (numbers and run):
            return []
        between = numbers[bisect_left(numbers, run[0]) : bisect_left(numbers, run[-1] + 1)]
        if isinstance(run, range):
            return [one for one in between if one in run]
        return [one for one in between if run[bisect_left(run, one)] == one]

    def _without(self, now: int) -> list[Step]:
        steps: list[Step] = []
        if len(self._known) <= self._most and not self._is_old(now):
            return steps
        for key, number in [*self._old(now)]:
            known = self._known[key, number]
            steps += [Delivered(one, now, settled=False) for one in known.open]
            self._forget(key, number)
        return steps

    def _is_old(self, now: int) -> bool:
        """Whether the oldest delivery has been followed for `follow_us`."""
        oldest = next(iter(self._known.values()), None)
        return oldest is not None and now - oldest.last.delivered_at >= self._follow_us

    def _old(self, now: int) -> Iterator[tuple[Hashable, int]]:
        over = len(self._known) - self._most
        for nth, (place, known) in enumerate(self._known.items()):
            if nth >= over and now - known.last.delivered_at < self._follow_us:
                return
            yield place

    def _forget(self, key: Hashable, number: int) -> None:
        del self._known[key, number]
        numbers = self._numbers[key]
        del numbers[bisect_left(numbers, number)]
        if not numbers:
            del self._numbers[key]
