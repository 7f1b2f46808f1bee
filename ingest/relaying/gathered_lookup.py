"""A client's link that looks for a durable subscription of other gateways' logs, to end it.

The first log that has it says its topic, and so which other logs may have it, too. A subscription
of the same name on another topic is another subscription, which stays.
"""

from collections.abc import Callable
from typing import Any

from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net import termini
from distributary.ingest.net.link import Link
from distributary.ingest.relaying.gathered_link import GatheredLink, GatheredPart
from distributary.ingest.relaying.owners.owner_terms import (
    OwnerTerms,
    consumer_answer,
    found_answer,
    open_consumer,
)
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.pipeline.model.amqp_error import NOT_FOUND
from distributary.pipeline.subscriptions.attach_intent import offered


class GatheredLookup(GatheredLink):
    """All lookups of one link. `others` gives lookups in the other logs of the topic that the first
    lookup found."""

    def __init__(
        self, link: Link, others: "Callable[[GatheredLookup, LookupPart], list[LookupPart]]"
    ) -> None:
        super().__init__(link, optional=True)
        self._others = others

    def found(self, part: "LookupPart") -> None:
        """The first log has the subscription: look in the other logs of its topic."""
        self._parts += self._others(self, part)
        self.opened(part)


class LookupPart(GatheredPart):
    """Lookup in one log: no messages go over it, its client's close ends the subscription.
    `topic`: looks for a subscription of this topic alone, if it isn't empty."""

    def __init__(
        self,
        whole: GatheredLookup,
        link: Link,
        sessions: tuple[RelayedSession, ...],
        terms: OwnerTerms,
        topic: str = "",
    ) -> None:
        self.whole: GatheredLookup = whole
        #: The topic of the subscription as the log writes it, once it was found.
        self.topic = topic
        super().__init__(link, sessions, terms)

    def _make(self, session: Any) -> Any:
        return open_consumer(session, self._link, self._terms)

    def _answer(self) -> None:
        link = self._link
        if not link.alive or link.ended:
            return
        definition, global_ = found_answer(self.pointer)
        if not self.topic:
            self.topic = definition.topic
            expiry = consumer_answer(self.pointer).expiry
            termini.found(link.proton, definition, expiry, global_=global_)
            link.offered_capabilities = offered(definition.topic, outgoing=True)
            self.whole.found(self)
        elif self.topic == definition.topic:
            self.whole.opened(self)
        else:
            self._finish()
            self._end_there(closed=False)
            self.whole.failed(self, NOT_FOUND, "")

    def received(self, received: Received) -> None:
        """Nothing comes on it."""

    def outcomes(self, outcomes: Outcomes) -> None:
        """Nothing goes on it."""

    def settled(self, outcomes: Outcomes) -> None:
        """Nothing goes on it."""

    def perform(self) -> None:
        """Nothing waits."""

    @property
    def _goes_on(self) -> bool:
        """Whether the client ends the subscription: it must know that it has ended."""
        return bool(self._leaving)
