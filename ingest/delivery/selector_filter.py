"""The messages of a batch that selectors select: those that a subscription claims, and of these
those that its consumers want.

A subscription's own selector decides which messages it is owed; a consumer's selector, on a queue,
decides only which of these the consumer gets.
"""

from array import array
from dataclasses import replace

import msgspec

from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.delivery.selector_faults import SelectorFaults
from distributary.ingest.native.batch_reader import BatchReader
from distributary.pipeline.errors import SelectorFailed
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.selector.matching import Selections


class Part(msgspec.Struct, frozen=True, eq=False):
    """The part of a batch that a dispatcher is offered, as in its `offer`; `work` is the number of
    evaluations."""

    first: int
    stop: int
    sequences: "array[int] | None"
    matches: "dict[str, array[int]] | None"
    work: int


class SelectorFilter:
    """The selectors of all subscriptions and consumers that are served now."""

    def __init__(self, faults: SelectorFaults) -> None:
        self._faults = faults
        self._selections = Selections(BatchReader)

    def join(self, subscription: Subscription) -> None:
        """Add the selector of a subscription that is served from now on."""
        self._selections.join(subscription.definition)

    def leave(self, subscription: Subscription) -> None:
        """Remove the selector of a subscription that is served no more."""
        self._selections.leave(subscription.definition)

    def consume(self, consumer: Consumer) -> None:
        """Add the own selector, if any, of a consumer that has attached."""
        if consumer.selector is not None:
            definition = consumer.subscription.definition
            self._selections.join(replace(definition, selector=consumer.selector))

    def stop(self, consumer: Consumer) -> None:
        """Remove the own selector, if any, of a consumer that has detached."""
        if consumer.selector is not None:
            definition = consumer.subscription.definition
            self._selections.leave(replace(definition, selector=consumer.selector))

    def part(
        self, subscription: Subscription, batch: RecordBatch, wanted: int, work_max: int
    ) -> Part | None:
        """Return the part of the batch to offer where selectors decide: the matches from `wanted`
        on, as far as they are evaluated. None: a selector can't be evaluated."""
        if self._faults.waits(subscription):
            return None
        try:
            part = self._part(subscription, batch, wanted, work_max)
        except SelectorFailed as failure:
            self._faults.failed(subscription, failure)
            return None
        self._faults.works(subscription)
        return part

    def _part(
        self, subscription: Subscription, batch: RecordBatch, wanted: int, work_max: int
    ) -> Part:
        dispatcher, definition = subscription.dispatcher, subscription.definition
        first, stop, sequences, work = batch.first, batch.stop, batch.sequences, 0
        if definition.selector is not None:
            if wanted < dispatcher.position:  # it was delivered before, so it is claimed
                stop, sequences = min(stop, dispatcher.position), None
                if not dispatcher.selectors:
                    return Part(first, stop, None, None, 0)
            else:
                first = max(first, wanted)
                found = self._selections.matches(
                    definition, batch, wanted, room=dispatcher.room, work_max=work_max
                )
                sequences, stop, work = found.sequences, found.stop, found.work
        selectors = dispatcher.selectors
        if not selectors:
            return Part(first, stop, sequences, None, work)
        matches: dict[str, array[int]] = {}
        most = max(work_max // len(selectors), 1)
        for selector in selectors:
            one = replace(definition, selector=selector)
            found = self._selections.matches(
                one, batch, wanted, room=max(dispatcher.room, 1), work_max=most
            )
            assert found.sequences is not None  # noqa: S101
            matches[selector] = found.sequences
            stop, work = min(stop, found.stop), work + found.work
        return Part(max(first, wanted), stop, sequences, matches, work)
