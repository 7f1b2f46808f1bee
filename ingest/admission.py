"""Whether a link's user may do what the link asks for: each question once, for all ways to ask it.

Which permission an operation needs is a row of `pipeline.subscriptions.rights`; here is what the
rows are asked about: the user, the destination, the subscription that there is.
"""

from ingest.connection import Connection
from ingest.link import Link
from ingest.security.access import Access
from ingest.subscriptions import Subscriptions
from ingest.temporary import Temporary
from pipeline.address import Destination, is_temporary
from pipeline.refusal import Refusal
from pipeline.registry import key_of_queue
from pipeline.subscription import SubscriptionKey
from pipeline.subscriptions.rights import LinkOperation
from pipeline.temporary import Deed, Whose
from pipeline.temporary import refusal as temporary_refusal


class Admission:
    """Answers why something may not be done; None means that it may."""

    def __init__(self, access: Access, subscriptions: Subscriptions, temporary: Temporary) -> None:
        self._access, self._subscriptions, self._temporary = access, subscriptions, temporary

    def sending(
        self, connection: Connection, destination: Destination, operation: LinkOperation
    ) -> Refusal | None:
        """Why this user may not send there: to a new queue sends who may make it."""
        user, topic = connection.user, destination.topic
        if destination.is_temporary:
            whose = self._temporary.whose(topic, connection)
            refusal = temporary_refusal(Deed.SEND, whose, topic)
            own = whose is Whose.OWN  # who could make it may use it
            operation = (
                LinkOperation.SEND_TO_OWN_TEMPORARY if own else LinkOperation.SEND_TO_TEMPORARY
            )
            return refusal or self._access.refusal(user, operation, topic)
        return self._access.refusal(user, operation, topic) or self.making(user, destination)

    def consuming(
        self, link: Link, topic: str, key: SubscriptionKey | None, operation: LinkOperation
    ) -> Refusal | None:
        """Why this link may not consume from there: from a temporary destination consumes who could
        make it, and nobody else."""
        user = link.connection.user
        if is_temporary(topic):
            durable = key is not None and key.durable
            deed = Deed.SUBSCRIBE_DURABLY if durable else Deed.CONSUME
            whose = self._temporary.whose(topic, link.connection)
            refusal = temporary_refusal(deed, whose, topic)
            operation = LinkOperation.CONSUME_OWN_TEMPORARY
            return refusal or self._access.refusal(user, operation, topic)
        return self._access.refusal(user, operation, topic, key)

    def making(self, user: str, destination: Destination) -> Refusal | None:
        """Why this user may not use a destination for the first time: a queue that isn't there."""
        if not self._subscriptions.lacks(destination):
            return None
        refusal = self._access.refusal(user, LinkOperation.MAKE_QUEUE, destination.topic)
        census = self._subscriptions.named.census
        return refusal or census.refusal(key_of_queue(destination), user)

    def making_temporary(self, user: str, topic: str) -> Refusal | None:
        """Why this user may not make a temporary destination."""
        return self._access.refusal(user, LinkOperation.MAKE_TEMPORARY, topic)
