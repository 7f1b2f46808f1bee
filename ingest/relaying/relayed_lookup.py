"""A client's link that looks for a durable subscription of another gateway's log, to end it."""

from typing import Any

from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net import termini
from distributary.ingest.relaying.owner_link import OwnerLink
from distributary.ingest.relaying.owners.owner_terms import (
    consumer_answer,
    found_answer,
    open_consumer,
)
from distributary.pipeline.subscriptions.attach_intent import offered


class RelayedLookup(OwnerLink):
    """Nothing goes over it; its client's close ends the subscription."""

    def _make(self, session: Any) -> Any:
        return open_consumer(session, self._link, self._terms)

    def _answer(self) -> None:
        link = self._link
        if not link.alive or link.ended:
            return
        definition, global_ = found_answer(self.pointer)
        expiry = consumer_answer(self.pointer).expiry
        termini.found(link.proton, definition, expiry, global_=global_)
        link.offered_capabilities = offered(definition.topic, outgoing=True)
        link.open()

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
        """Whoever ends a subscription must know that it has ended."""
        return bool(self._leaving)
