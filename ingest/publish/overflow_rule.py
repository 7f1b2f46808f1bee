"""Consequences of full backlogs, as they are in force: `dead_letter` needs a place to go.

A queue of dead letters has no dead letters of its own, and in a circle of full queues they would
come back. Such a queue keeps all messages and refuses publishers instead.
"""

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.dead_letters import dead_letters_of
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.runtime.policies import keeps_dead_letters
from distributary.pipeline.model.policy import Overflow
from distributary.pipeline.redelivery.dead_letter_circles import chain, comes_back


class OverflowRule:
    """The `Overflow` in force of each subscription, and whose depends on whose policy."""

    def __init__(self, topic_directory: TopicDirectory, log: str) -> None:
        self._topic_directory, self._log = topic_directory, log
        #: By queue: the queues to which its messages would go on, and those on whose way it lies.
        self._ways: dict[str, list[str]] = {}
        self._dependent: dict[str, dict[str, None]] = {}

    def of(self, subscription: Subscription) -> Overflow:
        """Return what happens at its limit."""
        key, policy = subscription.key, subscription.dispatcher.policy
        topic, said = subscription.definition.topic, policy.backlog.overflow
        if said is not Overflow.DEAD_LETTER or key is None or not key.queue:
            return said
        self._forget(topic)
        if not keeps_dead_letters(key, topic, policy):
            return Overflow.REFUSE if key.durable else said
        self._ways[topic] = met = chain(topic, self._passes_to)
        for one in met:
            self._dependent.setdefault(one, {})[topic] = None
        return Overflow.REFUSE if comes_back(topic, met) else said

    def changed(self, topic: str) -> tuple[str, ...]:
        """Return the queues whose overflow may be another one, as this queue has changed."""
        self._forget(topic)
        return tuple(self._dependent.get(topic, ()))

    def _forget(self, topic: str) -> None:
        for one in self._ways.pop(topic, ()):
            queues = self._dependent.get(one, {})
            queues.pop(topic, None)
            if not queues:
                self._dependent.pop(one, None)

    def _passes_to(self, topic: str) -> str | None:
        """Return the queue to which a full queue's messages go on; None: it keeps or drops them."""
        for one in self._topic_directory.of(topic):
            policy = one.dispatcher.policy
            if one.key is None or not one.key.queue:
                continue
            passes = policy.backlog.limits and policy.backlog.overflow is Overflow.DEAD_LETTER
            if passes and keeps_dead_letters(one.key, topic, policy):
                return dead_letters_of(one, self._log).topic
        return None
