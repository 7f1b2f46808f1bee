"""The consumers of a subscription, with the messages in flight to each and their times of delivery,
found on demand.

Times are AMQP timestamps, in milliseconds. Messages that belong to a transaction are in flight to
no consumer.
"""

from collections.abc import Iterable
from itertools import islice

from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.subscriptions.operations import Facts
from distributary.pipeline.codec.amqp_types import Map, Timestamp, Value
from distributary.pipeline.dispatch.dispatcher import FOREVER

#: Columns about a message that is in flight.
HELD = ("sequence", "consumer", "delivered_at", "delivery_count")


def links(subscription: Subscription) -> list[Value]:
    """Return a map for each consumer: its name in the log, its credit, its messages in flight."""
    return [_link(consumer) for consumer in subscription.consumers.values()]


def held(subscription: Subscription, start: int, count: int) -> list[Value]:
    """Return the first `count` messages in flight from a sequence on, ascending, with the columns
    of HELD."""
    found = [
        (sequence, consumer)
        for consumer in subscription.consumers.values()
        for sequence in islice(_held(consumer, start), count)
    ]
    part = sorted(found, key=lambda one: one[0])[:count]
    since = {
        consumer.number: _since(consumer, [sequence for sequence, who in part if who is consumer])
        for consumer in {consumer.number: consumer for _, consumer in part}.values()
    }
    failures = subscription.dispatcher.failures
    return [
        [sequence, consumer.name, since[consumer.number].get(sequence), failures(sequence)]
        for sequence, consumer in part
    ]


def _link(consumer: Consumer) -> Map:
    dispatcher, link = consumer.subscription.dispatcher, consumer.link
    mine = dispatcher.unsettled(consumer.number)
    oldest = min(_since(consumer, _held(consumer, 0)).values(), default=None) if mine else None
    return Map(
        (
            ("name", consumer.name),
            ("credit", max(link.credit, 0) if link.alive else 0),
            ("active", dispatcher.active(consumer.number)),
            ("selector", consumer.selector),
            ("in_flight", len(mine)),
            ("oldest_delivered_at", oldest),
        )
    )


def _held(consumer: Consumer, start: int) -> Iterable[int]:
    mine = consumer.subscription.dispatcher.unsettled(consumer.number)
    return (sequence for run in mine.runs_within(start, FOREVER) for sequence in run)


def _since(consumer: Consumer, sequences: Iterable[int]) -> dict[int, Timestamp]:
    """Return the time of each message's latest delivery to the consumer."""
    if not consumer.link.alive:
        return {}
    import numpy as np  # noqa: PLC0415 (Arrow has loaded it; a start needs none)

    wanted = np.fromiter(sequences, dtype=np.uint64)
    delivered, times = (np.frombuffer(one, dtype=np.uint64) for one in consumer.link.in_flight())
    order = np.argsort(delivered, kind="stable")
    ascending = delivered[order]
    at = np.searchsorted(ascending, wanted, side="right").astype(np.int64) - 1
    known = at >= 0
    known[known] = ascending[at[known]] == wanted[known]
    times = times[order[at[known]]] // 1_000
    return {
        int(sequence): Timestamp(int(time))
        for sequence, time in zip(wanted[known], times, strict=True)
    }


def dropped_by(done: Facts) -> int:
    """Return the number of messages that an operation has dropped; 0 if it drops none."""
    count = done.get("dropped", 0)
    return count if isinstance(count, int) else 0


def lost(done: Facts) -> str:
    """Return the end of the sentence about an operation, with the number of dropped messages; empty
    for an operation that never drops any."""
    if "dropped" not in done:
        return ""
    most = " at most" if done.get("at_most") else ""
    return f"; messages dropped{most}: {dropped_by(done)}"
