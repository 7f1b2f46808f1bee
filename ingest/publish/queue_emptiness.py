"""Whether a queue has messages, by reading, not by counters: they would be lost with the queue."""

from distributary.ingest.commit.group_log import Log
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import Paging
from distributary.ingest.runtime import clock
from distributary.pipeline.dispatch.dispatcher import Deliver


async def empty_below(subscription: Subscription, log: Log, paging: Paging) -> int | None:
    """Return the sequence below which the subscription is owed no message; None if it is owed one.
    Raises StoreError when messages can't be read."""
    end = log.recent.head
    if subscription.dispatcher.outstanding:
        return None
    view, lookup = subscription.dispatcher.view(), paging.lookup()
    view.paused = False
    view.attach(1)
    view.credit(1, 1)
    while (wanted := view.wanted(end)) is not None:
        batch = await lookup.batch(subscription.definition.topic, wanted, end)
        if batch is None:
            break
        now = clock.now()
        effects = view.offer(batch.first, batch.stop, batch.sequences, now=now)
        if any(isinstance(one, Deliver) and one.run[0] < end for one in effects):
            return None
    return end


def empty_since(subscription: Subscription, log: Log, end: int) -> bool:
    """Whether no message has come for the subscription from sequence `end` on, durable or not."""
    topic = subscription.definition.topic
    found = log.recent.find(topic, max(end, log.recent.floor))
    return found is None and not log.coming(topic)[0]
