"""Topics and subscriptions that a visitor may see."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sight:
    """The topics (a queue is `queue://NAME`) whose messages a user may see, and the subscriptions
    whose deliveries; None is all. The maker of a Sight has asked the gateway, as this user."""

    topics: frozenset[str] | None = None
    subscriptions: frozenset[str] | None = None

    def topic(self, topic: str) -> bool:
        """Whether messages of this topic may be shown."""
        return self.topics is None or topic in self.topics

    def subscription(self, subscription: str) -> bool:
        """Whether deliveries of this subscription may be shown."""
        return self.subscriptions is None or subscription in self.subscriptions


#: Without logins, and for a user who may do everything.
ALL = Sight()
