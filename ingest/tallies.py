"""How much each subscription has waiting, from what has become durable.

A topic is counted while anybody may be owed something of it: one step for each run of messages,
whatever the number of its subscriptions.
"""

from collections.abc import Iterable

from ingest.claims import Claims
from ingest.consumer import Subscription
from pipeline.message import Slab
from pipeline.recent import RecentMessages
from pipeline.tally import Tally, Volume, waiting

#: A topic, where a part of its messages ends, how many they are, their bytes, when the last one was
#: published.
Part = tuple[str, int, int, int, int]


class Tallies:
    """The tallies of all topics that have subscriptions."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._tallies: dict[str, Tally] = {}

    def seed(self, parts: Iterable[Part]) -> None:
        """What there was before the start: ascending for each topic."""
        for topic, stop, messages, size, at in parts:
            if topic in self._claims:
                tally = self._tallies.setdefault(topic, Tally())
                tally.add(stop - messages, stop, messages, size, at)

    def count_again(
        self, topic: str, parts: Iterable[Part], recent: RecentMessages, since: int, now: int
    ) -> None:
        """Somebody is owed this topic from `since` on, which may lie below what was counted: the
        parts are what the table has of it from there on, ascending; `recent` has all the rest."""
        tally = Tally()
        for _, stop, messages, size, at in parts:
            tally.add(stop - messages, stop, messages, size, at)
            since = stop
        since = max(since, recent.floor)
        while (slab := recent.find(topic, since)) is not None:
            tally.add(slab.first, slab.stop, slab.count, len(slab.blob), now)
            since = slab.stop
        if topic in self._claims:
            self._tallies[topic] = tally

    def arrived(self, topic: str, slab: Slab, at: int) -> None:
        """Messages became durable; they were published at this time."""
        tally = self._tallies.get(topic)
        if tally is None:
            if topic not in self._claims:
                return
            tally = self._tallies[topic] = Tally()
        tally.add(slab.first, slab.stop, slab.count, len(slab.blob), at)

    def trim(self) -> None:
        """Forget what nobody is owed any more."""
        for topic, tally in tuple(self._tallies.items()):
            subscriptions = self._claims.of(topic)
            if subscriptions:
                tally.trim(min(one.dispatcher.floor for one in subscriptions))
            else:
                del self._tallies[topic]

    def of(self, topic: str) -> Tally | None:
        """The tally of a topic; None: nothing has come since there are subscriptions."""
        return self._tallies.get(topic)

    def waiting(self, subscription: Subscription) -> Volume:
        """What it has waiting, held by consumers or not; what is given up isn't in it. With a
        selector this is the most that it can be."""
        dispatcher = subscription.dispatcher
        outstanding = dispatcher.outstanding - dispatcher.burying
        tally = self._tallies.get(subscription.definition.topic)
        if tally is None:
            return Volume(outstanding)
        return waiting(
            tally,
            floor=dispatcher.floor,
            position=dispatcher.position,
            outstanding=outstanding,
            beyond=dispatcher.beyond,
        )
