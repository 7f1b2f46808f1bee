"""Destinations of messages that name their own: on a link without an address, or as an answer."""

from collections.abc import Callable

from distributary.ingest.net.link import Link
from distributary.ingest.subscriptions.admission import Admission
from distributary.ingest.subscriptions.subscription_service import SubscriptionService
from distributary.pipeline.model.address import Kind, destination_of
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.subscription import Made, Origin
from distributary.pipeline.model.topic_pattern import PatternStyle, published
from distributary.pipeline.subscriptions.rights import LinkOperation


class AddressResolver:
    """Finds the topic of an address, as a link's user may use it. `bare` is the kind of an address
    without a scheme, `style` recognises patterns, to which no message can be sent. For a relayed
    link the kind is that of its client's gateway, which has found the message's log by it."""

    def __init__(
        self,
        admission: Admission,
        subscriptions: SubscriptionService,
        bare: Kind,
        style: PatternStyle,
    ) -> None:
        self._admission, self._subscriptions = admission, subscriptions
        self._bare, self._style = bare, style

    def resolve(
        self,
        link: Link,
        operation: LinkOperation,
        address: str,
        said: Kind | None,
        is_ours: Callable[[str], bool] = lambda _topic: True,
    ) -> str | AmqpError:
        """Return the topic, or why the user may not send there. A queue of our log is made before
        the message comes; for another log its owner decides the rest."""
        relayed = link.attach.relayed
        bare = relayed.bare if relayed is not None else None
        destination = destination_of(address, said, bare or self._bare)
        if isinstance(destination, AmqpError):
            return destination
        if (amqp_error := published(destination, self._style)) is not None:
            return amqp_error
        peer, topic, ours = link.connection, destination.topic, is_ours(destination.topic)
        if ours:
            amqp_error = self._admission.sending(peer, destination, operation)
        else:
            amqp_error = self._admission.sending_elsewhere(peer, topic, operation)
        if amqp_error is not None:
            return amqp_error
        if destination.is_queue and not destination.is_temporary and ours:
            self._subscriptions.keep_queue(destination, Made(Origin.CLIENT, peer.user))
        return topic

    def gone(self, link: Link, topic: str) -> AmqpError | None:
        """Return why a topic that was found before can't get a message of this link now, if so."""
        destination = destination_of(topic, None, Kind.TOPIC)
        if isinstance(destination, AmqpError):
            return None
        return self._admission.ended(link, destination)

    def answering(
        self, link: Link, address: str, is_ours: Callable[[str], bool]
    ) -> str | AmqpError:
        """Return the topic of an answer to a request that came on this link, or why it can't be
        sent there. The topic may be in another log; `is_ours`: whether it is in ours."""
        return self.resolve(link, LinkOperation.ANSWER, address, None, is_ours)
