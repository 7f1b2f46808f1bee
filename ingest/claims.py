"""Which subscriptions there are on each topic, and what all of them know of its messages.

A topic on which there is any subscription has an agenda (`pipeline.agenda`). Publishing to it
costs nothing more for each of them: only messages that aren't plain are told, once for the topic.
All methods run on the loop's thread.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ingest.consumer import Subscription
from pipeline.agenda import Agenda
from pipeline.message import Slab
from pipeline.traits import Traits


@dataclass(slots=True, eq=False)
class _Topic:
    agenda: Agenda = field(default_factory=Agenda)
    subscriptions: dict[Subscription, None] = field(default_factory=dict)


class Claims:
    """The subscriptions of all topics: the named ones, and those that are served."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        #: Told of a subscription that came, went, or is another one than it was.
        self.changed: Callable[[Subscription], None] = lambda _subscription: None
        #: Topics of which the agenda was told anything that may still be there.
        self._told: dict[str, None] = {}

    def agenda(self, topic: str) -> Agenda:
        """What a new dispatcher of this topic is to know; its subscription is to be added."""
        return self._topics.setdefault(topic, _Topic()).agenda

    def add(self, subscription: Subscription) -> None:
        topic = self._topics.setdefault(subscription.definition.topic, _Topic())
        if subscription not in topic.subscriptions:
            topic.subscriptions[subscription] = None
            self.changed(subscription)

    def __contains__(self, topic: str) -> bool:
        """Whether it has any subscription."""
        return topic in self._topics

    def remove(self, subscription: Subscription) -> None:
        """It is owed nothing any more. Again is no error."""
        name = subscription.definition.topic
        topic = self._topics.get(name)
        if topic is not None:
            topic.subscriptions.pop(subscription, None)
            self.changed(subscription)
            if not topic.subscriptions:
                del self._topics[name]
                self._told.pop(name, None)

    def of(self, topic: str) -> Collection[Subscription]:
        """Those of a topic, as of now."""
        found = self._topics.get(topic)
        return tuple(found.subscriptions) if found else ()

    def all(self) -> Iterator[Subscription]:
        """Those of all topics."""
        for topic in self._topics.values():
            yield from topic.subscriptions

    def arrived(self, topic: str, slab: Slab) -> None:
        """Messages became durable that aren't all plain."""
        if slab.traits is not None:
            self.found(topic, slab.first, slab.stop, slab.traits)

    def seed(self, survey: Iterable[tuple[str, Traits]]) -> None:
        """What there was before the start, as the table tells it."""
        for topic, traits in survey:
            self.found(topic, traits.first, traits.stop, traits)

    def found(self, topic: str, first: int, stop: int, traits: Traits) -> None:
        """The topic has these from `first` to `stop - 1`."""
        known = self._topics.get(topic)
        if known is not None:
            known.agenda.add(first, stop, traits)
            self._told[topic] = None

    def trim(self) -> None:
        """Forget of all agendas what nobody is owed any more."""
        for name in tuple(self._told):
            topic = self._topics[name]
            if topic.subscriptions:
                topic.agenda.trim(min(s.dispatcher.floor for s in topic.subscriptions))

    def lapsed(self, now: int) -> Iterator[tuple[str, Agenda, range]]:
        """Stretches in which something has expired by now; they have left their agendas."""
        for name in tuple(self._told):
            topic = self._topics.get(name)
            if topic is not None:
                for stretch in topic.agenda.lapsed(now):
                    yield name, topic.agenda, stretch
