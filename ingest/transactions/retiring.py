"""Deliveries that were given an outcome in a transaction: held for it, until it ends.

All methods run on the loop's thread.
"""

from array import array

import msgspec

from distributary.ingest.commit.group_log import Log, Receipt
from distributary.ingest.delivery.consumer import Consumer
from distributary.ingest.delivery.delivery_service import DeliveryService
from distributary.ingest.native.runs import Outcomes
from distributary.ingest.net import transactional
from distributary.ingest.runtime import clock
from distributary.ingest.transactions.prepared_work import HeldRun
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.sequences.sequence_set import Run

#: Outcome of deliveries that the consumer has seen, and whose transaction has no effect.
_SEEN = DeliveryState(Outcome.MODIFIED, failed=True)
_UNSEEN = DeliveryState(Outcome.RELEASED)


class Retired(msgspec.Struct, frozen=True, eq=False):
    """An outcome that a consumer gave to a run of deliveries in the transaction `number`.
    `unsettled` has the addresses of the deliveries if their peer waits for our settlement; they
    are good as long as the link."""

    number: int
    consumer: Consumer
    run: Run
    said: DeliveryState
    delivered_at: int
    unsettled: bytes

    @property
    def transaction(self) -> int:
        """The number by which a dispatcher knows the transaction: below 0, as no consumer's is."""
        return -self.number


class Retiring:
    """Passes outcomes from transactions to the dispatchers of subscriptions."""

    def __init__(self, delivery: DeliveryService, log: Log) -> None:
        self._delivery, self._log = delivery, log

    def retire(self, consumer: Consumer, outcomes: Outcomes) -> list[Retired]:
        """Keep the outcomes until the transaction ends, of those deliveries that are still in
        flight to the consumer."""
        number, run = outcomes.transaction, outcomes.run
        parts = consumer.subscription.dispatcher.retire(
            consumer.number, run, -number, outcomes.delivered_at
        )
        said = consumer.link.delivery_state(outcomes)
        found = []
        for part in parts:
            unsettled = outcomes.confirm
            if unsettled and len(part) < len(run):
                unsettled = _of_part(unsettled, run, part)
            found.append(Retired(number, consumer, part, said, outcomes.delivered_at, unsettled))
        self._delivery.eased(consumer)
        return found

    def holds(self, retired: Retired) -> bool:
        """Whether the deliveries can still be settled: their subscription wasn't rewound. For a
        subscription that has ended outcomes mean nothing, and this is true."""
        subscription = retired.consumer.subscription
        return subscription.ended or subscription.dispatcher.retired(
            retired.transaction, retired.run
        )

    def settle(self, retired: Retired) -> None:
        """Apply the outcome; it is recorded in the pending group."""
        link, unsettled = retired.consumer.link, retired.unsettled
        if retired.consumer.subscription.ended:
            return
        receipt = None
        if unsettled and link.alive and not link.ended:
            receipt = Receipt(link, unsettled, len(unsettled) // 8, 0)
            link.waiting += receipt.unsettled
        self._end(retired, retired.run, retired.said, receipt)
        if retired.consumer.left:
            self._delivery.changed(retired.consumer.subscription)  # its groups may go on

    def held(self, retired: Retired) -> HeldRun:
        """Return the deliveries as a prepared transaction keeps them."""
        consumer, run, said = retired.consumer, retired.run, retired.said
        subscription = consumer.subscription
        began = self._log.begun.get(subscription.id, 0)
        buckets = subscription.dispatcher.buckets(run)
        at = retired.delivered_at
        return HeldRun(subscription, began, consumer.name, run, said, at, buckets)

    def hand_over(self, retired: Retired) -> None:
        """Take the deliveries from their consumer: the transaction is prepared in the pending
        group. The peer is answered as if they were settled."""
        link, unsettled = retired.consumer.link, retired.unsettled
        if unsettled and link.alive and not link.ended:
            receipt = Receipt(link, unsettled, len(unsettled) // 8, 0)
            link.waiting += receipt.unsettled
            self._log.confirm(receipt)
        link.outcomes_in = self._log.forming

    def undo(self, retired: Retired) -> None:
        """Undo the outcomes. Deliveries that the peer has settled are released, or fail if the
        consumer has seen the messages; the others are in flight to the consumer again."""
        link, subscription = retired.consumer.link, retired.consumer.subscription
        if subscription.ended or not self.holds(retired):
            return
        rest: Run = retired.run
        if retired.unsettled and link.alive and not link.ended:
            now = clock.now()  # it is a delivery of now, or its outcome would be a late one
            settled = transactional.restore(retired.unsettled, now)
            pairs = list(zip(retired.run, settled, strict=True))
            own = array("q", [sequence for sequence, gone in pairs if not gone])
            dispatcher = subscription.dispatcher
            if own and dispatcher.restore(retired.transaction, own, retired.consumer.number, now):
                rest = array("q", [sequence for sequence, gone in pairs if gone])
                self._delivery.changed(subscription)  # it may be under a lock again
        if rest:
            self._end(retired, rest, undone(retired.said), None)

    def _end(
        self, retired: Retired, run: Run, said: DeliveryState, receipt: Receipt | None
    ) -> None:
        holder, delivered_at = retired.transaction, retired.delivered_at
        self._delivery.settle(retired.consumer, holder, run, said, delivered_at, receipt)

    def forget(self, number: int, retired: list[Retired]) -> None:
        """Forget a transaction that has ended."""
        for dispatcher in {one.consumer.subscription.dispatcher for one in retired}:
            dispatcher.forget(-number)


def undone(said: DeliveryState) -> DeliveryState:
    """Return the outcome of deliveries with this outcome whose transaction has no effect."""
    return _UNSEEN if said.outcome is Outcome.RELEASED else _SEEN


def _of_part(unsettled: bytes, run: Run, part: Run) -> bytes:
    """Return the addresses of a part of a run's deliveries."""
    addresses = dict(zip(run, memoryview(unsettled).cast("Q"), strict=True))
    return array("Q", [addresses[sequence] for sequence in part]).tobytes()
