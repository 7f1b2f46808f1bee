"""Consequences of selectors that can't be evaluated, which is a bug of ours.

Only a subscription's own selector can decide which messages it is owed. So the subscription waits,
which the log and management report, and is tried again after `delivery.page_retry_ms`. A failing
selector of a consumer (on a queue, of a browser, of a subscription that is the link's own) ends
that consumer's peer. Other subscriptions and peers go on.
"""

from collections.abc import Callable

import structlog

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import PageRead
from distributary.ingest.runtime.host import Host
from distributary.pipeline.errors import SelectorFailed

_events = structlog.get_logger("delivery")

#: Beginning of management's report about a subscription that waits.
WAITS = "its selector can't be evaluated: "


class SelectorFaults:
    """The subscriptions that wait for a selector. `complete` is told when one is to be tried
    again."""

    def __init__(self, host: Host, complete: Callable[[PageRead], None]) -> None:
        self._loop, self._retry_ms = host.loop, host.settings.delivery.page_retry_ms
        self._complete = complete
        self._waiting: set[Subscription] = set()
        self._told: dict[Subscription, str] = {}  #: the logged fault of each, until it works

    def waits(self, subscription: Subscription) -> bool:
        """Whether the subscription must wait before it is tried again."""
        return subscription in self._waiting

    def works(self, subscription: Subscription) -> None:
        """Note that the subscription's selector was evaluated without a fault."""
        if self._told:
            self._told.pop(subscription, None)

    def failed(self, subscription: Subscription, failure: SelectorFailed) -> None:
        """Handle a selector that failed while the subscription was served."""
        if subscription.key is None or failure.selector != subscription.definition.selector:
            for consumer in tuple(subscription.consumers.values()):
                own = consumer.selector or subscription.definition.selector
                if own == failure.selector and not consumer.link.connection.broken:
                    consumer.link.connection.broke(failure)
            return
        self.tell(subscription, failure)
        subscription.unreadable = f"{WAITS}{failure}"
        self._waiting.add(subscription)
        self._loop.call_later(self._retry_ms / 1_000, self._retry, subscription)

    def tell(self, subscription: Subscription, failure: SelectorFailed) -> None:
        """Write the fault to the log, once until the selector works."""
        if self._told.get(subscription) == str(failure):
            return
        self._told[subscription] = str(failure)
        _events.error(
            "selector.failed",
            subscription=subscription.key.id if subscription.key is not None else "",
            topic=subscription.definition.topic,
            selector=failure.selector,
            reason=str(failure),
            then=f"the subscription waits, and is tried again every {self._retry_ms} ms "
            "(delivery.page_retry_ms); others go on",
            exc_info=failure,
        )

    def forget(self, subscription: Subscription) -> None:
        """Forget a subscription that has ended."""
        self._told.pop(subscription, None)

    def _retry(self, subscription: Subscription) -> None:
        self._waiting.discard(subscription)
        subscription.unreadable = ""
        if not subscription.ended:
            self._complete(PageRead(subscription))
