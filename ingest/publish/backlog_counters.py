"""The backlog counters of all topics, fed with messages that become durable.

A topic is counted while some subscription may be owed messages of it: one step for each run of
messages, whatever the number of its subscriptions.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import structlog

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.pipeline.dispatch.dispatcher import FOREVER
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.backlog_counter import (
    BacklogCounter,
    Dropped,
    Volume,
    waiting,
)
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

if TYPE_CHECKING:
    from distributary.pipeline.tables.reading.table_statistics import Volume as Part  # with Arrow

_events = structlog.get_logger("gateway")

#: Tries of counting the messages from before the start, and seconds between its steps.
_TRIES = 3
_PAUSE = 0.002
#: Stretches of one topic that stay even if no subscription needs them: finding them costs time.
_KEPT = 64
#: Parts after which counting from the table pauses.
_PARTS = 16


class BacklogCounters:
    """The backlog counters of all topics that have subscriptions."""

    def __init__(self, topic_directory: TopicDirectory) -> None:
        self._topic_directory = topic_directory
        self._counters: dict[str, BacklogCounter] = {}
        self._again: set[str] = set()  #: topics that were counted anew, from further below
        #: Topics that `trim` looks at: those with many stretches, and those of which a subscription
        #: has ended.
        self._due: dict[str, None] = {}
        self._closed = False

    def close(self) -> None:
        """Count nothing more."""
        self._closed = True

    def seed(self, parts: "Iterable[Part]") -> None:
        """Count the messages from before the start; `parts` are ascending for each topic."""
        of_patterns: dict[str, list[Part]] = {}
        for part in parts:
            for word in self._topic_directory.words(part.topic):
                if word == part.topic:
                    self._add(word, part)
                else:
                    of_patterns.setdefault(word, []).append(part)
        for pattern, some in of_patterns.items():
            for part in sorted(some, key=_stop):
                self._add(pattern, part)

    def _add(self, word: str, part: "Part") -> None:
        _, first, stop, messages, size, at = part
        counter = self._counters.setdefault(word, BacklogCounter())
        counter.add(first, stop, messages, size, at)
        self._note(word, counter)

    def seed_slowly(self, loop: asyncio.AbstractEventLoop, table: TopicLog, since: int) -> None:
        """Count them from the table, while the gateway serves: until then counts are too low."""
        parts = table.volumes(since)
        first = next(parts, None)  # fixes the version of the table that is read
        again = partial(_before, table, since, table.sequence_version)
        counting = loop.run_in_executor(None, self._count, [first] if first else [], parts, again)
        counting.add_done_callback(self._counted)

    def _count(
        self, known: "list[Part]", parts: "Iterator[Part]", again: "Callable[[], Iterator[Part]]"
    ) -> "list[Part]":
        """Read the parts, on a thread of its own that mostly sleeps, to spare the interpreter."""
        for left in reversed(range(_TRIES)):
            try:
                for nth, part in enumerate(parts):
                    if self._closed:
                        break
                    known.append(part)
                    if not nth % _PARTS:
                        time.sleep(_PAUSE)
            except StoreError:
                if not left:
                    raise
                known, parts = [], again()  # files were merged meanwhile
            else:
                break
        return known

    def _counted(self, counting: "asyncio.Future[list[Part]]") -> None:
        if counting.cancelled():
            return
        error = counting.exception()  # always taken: asyncio reports one that isn't as a bug
        if self._closed:
            return
        if error is not None:
            _events.warning(
                "backlogs.uncounted", reason=str(error), then="new messages are counted"
            )
            return
        since, self._counters = self._counters, {}
        self.seed(counting.result())
        for topic, counter in since.items():
            if topic in self._again:
                self._counters[topic] = counter
            else:
                self._counters.setdefault(topic, BacklogCounter()).extend(counter)
        self._due |= dict.fromkeys(self._counters)

    def arrived(self, topic: str, batch: RecordBatch, at: int) -> None:
        """Count durable messages, which were published at this time."""
        for word in self._topic_directory.words(topic):
            counter = self._counters.get(word)
            if counter is None:
                counter = self._counters[word] = BacklogCounter()
            begun = counter.add(batch.first, batch.stop, batch.count, len(batch.blob), at)
            if begun and word not in self._due:
                self._note(word, counter)

    def _note(self, word: str, counter: BacklogCounter) -> None:
        if len(counter) > _KEPT:
            self._due[word] = None

    def changed(self, subscription: Subscription) -> None:
        """Note that a subscription has changed or ended, perhaps the last one of its topic."""
        if subscription.ended:
            self._due[subscription.definition.topic] = None

    def first_owed(self, topic: str, since: int) -> int:
        """Return the sequence from which a topic's messages must be counted, when a subscription
        is owed those from `since` on."""
        return min(since, self._topic_directory.floor(topic))

    def count_again(
        self, topic: str, parts: "Iterable[Part]", recent: RecentMessages, since: int, now: int
    ) -> None:
        """Count a topic or pattern anew from `since` on, which is its `first_owed`: the table's
        `parts`, ascending for each topic, then the messages in memory. A message whose time of
        publishing was forgotten gets `now`."""
        before, counter = self._counters.get(topic), BacklogCounter()
        reach = since
        for _, first, stop, messages, size, at in sorted(parts, key=_stop):
            counter.add(first, stop, messages, size, at)
            reach = stop
        while (batch := recent.find(topic, max(reach, recent.floor))) is not None:
            published_at = before.published_at(batch.first) if before is not None else None
            counter.add(batch.first, batch.stop, batch.count, len(batch.blob), published_at or now)
            reach = batch.stop
        self._counters[topic] = counter
        self._again.add(topic)
        self._due[topic] = None

    def trim(self) -> None:
        """Forget messages that no subscription is owed any more."""
        for topic in tuple(self._due):
            counter = self._counters.get(topic)
            if topic not in self._topic_directory:
                self._counters.pop(topic, None)
                self._again.discard(topic)
            elif counter is not None and len(counter) > _KEPT:
                counter.trim(self._topic_directory.floor(topic))
                if len(counter) > _KEPT:
                    continue
            del self._due[topic]

    def of(self, topic: str) -> BacklogCounter | None:
        """Return a topic's backlog counter; None: no message came since it has subscriptions."""
        return self._counters.get(topic)

    def waiting(self, subscription: Subscription) -> Volume:
        """Return a subscription's backlog: messages in flight or not, without those given up. This
        is an upper bound: see `waiting` of the counter; with a selector, too."""
        dispatcher = subscription.dispatcher
        return self._waiting(subscription, dispatcher.outstanding - dispatcher.dead_lettering)

    def surely(self, subscription: Subscription, looked: int) -> Volume:
        """Return a lower bound of `waiting`, without unread messages from `looked` on: its selector
        hasn't evaluated them."""
        dispatcher = subscription.dispatcher
        outstanding = dispatcher.outstanding - dispatcher.dead_lettering
        return self._waiting(subscription, outstanding, looked)

    def shown(self, subscription: Subscription) -> Volume:
        """Return the backlog for people. It has messages given up until their copies are durable:
        the copies are counted from then on, so that each message is always in some count."""
        outstanding = subscription.dispatcher.outstanding + subscription.copying
        return self._waiting(subscription, outstanding)

    def _waiting(
        self, subscription: Subscription, outstanding: int, looked: int | None = None
    ) -> Volume:
        dispatcher = subscription.dispatcher
        counter = self.read_by(subscription)
        if counter is None:
            return Volume(outstanding)
        return waiting(
            counter,
            floor=dispatcher.floor,
            position=dispatcher.position,
            outstanding=outstanding,
            beyond=dispatcher.beyond,
            looked=looked,
        )

    def read_by(self, subscription: Subscription) -> BacklogCounter | None:
        """Return the counter of the messages that a subscription reads: its topic's, or those of
        its stream; None as in `of`."""
        stream = subscription.stream
        return self.of(subscription.definition.topic) if stream is None else stream.counter

    def owed_below(self, subscription: Subscription, place: int | None = None) -> Dropped:
        """Return how many messages a subscription is owed below `place` (None: in all): this many
        are dropped when an operator moves its floor there, or deletes it."""
        dispatcher = subscription.dispatcher
        stop = FOREVER if place is None else place
        read = dispatcher.outstanding_below(stop)
        counter = self.read_by(subscription)
        if counter is None or stop <= dispatcher.position:
            return Dropped(read)
        unread = counter.since(dispatcher.position).messages - counter.since(stop).messages
        unread = max(unread - dispatcher.beyond_below(stop), 0)
        selects = subscription.definition.selector is not None
        return Dropped(read + unread, at_most=selects and unread > 0)


def _stop(part: "Part") -> int:
    return part.stop


def _before(table: TopicLog, since: int, head: int) -> "Iterator[Part]":
    """Yield the table's parts from `since` on, without those that have come since the start."""
    return (part for part in table.volumes(since) if part.stop <= head)
