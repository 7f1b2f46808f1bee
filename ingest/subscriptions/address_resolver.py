"""Where a message goes that says so itself: a link without an address, an answer of the node."""

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
    """Finds the topic of an address, as one link's user may use it. `bare` is what an address
    without a scheme means, `style` says what a pattern is, to which nobody sends."""

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
        """The topic; if it is a queue's of our log, the queue is there before the message. An
        AmqpError says why the user may not send there."""
        destination = destination_of(address, said, self._bare)
        if isinstance(destination, AmqpError):
            return destination
        amqp_error = published(destination, self._style) or self._admission.sending(
            link.connection, destination, operation
        )
        if amqp_error is not None:
            return amqp_error
        if destination.is_queue and not destination.is_temporary and is_ours(destination.topic):
            made = Made(Origin.CLIENT, link.connection.user)
            self._subscriptions.keep_queue(destination, made)
        return destination.topic

    def answering(
        self, link: Link, address: str, is_ours: Callable[[str], bool]
    ) -> str | AmqpError:
        """The same for an answer to a request that came on this link, which may be in another log;
        `is_ours` says whether a topic is in this one."""
        return self.resolve(link, LinkOperation.ANSWER, address, None, is_ours)
