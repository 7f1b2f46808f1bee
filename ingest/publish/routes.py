"""Routes: where messages go beside their own topic, by its policy.

A routed copy is the same bytes in one group with its message: after any end of the process both are
there or neither. It isn't routed again, so no routes go round. All methods run on the loop's
thread.
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

#: Routes whose selectors are kept ready.
_JOINED_MAX = 1_000

_events = structlog.get_logger("gateway")


class Routes:
    """Makes routed copies."""

    def __init__(self, ensure_queue: Callable[[Destination], SubscriptionKey]) -> None:
        """`ensure_queue` makes a queue, in the pending group, if it isn't there."""
        self._ensure_queue = ensure_queue
        #: The selectors of routes, each under a name of its own, and those that were joined.
        self._selections = Selections(BatchReader)
        self._joined: set[Definition] = set()
        #: Routes of which a selector couldn't be evaluated, which was said.
        self._failed: set[Route] = set()

    def with_copies(
        self, run: PublishBatch, start: int, routes: Sequence[Route], unrouted: Unrouted
    ) -> list[PublishBatch]:
        """The run, and behind it what of it goes elsewhere by these routes. It began at `start` in
        what was received, of which `unrouted` goes to dead letters instead."""
        found = [run]
        for route in routes:
            if route.to.topic == run.topic:
                continue  # a line of policies may be for the topic that it names, too
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
        """A queue of dead letters is there, in the pending group."""
        self._ensure_queue(queue)

    def ensure_of(self, topic: str) -> None:
        """If this is a queue's topic, the queue is there, in the pending group."""
        name = topic.removeprefix(PREFIXES[Kind.QUEUE])
        if name != topic:
            self._ensure_queue(Destination(Kind.QUEUE, name))

    def _dead_letters(
        self, run: PublishBatch, route: Route, kept: Mapping[int, Kept]
    ) -> Iterator[PublishBatch]:
        """Copies that can't be the other topic's."""
        offsets = array("i", bytes(pump.offsets(run.lengths, run.count)))
        for place, one in sorted(kept.items()):
            message = part(run, place, place + 1, offsets[place], offsets[place + 1])
            if self._selected(message, route):
                self._ensure_queue(one.queue)
                yield dead_letter(message.blob, one)

    def _selected(self, run: PublishBatch, route: Route) -> list[PublishBatch]:
        """The messages of the run that the route's selector selects. Where it can't be evaluated
        all of them: rather a message too many than one too few."""
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
        """What stands for the route among the selectors."""
        definition = Definition(str(route), shared=True, selector=route.selector)
        if definition not in self._joined:
            if len(self._joined) >= _JOINED_MAX:  # of policies that are no more
                for one in self._joined:
                    self._selections.leave(one)
                self._joined.clear()
            self._selections.join(definition)
            self._joined.add(definition)
        return definition
