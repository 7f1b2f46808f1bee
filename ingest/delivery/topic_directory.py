"""The subscriptions of each topic, and their shared knowledge of its messages.

A topic with any subscription has a priority index (`pipeline.dispatch.priority_index`). So
publishing costs the same with many subscriptions as with one: only messages that aren't plain are
added to the index, once for the topic. A pattern has an index of its own, with the messages of all
topics that match it.
A topic whose messages may stay in memory has a stream (`pipeline.log.memory_stream`) as long as any
subscription reads it, with a priority index by its numbers. All methods run on the loop's thread.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from distributary.ingest.delivery.consumer import Subscription
from distributary.pipeline.dispatch.dispatcher import FOREVER
from distributary.pipeline.dispatch.priority_index import Ahead, PriorityIndex
from distributary.pipeline.log.lowest_floor import LowestFloor
from distributary.pipeline.log.memory_stream import MemoryBudget, MemoryStream
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.topic_pattern import is_pattern


class _Topic(msgspec.Struct, eq=False):
    priority_index: PriorityIndex = msgspec.field(default_factory=PriorityIndex)
    subscriptions: dict[Subscription, None] = msgspec.field(default_factory=dict)
    #: The priority index by the stream's numbers, for subscriptions that read the stream.
    memory_index: PriorityIndex = msgspec.field(default_factory=PriorityIndex)
    #: Floors of subscriptions that read the log, and of those that read the stream.
    floors: LowestFloor = msgspec.field(default_factory=LowestFloor)
    memory_floors: LowestFloor = msgspec.field(default_factory=LowestFloor)

    def floors_of(self, subscription: Subscription) -> LowestFloor:
        return self.floors if subscription.stream is None else self.memory_floors


class Lapsed(msgspec.Struct, frozen=True):
    """A stretch of a topic's messages in which some have expired: sequences, or numbers of the
    stream."""

    topic: str
    priority_index: PriorityIndex
    stretch: range
    stream: MemoryStream | None


class TopicDirectory:
    """The subscriptions of all topics: the named ones, and those that are served."""

    def __init__(
        self,
        recent: RecentMessages,
        changed: Callable[[Subscription], None],
        memory_bytes_max: int,
    ) -> None:
        """The patterns of subscriptions are watched in `recent`. `changed` gets each subscription
        that was added, removed or changed."""
        self._recent, self._patterns = recent, recent.patterns
        self._topics: dict[str, _Topic] = {}
        self._budget = MemoryBudget(memory_bytes_max)
        #: The streams by topic.
        self.streams: dict[str, MemoryStream] = {}
        #: Topics whose streams may have messages, and those whose memory indexes may have entries.
        self._filled: dict[str, None] = {}
        self._timed: dict[str, None] = {}
        #: Floors of durable subscriptions, and of all that read the log.
        self._durable_floors, self._served_floors = LowestFloor(), LowestFloor()
        self._changed = changed
        #: Topics whose priority indexes may have entries.
        self._told: dict[str, None] = {}

    def priority_index(self, topic: str) -> PriorityIndex:
        """Return the topic's priority index, for the dispatcher of a subscription that will be
        added."""
        return self._topics.setdefault(topic, _Topic()).priority_index

    def add(self, subscription: Subscription) -> None:
        name = subscription.definition.topic
        topic = self._topics.setdefault(name, _Topic())
        if subscription not in topic.subscriptions:
            if is_pattern(name):
                self._recent.watch(name)
            topic.subscriptions[subscription] = None
            for floors in self._floors_of(topic, subscription):
                floors.add(subscription.dispatcher)
            self._changed(subscription)

    def changed(self, subscription: Subscription) -> None:
        """Note that a subscription has another policy or another position in the log."""
        topic = self._topics.get(subscription.definition.topic)
        if topic is not None:
            for floors in self._floors_of(topic, subscription):
                floors.fell(subscription.dispatcher)
        self._changed(subscription)

    def _floors_of(self, topic: _Topic, subscription: Subscription) -> Iterator[LowestFloor]:
        """Yield the sets of floors in which the subscription's floor counts."""
        yield topic.floors_of(subscription)
        if subscription.stream is None:
            yield self._served_floors
        if subscription.durable:
            yield self._durable_floors

    def __contains__(self, topic: str) -> bool:
        """Whether the topic has any subscription."""
        return topic in self._topics

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription that has ended. A second call does nothing."""
        name = subscription.definition.topic
        topic = self._topics.get(name)
        if topic is not None:
            if subscription in topic.subscriptions:
                del topic.subscriptions[subscription]
                for floors in self._floors_of(topic, subscription):
                    floors.discard(subscription.dispatcher)
                self._leave_stream(topic, subscription)
            self._changed(subscription)
            if not topic.subscriptions:
                del self._topics[name]
                self._told.pop(name, None)
                if is_pattern(name):
                    self._recent.unwatch(name)

    def _leave_stream(self, topic: _Topic, subscription: Subscription) -> None:
        """Remove the topic's stream if this subscription was its last reader."""
        if subscription.stream is not None and not topic.memory_floors:
            name = subscription.definition.topic
            self.streams.pop(name).clear()
            self._filled.pop(name, None)
            self._timed.pop(name, None)
            topic.memory_index = PriorityIndex()

    # Streams.

    def stream(self, topic: str) -> tuple[MemoryStream, PriorityIndex]:
        """Return the topic's stream and its priority index, for a subscription that will be added
        and reads the stream."""
        known = self._topics.setdefault(topic, _Topic())
        if topic not in self.streams:
            self.streams[topic] = MemoryStream(self._budget)
        return self.streams[topic], known.memory_index

    @property
    def memory_bytes(self) -> int:
        """The bytes that all streams take."""
        return self._budget.bytes

    def only_stream(self, topic: str) -> MemoryStream | None:
        """Return the topic's stream if all of its subscriptions read it, and it matches no
        subscription's pattern: subscriptions with patterns read the log."""
        known = self._topics.get(topic)
        if known is None or not known.memory_floors or known.floors:
            return None
        if self._patterns.of(topic):
            return None
        return self.streams[topic]

    def came(self, topic: str, batch: RecordBatch, at: int) -> None:
        """Add messages that arrived at this time to the topic's stream; they aren't in the log."""
        stream = self.streams[topic]
        stream.add(batch, at)
        self._note(topic, batch)
        if stream.due:
            stream.trim(self._topics[topic].memory_floors.lowest(FOREVER))

    def logged(self, topic: str, batch: RecordBatch, at: int) -> None:
        """Add durable messages to the topic's stream, if it has one."""
        stream = self.streams.get(topic)
        if stream is None:
            return
        batch, excluded = stream.add_logged(batch, at)
        for run in excluded:
            for one in self._topics[topic].subscriptions:
                if one.stream is stream:
                    one.dispatcher.exclude(run)
        self._note(topic, batch)

    def _note(self, topic: str, batch: RecordBatch) -> None:
        self._filled[topic] = None
        if batch.attributes is not None:
            self._topics[topic].memory_index.add(batch.first, batch.stop, batch.attributes)
            self._timed[topic] = None

    def of(self, topic: str) -> Collection[Subscription]:
        """Return the present subscriptions of a topic or of a pattern."""
        found = self._topics.get(topic)
        return tuple(found.subscriptions) if found else ()

    def words(self, topic: str) -> Sequence[str]:
        """Return the words under which subscriptions are owed a topic's messages: the topic, if it
        has subscriptions, and the patterns that it matches."""
        patterns = self._patterns.of(topic) if self._patterns.claims else ()
        return (topic, *patterns) if topic in self._topics else patterns

    def owed(self, topic: str) -> Collection[Subscription]:
        """Return the subscriptions that are now owed a message of this topic."""
        return [one for word in self.words(topic) for one in self.of(word)]

    def all(self) -> Iterator[Subscription]:
        """Yield all subscriptions."""
        for topic in self._topics.values():
            yield from topic.subscriptions

    def arrived(self, topic: str, batch: RecordBatch) -> None:
        """Add durable messages with header attributes to the priority indexes."""
        if batch.attributes is not None:
            for word in self.words(topic):
                self._topics[word].priority_index.add(batch.first, batch.stop, batch.attributes)
                self._told[word] = None

    def seed(self, priority_statistics: Iterable[Ahead]) -> None:
        """Add the messages from before the start, by the table's statistics."""
        for ahead in priority_statistics:
            for word in self.words(ahead.topic):
                self._topics[word].priority_index.seed(ahead)
                self._told[word] = None

    # Floors.

    def floor(self, topic: str) -> int:
        """Return the first sequence that any subscription of the topic or pattern may be owed;
        FOREVER if none reads the log."""
        known = self._topics.get(topic)
        return FOREVER if known is None else known.floors.lowest(FOREVER)

    def durable_floor(self, head: int) -> int:
        """Return the sequence below which no durable subscription is owed a message; `head` without
        any subscription."""
        return self._durable_floors.bound(head)

    def served_floor(self, head: int) -> int:
        """Return the sequence below which no subscription is owed a message, and no stream needs
        one of the log; `head` without any subscription."""
        floor = min(self._served_floors.bound(head), self._recent.head if self.streams else head)
        for name in self._filled:
            number = self._topics[name].memory_floors.lowest(0)
            floor = min(floor, self.streams[name].first_logged(number, floor))
        return floor

    def trim(self) -> None:
        """Remove messages that no subscription is owed any more from all priority indexes and
        streams."""
        for name in tuple(self._told):
            topic = self._topics[name]
            topic.priority_index.trim(topic.floors.lowest(0))
            if topic.priority_index.empty:
                del self._told[name]
        for name in tuple(self._filled):
            stream = self.streams[name]
            stream.trim(self._topics[name].memory_floors.lowest(FOREVER))
            if not len(stream):
                del self._filled[name]
        for name in tuple(self._timed):
            topic = self._topics[name]
            topic.memory_index.trim(topic.memory_floors.lowest(FOREVER))
            if topic.memory_index.empty:
                del self._timed[name]

    def lapsed(self, now: int) -> Iterator[Lapsed]:
        """Yield the stretches in which a message has expired by `now`, and remove them from their
        priority indexes."""
        for name in tuple(self._told):
            topic = self._topics.get(name)
            if topic is not None:
                for stretch in topic.priority_index.lapsed(now):
                    yield Lapsed(name, topic.priority_index, stretch, None)
        for name in tuple(self._timed):
            topic = self._topics.get(name)
            if topic is not None and name in self.streams:
                for stretch in topic.memory_index.lapsed(now):
                    yield Lapsed(name, topic.memory_index, stretch, self.streams[name])

    def owed_again(self, topic: str, lapses: Iterable[tuple[int, int, int]]) -> None:
        """Look for expired messages once more: some subscription of this topic or pattern is owed
        messages that were forgotten. `lapses` are their stretches: earliest expiry, start, stop."""
        known = self._topics.get(topic)
        if known is not None:
            for earliest, start, stop in lapses:
                known.priority_index.again(range(start, stop), earliest)
                self._told[topic] = None

    def again(self, lapsed: Lapsed, at: int) -> None:
        """A message in this stretch expires at this time (microseconds), too."""
        if lapsed.topic in self._topics:
            lapsed.priority_index.again(lapsed.stretch, at)
            told = self._told if lapsed.stream is None else self._timed
            told[lapsed.topic] = None
