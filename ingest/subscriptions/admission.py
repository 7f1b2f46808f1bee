"""Permission checks of links' requests: one method for each question, however it comes up.

The permission that an operation needs is a row of `pipeline.subscriptions.rights`; here are the
facts for these rows: the user, the destination, the existing subscription.
"""

from distributary.ingest.net.link import Link, Peer
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.subscription_service import SubscriptionService
from distributary.ingest.subscriptions.temporary_nodes import TemporaryNodes
from distributary.pipeline.model.address import Destination, is_temporary
from distributary.pipeline.model.amqp_error import DELETED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.subscriptions.registry import key_of_queue
from distributary.pipeline.subscriptions.rights import LinkOperation
from distributary.pipeline.subscriptions.temporary_destination import Deed, Ownership
from distributary.pipeline.subscriptions.temporary_destination import (
    amqp_error as temporary_amqp_error,
)


class Admission:
    """Decides how users and links may use destinations: each method returns the reason of a
    refusal, or None."""

    def __init__(
        self, access: Access, subscriptions: SubscriptionService, temporary: TemporaryNodes
    ) -> None:
        self._access, self._subscriptions, self._temporary = access, subscriptions, temporary

    def sending(
        self, connection: Peer, destination: Destination, operation: LinkOperation
    ) -> AmqpError | None:
        """Return why this user may not send to this destination. To send to a queue that isn't
        there the user must be allowed to create it."""
        user, topic = connection.user, destination.topic
        if destination.is_temporary:
            ownership = self._temporary.ownership(topic, connection)
            amqp_error = temporary_amqp_error(Deed.SEND, ownership, topic)
            own = ownership is Ownership.OWN  # its maker may use it
            operation = (
                LinkOperation.SEND_TO_OWN_TEMPORARY if own else LinkOperation.SEND_TO_TEMPORARY
            )
            return amqp_error or self._access.amqp_error(user, operation, topic)
        amqp_error = self._access.amqp_error(user, operation, topic)
        return amqp_error or self.making(user, destination)

    def ended(self, link: Link, destination: Destination) -> AmqpError | None:
        """Return the reason if the destination has ended since a message of this link was admitted
        to it, and isn't made again for it: a queue is, but not for a link that has ended, too."""
        topic = destination.topic
        if destination.is_temporary:
            ownership = self._temporary.ownership(topic, link.connection)
            return temporary_amqp_error(Deed.SEND, ownership, topic)
        if (link.ended or not link.alive) and self._subscriptions.lacks(destination):
            return AmqpError(DELETED, f"'{topic}' has been deleted")
        return None

    def sending_elsewhere(
        self, connection: Peer, topic: str, operation: LinkOperation
    ) -> AmqpError | None:
        """Return why this user may not send to this destination of another log, whose owner knows
        whether it is there, and who made it."""
        return self._access.amqp_error(connection.user, operation, topic)

    def consuming(
        self, link: Link, topic: str, key: SubscriptionKey | None, operation: LinkOperation
    ) -> AmqpError | None:
        """Return why this link may not consume from this destination. Only the connection that made
        a temporary destination consumes from it."""
        user = link.connection.user
        if is_temporary(topic):
            durable = key is not None and key.durable
            deed = Deed.SUBSCRIBE_DURABLY if durable else Deed.CONSUME
            ownership = self._temporary.ownership(topic, link.connection)
            amqp_error = temporary_amqp_error(deed, ownership, topic)
            operation = LinkOperation.CONSUME_OWN_TEMPORARY
            return amqp_error or self._access.amqp_error(user, operation, topic)
        if is_pattern(topic):
            amqp_error = self._claiming(user, topic, key)
        else:
            amqp_error = self._access.amqp_error(user, operation, topic, key)
        return amqp_error or self._subscriptions.directory.absent(topic, key)

    def _claiming(self, user: str, pattern: str, key: SubscriptionKey | None) -> AmqpError | None:
        """Return why this user may not consume from this pattern. The user's own subscription gets
        only topics that the user may consume from; to join another user's subscription takes the
        right to all of the pattern's topics."""
        directory = self._subscriptions.directory
        if key is not None and key in directory and not directory.is_maker(key, user):
            return self._access.amqp_error(user, LinkOperation.CONSUME, pattern, key)
        operation = LinkOperation.CONSUME_PATTERN
        amqp_error = self._access.amqp_error(user, operation, pattern)
        return amqp_error or self._access.rights.names.amqp_error(user, key)

    def making(self, user: str, destination: Destination) -> AmqpError | None:
        """Return why this user may not create this topic or queue by using it first."""
        directory, topic = self._subscriptions.directory, destination.topic
        if not destination.is_queue:
            return directory.absent(topic)
        if not self._subscriptions.lacks(destination):
            return None
        key = key_of_queue(destination)
        amqp_error = directory.absent(topic, key)
        amqp_error = amqp_error or self._access.amqp_error(user, LinkOperation.MAKE_QUEUE, topic)
        return amqp_error or directory.census.amqp_error(key, user)

    def making_temporary(self, user: str, topic: str) -> AmqpError | None:
        """Return why this user may not make a temporary destination."""
        return self._access.amqp_error(user, LinkOperation.MAKE_TEMPORARY, topic)
