"""The delivery service: performs what the dispatchers of all subscriptions decide.

A subscription is a position over the log. Messages come from memory when they are recent, else
from `topic_log`, a page at a time; a slow subscription costs others nothing. All methods run on
the loop's thread.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import count

from ingest import oversize
from ingest.consumer import Consumer, Subscription
from ingest.link import Link
from ingest.log import Log, Receipt, answer
from ingest.paging import Paging
from ingest.pump import Outcomes
from ingest.settings import Settings
from pipeline.delivery import Verdict
from pipeline.dispatch import Settled
from pipeline.message import Settlement, Slab
from pipeline.outcome import Outcome
from pipeline.performative import OUTCOMES
from pipeline.registry import LinkKind
from pipeline.selector.matching import Matches, Selections
from pipeline.tables.marks import Marks
from pipeline.tables.topic_log import TopicLog

#: Bytes that one subscription may hand to the engine in one pass; then the others have a turn and
#: the sockets a chance to say that they are full.
PASS_BYTES = 1 << 20
#: Selectors evaluated for one subscription in one pass, about 5 us each: 2 ms until others go on.
PASS_EVALUATIONS = 400


class DeliveryService:
    """Serves subscriptions that have consumers with credit; knows nothing of the others."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        log: Log,
        table: TopicLog,
        marks: Marks,
        flush: Callable[[], None],
    ) -> None:
        self._loop, self._settings, self._log = loop, settings, log
        self._marks, self._flush = marks, flush
        #: Told of a link that ends from this side.
        self.ended: Callable[[Link], None] = lambda _link: None
        self.paging = Paging(loop, log.recent, table, settings.delivery.page_bytes)
        self.paging.resumed = self._resume
        self._live: dict[str, dict[Subscription, None]] = {}  # topic -> those with consumers
        self._due: dict[Subscription, None] = {}
        self._selections = Selections()
        self._numbers = count(1)
        log.arrived = self._arrived

    # Consumers come and go.

    def attach(self, subscription: Subscription, link: Link, name: str, kind: LinkKind) -> Consumer:
        """A consumer joins; its credit comes by `flowed`."""
        presettled = link.sends_settled or kind is LinkKind.BROWSER
        consumer = Consumer(next(self._numbers), link, name, kind, subscription, presettled)
        if not subscription.consumers:
            self._selections.join(subscription.definition)
        subscription.consumers[consumer.number] = consumer
        subscription.dispatcher.attach(consumer.number)
        self._live.setdefault(subscription.definition.topic, {})[subscription] = None
        return consumer

    def detach(self, consumer: Consumer) -> None:
        """A consumer goes; what it held is given back, and that is recorded."""
        subscription = consumer.subscription
        if subscription.consumers.pop(consumer.number, None) is None:
            return
        now = time.time_ns() // 1_000
        for settled in subscription.dispatcher.detach(consumer.number):
            self._record(consumer, settled, now, now)
        if not subscription.consumers:
            self._selections.leave(subscription.definition)
            subscription.pages.clear()
            live = self._live[subscription.definition.topic]
            live.pop(subscription, None)
            if not live:
                del self._live[subscription.definition.topic]
        self._due[subscription] = None

    def flowed(self, consumer: Consumer) -> None:
        """The link's credit or drain changed, or its socket can or can't take more."""
        if consumer.left:
            return
        self._set_credit(consumer)
        self._due[consumer.subscription] = None

    def _set_credit(self, consumer: Consumer) -> None:
        link, dispatcher = consumer.link, consumer.subscription.dispatcher
        able = link.alive and link.connection.writable and not consumer.too_large
        credit = link.credit if able else 0
        room = self._settings.amqp.unsettled_max - len(dispatcher.held(consumer.number))
        consumer.cut = credit > room
        dispatcher.credit(consumer.number, min(credit, max(room, 0)))

    # Outcomes.

    def settled(self, consumer: Consumer, outcomes: Outcomes) -> None:
        """A consumer's peer gave an outcome to a run of deliveries."""
        subscription = consumer.subscription
        said = _verdict(outcomes, consumer.link)
        settled = subscription.dispatcher.settle(
            consumer.number,
            outcomes.run,
            said.outcome,
            failed=said.failed,
            undeliverable=said.undeliverable,
        )
        now = time.time_ns() // 1_000
        for one in settled:
            self._record(consumer, one, outcomes.token, now)
            if not one.final:
                self._due[subscription] = None
        if outcomes.confirm:
            receipt = Receipt(consumer.link, outcomes.confirm, len(outcomes.confirm) // 8, 0)
            if subscription.durable:
                self._log.confirm(receipt)
            else:
                answer(receipt, 0)
        if consumer.cut and not consumer.left:
            self._set_credit(consumer)
            self._due[subscription] = None
        oversize.end_if_empty(consumer, self.ended)

    def _record(self, consumer: Consumer, settled: Settled, delivered: int, now: int) -> None:
        subscription = consumer.subscription
        if subscription.key is None or not subscription.durable:
            return
        self._log.settle(
            Settlement(
                subscription=subscription.key.id,
                topic=subscription.definition.topic,
                consumer=consumer.name,
                outcome=settled.outcome,
                final=settled.final,
                delivery_count=settled.delivery_count,
                delivered_at=delivered,
                settled_at=now,
                floor=subscription.dispatcher.floor,
                sequences=(settled.run,),
            )
        )

    # Serving.

    def _arrived(self, topics: list[str]) -> None:
        for topic in topics:
            live = self._live.get(topic)
            if live:
                self._due.update(live)
        self.run()
        self._flush()

    def run(self) -> None:
        """Serve all that are due."""
        while self._due:
            due, self._due = self._due, {}
            for subscription in due:
                self._serve(subscription)

    def _serve(self, subscription: Subscription) -> None:
        dispatcher = subscription.dispatcher
        sent = work = 0
        while (wanted := dispatcher.wanted()) is not None:
            if sent >= PASS_BYTES or work >= PASS_EVALUATIONS:
                self._serve_again(subscription)
                return
            slab = self.paging.find(subscription, wanted)
            if slab is None:
                break
            now = time.time_ns() // 1_000
            claimed = self._claimed(subscription, slab, wanted, PASS_EVALUATIONS - work)
            work += claimed.work
            delivers = dispatcher.offer(slab.first, claimed.stop, claimed.sequences)
            self._marks.deliver(subscription.mark, dispatcher.position)
            limited = []
            for deliver in delivers:
                consumer = subscription.consumers[deliver.consumer]
                run = deliver.run
                if consumer.link.message_bytes_max:
                    limited.append(consumer)
                    run = oversize.fitting(consumer, slab, deliver)
                sent += consumer.link.send(
                    slab, run, deliver.delivery_count, now, consumer.presettled
                )
                if consumer.presettled:
                    for settled in dispatcher.settle(consumer.number, run, Outcome.ACCEPTED):
                        self._record(consumer, settled, now, now)
            for consumer in limited:
                oversize.end_if_empty(consumer, self.ended)
        if not subscription.pages.reading:
            self._answer_drains(subscription)

    def _claimed(
        self, subscription: Subscription, slab: Slab, wanted: int, work_max: int
    ) -> Matches:
        """What of the slab the subscription claims, from `wanted` on, as far as that is known."""
        dispatcher, selector = subscription.dispatcher, subscription.definition.selector
        if selector is None:
            return Matches(slab.sequences, slab.stop)
        if wanted < dispatcher.position:  # it was delivered before, so it is claimed
            return Matches(None, min(slab.stop, dispatcher.position))
        return self._selections.matches(
            subscription.definition, slab, wanted, room=dispatcher.room, work_max=work_max
        )

    def _serve_again(self, subscription: Subscription) -> None:
        """Go on after the sockets were written and others had their turn."""
        self._loop.call_soon(partial(self._resume, subscription))

    def _resume(self, subscription: Subscription) -> None:
        self._due[subscription] = None
        self.run()
        self._log.kick()
        self._flush()

    def _answer_drains(self, subscription: Subscription) -> None:
        """All there is has been sent: whoever drains gives its credit back."""
        for consumer in subscription.consumers.values():
            link = consumer.link
            if link.alive and link.draining and link.connection.writable:
                link.drained()
                self._set_credit(consumer)

    def close(self) -> None:
        self.paging.close()


def _verdict(outcomes: Outcomes, link: Link) -> Verdict:
    """What the peer said, in the words of the pure part."""
    if outcomes.state == 0:
        return link.default_outcome
    return Verdict(OUTCOMES[outcomes.state], outcomes.failed, outcomes.undeliverable)
