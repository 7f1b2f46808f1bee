"""Routes: copies of messages to other destinations, by the policy of their topic.

A routed copy has the same bytes as its message, and is in one group with it: after any end of the
process both are there or neither. It isn't routed again, so there are no loops. All methods run on
the loop's thread.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog
from msgspec import structs

from distributary.ingest.commit.batches import part, parts_without
from distributary.ingest.native import pump
from distributary.ingest.native.batch_reader import BatchReader
from distributary.ingest.publish.relay import Kept, Unrouted, dead_letter
from distributary.pipeline.errors import SelectorFailed
from distributary.pipeline.model.address import PREFIXES, Destination, Kind
from distributary.pipeline.model.message import PublishBatch
from distributary.pipeline.model.policy import Route
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.selector.matching import Selections, selected
from distributary.pipeline.sequences.gathering import stretches

#: Most routes whose selectors are kept ready.
_JOINED_MAX = 1_000

_events = structlog.get_logger("gateway")


class Routes:
    """Makes routed copies."""

    def __init__(self, ensure_queue: Callable[[Destination], SubscriptionKey]) -> None:
        """`ensure_queue` makes a queue, in the pending group, if it isn't there."""
        self._ensure_queue = ensure_queue
        #: The selectors of routes, each under its own name, and those that were joined.
        self._selections = Selections(BatchReader)
        self._joined: set[Definition] = set()
        #: Routes whose selector couldn't be evaluated, which was logged.
        self._failed: set[Route] = set()

    def with_copies(
        self, run: PublishBatch, start: int, routes: Sequence[Route], unrouted: Unrouted
    ) -> list[PublishBatch]:
        """Return the run, followed by its copies by these routes. The run begins at place `start`
        of the received messages, of which `unrouted` go to dead letters instead."""
        found = [run]
        for route in routes:
            if route.to.topic == run.topic:
                continue  # a policy's pattern may match the topic to which it routes
            kept = {
                place - start: one
                for place, one in unrouted.get(route.to.topic, {}).items()
                if start <= place < start + run.count
            }
            copies = [
                structs.replace(one, topic=route.to.topic)
                for rest, _ in parts_without(run, sorted(kept))
                for one in self._selected(rest, route)
            ]
            if copies and route.to.is_queue:
                self._ensure_queue(route.to)
            found += copies
            if kept:
                found += self._dead_letters(run, route, kept)
        return found

    def ensure(self, queue: Destination) -> None:
        """Make a queue of dead letters, in the pending group, if it isn't there."""
        self._ensure_queue(queue)

    def ensure_of(self, topic: str) -> None:
        """Make the queue of a queue's topic, in the pending group, if it isn't there."""
        name = topic.removeprefix(PREFIXES[Kind.QUEUE])
        if name != topic:
            self._ensure_queue(Destination(Kind.QUEUE, name))

    def _dead_letters(
        self, run: PublishBatch, route: Route, kept: Mapping[int, Kept]
    ) -> Iterator[PublishBatch]:
        """Yield dead letters of copies that the other topic's schema doesn't allow."""
        offsets = array("i", bytes(pump.offsets(run.lengths, run.count)))
        for place, one in sorted(kept.items()):
            message = part(run, place, place + 1, offsets[place], offsets[place + 1])
            if self._selected(message, route):
                self._ensure_queue(one.queue)
                yield dead_letter(message.blob, one)

    def _selected(self, run: PublishBatch, route: Route) -> list[PublishBatch]:
        """Return the messages that the route's selector selects; all of them where it can't be
        evaluated: rather a message too many than one too few."""
        if route.selector is None:
            return [run]
        offsets, _ = pump.laid_out(run.blob, run.lengths, run.count)
        batch = RecordBatch(0, run.count, run.blob, offsets)
        try:
            sequences = selected(self._selections, self._definition(route), batch)
        except SelectorFailed as failure:
            if route not in self._failed:
                self._failed.add(route)
                _events.error("route.failed", route=str(route), reason=str(failure))
            return [run]
        at = array("i", bytes(offsets))
        return [
            part(run, some[0], some[-1] + 1, at[some[0]], at[some[-1] + 1])
            for some in stretches(sequences)
        ]

    def _definition(self, route: Route) -> Definition:
        """Return the definition that stands for the route among the selectors."""
        definition = Definition(str(route), shared=True, selector=route.selector)
        if definition not in self._joined:
            if len(self._joined) >= _JOINED_MAX:  # some are of former policies
                for one in self._joined:
                    self._selections.leave(one)
                self._joined.clear()
            self._selections.join(definition)
            self._joined.add(definition)
        return definition
