"""Which subscriptions there are on each topic, and what all of them know of its messages.

A topic on which there is any subscription has a priority index
(`pipeline.dispatch.priority_index`). Publishing to it costs nothing more for each of them: only
messages that aren't plain are told, once for the topic. A pattern has its own, as if it were a
topic that has all messages of those that match. All methods run on the loop's thread.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from distributary.ingest.delivery.consumer import Subscription
from distributary.pipeline.dispatch.priority_index import Ahead, PriorityIndex
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.model.message import RecordBatch
from distributary.pipeline.model.topic_pattern import is_pattern


@dataclass(slots=True, eq=False)
class _Topic:
    priority_index: PriorityIndex = field(default_factory=PriorityIndex)
    subscriptions: dict[Subscription, None] = field(default_factory=dict)


class TopicDirectory:
    """The subscriptions of all topics: the named ones, and those that are served."""

    def __init__(self, recent: RecentMessages, changed: Callable[[Subscription], None]) -> None:
        """The patterns of subscriptions are watched in `recent`. `changed` is told of a
        subscription that came, went, or is another one than it was."""
        self._recent, self._patterns = recent, recent.patterns
        self._topics: dict[str, _Topic] = {}
        self._changed = changed
        #: Topics of which the priority index was told anything that may still be there.
        self._told: dict[str, None] = {}

    def priority_index(self, topic: str) -> PriorityIndex:
        """The priority index of the topic, for a new dispatcher whose subscription will be
        added."""
        return self._topics.setdefault(topic, _Topic()).priority_index

    def add(self, subscription: Subscription) -> None:
        name = subscription.definition.topic
        topic = self._topics.setdefault(name, _Topic())
        if subscription not in topic.subscriptions:
            if is_pattern(name):
                self._recent.watch(name)
            topic.subscriptions[subscription] = None
            self._changed(subscription)

    def changed(self, subscription: Subscription) -> None:
        """It has another policy or another place in the log."""
        self._changed(subscription)

    def __contains__(self, topic: str) -> bool:
        """Whether it has any subscription."""
        return topic in self._topics

    def remove(self, subscription: Subscription) -> None:
        """The subscription has ended. To remove it again is no error."""
        name = subscription.definition.topic
        topic = self._topics.get(name)
        if topic is not None:
            topic.subscriptions.pop(subscription, None)
            self._changed(subscription)
            if not topic.subscriptions:
                del self._topics[name]
                self._told.pop(name, None)
                if is_pattern(name):
                    self._recent.unwatch(name)

    def of(self, topic: str) -> Collection[Subscription]:
        """The subscriptions of a topic, or of a pattern, as of now."""
        found = self._topics.get(topic)
        return tuple(found.subscriptions) if found else ()

    def words(self, topic: str) -> Iterator[str]:
        """What has subscriptions of those under which a topic's messages are found: its own word,
        and the patterns that it matches."""
        if topic in self._topics:
            yield topic
        yield from self._patterns.of(topic)

    def owed(self, topic: str) -> Collection[Subscription]:
        """The subscriptions that are owed a message of this topic, as of now."""
        return [one for word in self.words(topic) for one in self.of(word)]

    def all(self) -> Iterator[Subscription]:
        """All subscriptions."""
        for topic in self._topics.values():
            yield from topic.subscriptions

    def arrived(self, topic: str, batch: RecordBatch) -> None:
        """Messages with header attributes became durable."""
        if batch.attributes is not None:
            for word in self.words(topic):
                self._topics[word].priority_index.add(batch.first, batch.stop, batch.attributes)
                self._told[word] = None

    def seed(self, priority_statistics: Iterable[Ahead]) -> None:
        """Add the messages from before the start, as the table's statistics have them."""
        for ahead in priority_statistics:
            for word in self.words(ahead.topic):
                self._topics[word].priority_index.seed(ahead)
                self._told[word] = None

    def trim(self) -> None:
        """Remove from all priority indexes what no subscription is owed any more."""
        for name in tuple(self._told):
            topic = self._topics[name]
            if topic.subscriptions:
                topic.priority_index.trim(min(s.dispatcher.floor for s in topic.subscriptions))

    def lapsed(self, now: int) -> Iterator[tuple[str, PriorityIndex, range]]:
        """The stretches in which a message has expired by `now`; they leave their priority
        indexes."""
        for name in tuple(self._told):
            topic = self._topics.get(name)
            if topic is not None:
                for stretch in topic.priority_index.lapsed(now):
                    yield name, topic.priority_index, stretch
