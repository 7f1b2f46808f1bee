"""Limits of the queues and durable subscriptions that clients make, and the counts of these.

Rule 1: queues and subscriptions that an operator makes aren't counted, and never refused.
Rule 2: queues of dead letters are made by the gateway and never refused; they count among all
        queues, so that no client makes an unlimited number of them.
Rule 3: a limit refuses new ones only; a lowered limit ends none that exist.
"""

from collections import Counter

import msgspec

from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError
from distributary.pipeline.model.subscription import Made, Origin, SubscriptionKey


class Quota(msgspec.Struct, frozen=True):
    """The limits; each stands in the settings under `[amqp]`."""

    queues_max: int  #: queues in all
    queues_of_user_max: int  #: queues that one user has made
    subscriptions_max: int  #: durable subscriptions in all
    subscriptions_of_client_id_max: int  #: durable subscriptions of one client id

    def rules(self) -> tuple[tuple[bool, str], ...]:
        """Return conditions on the limits, each with the sentence for its breach."""
        return (
            (
                0 <= self.queues_of_user_max <= self.queues_max,
                "amqp.queues_of_user_max must be from 0 to amqp.queues_max",
            ),
            (
                0 <= self.subscriptions_of_client_id_max <= self.subscriptions_max,
                "amqp.subscriptions_of_client_id_max must be from 0 to amqp.subscriptions_max",
            ),
        )


class Census:
    """Counts of queues (in all, by user) and durable subscriptions (in all, by client id)."""

    __slots__ = ("_client_ids", "_queues", "_quota", "_subscriptions", "_users")

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._queues = self._subscriptions = 0
        self._users: Counter[str] = Counter()
        self._client_ids: Counter[str] = Counter()

    def add(self, key: SubscriptionKey, made: Made) -> None:
        """Count a created queue or subscription."""
        self._count(key, made, 1)

    def remove(self, key: SubscriptionKey, made: Made) -> None:
        """Count one less; `made` is the same as in `add`."""
        self._count(key, made, -1)

    def amqp_error(self, key: SubscriptionKey, user: str) -> AmqpError | None:
        """Return why a client of this user can't create the queue or subscription; None if it
        can."""
        if not key.durable:
            return None
        quota, container = self._quota, key.container
        if key.queue:
            return _full(self._queues, quota.queues_max, "queues", "amqp.queues_max") or _full(
                self._users[user],
                quota.queues_of_user_max,
                f"queues that user '{user}' has made",
                "amqp.queues_of_user_max",
            )
        most = quota.subscriptions_max
        amqp_error = _full(
            self._subscriptions, most, "durable subscriptions", "amqp.subscriptions_max"
        )
        if amqp_error is not None or container is None:
            return amqp_error
        return _full(
            self._client_ids[container],
            quota.subscriptions_of_client_id_max,
            f"durable subscriptions of the client id '{container}'",
            "amqp.subscriptions_of_client_id_max",
        )

    def _count(self, key: SubscriptionKey, made: Made, change: int) -> None:
        if not key.durable or made.origin is Origin.OPERATOR:
            return
        if not key.queue:
            self._subscriptions += change
            if key.container is not None:
                _change(self._client_ids, key.container, change)
            return
        self._queues += change
        if made.origin is Origin.CLIENT:
            _change(self._users, made.user, change)


def _change(counts: Counter[str], name: str, change: int) -> None:
    counts[name] += change
    if not counts[name]:
        del counts[name]


def _full(count: int, most: int, what: str, setting: str) -> AmqpError | None:
    if count < most:
        return None
    text = f"there are {count} {what} ({setting}); end some, or have an operator make it"
    return AmqpError(LIMIT_EXCEEDED, text)
