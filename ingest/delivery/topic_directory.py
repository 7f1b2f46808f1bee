"""Which subscriptions there are on each topic, and what all of them know of its messages.

A topic on which there is any subscription has a priority index
(`pipeline.dispatch.priority_index`). Publishing to it costs nothing more for each of them: only
messages that aren't plain are told, once for the topic. All methods run on the loop's thread.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from distributary.ingest.delivery.consumer import Subscription
from distributary.pipeline.dispatch.priority_index import Ahead, PriorityIndex
from distributary.pipeline.model.message import RecordBatch


@dataclass(slots=True, eq=False)
class _Topic:
    priority_index: PriorityIndex = field(default_factory=PriorityIndex)
    subscriptions: dict[Subscription, None] = field(default_factory=dict)


class TopicDirectory:
    """The subscriptions of all topics: the named ones, and those that are served."""

    def __init__(self, changed: Callable[[Subscription], None]) -> None:
        """`changed` is told of a subscription that came, went, or is another one than it was."""
        self._topics: dict[str, _Topic] = {}
        self._changed = changed
        #: Topics of which the priority index was told anything that may still be there.
        self._told: dict[str, None] = {}

    def priority_index(self, topic: str) -> PriorityIndex:
        """The priority index of the topic, for a new dispatcher whose subscription will be
        added."""
        return self._topics.setdefault(topic, _Topic()).priority_index

    def add(self, subscription: Subscription) -> None:
        topic = self._topics.setdefault(subscription.definition.topic, _Topic())
        if subscription not in topic.subscriptions:
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

    def of(self, topic: str) -> Collection[Subscription]:
        """The subscriptions of a topic, as of now."""
        found = self._topics.get(topic)
        return tuple(found.subscriptions) if found else ()

    def all(self) -> Iterator[Subscription]:
        """All subscriptions."""
        for topic in self._topics.values():
            yield from topic.subscriptions

    def arrived(self, topic: str, batch: RecordBatch) -> None:
        """Messages with header attributes became durable."""
        known = self._topics.get(topic)
        if known is not None and batch.attributes is not None:
            known.priority_index.add(batch.first, batch.stop, batch.attributes)
            self._told[topic] = None

    def seed(self, priority_statistics: Iterable[Ahead]) -> None:
        """Add the messages from before the start, as the table's statistics have them."""
        for ahead in priority_statistics:
            known = self._topics.get(ahead.topic)
            if known is not None:
                known.priority_index.seed(ahead)
                self._told[ahead.topic] = None

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
