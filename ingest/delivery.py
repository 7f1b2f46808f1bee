"""The delivery service: performs what the dispatchers of all subscriptions decide.

A subscription is a position over the log. Messages come from memory when they are recent, else
from `topic_log`, a page at a time; a slow subscription costs others nothing. All methods run on
the loop's thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from ingest import pump
from ingest.link import Link
from ingest.log import Log, Receipt, answer
from ingest.pump import Outcomes
from ingest.settings import Settings
from ingest.workers import Failure, Worker
from pipeline.delivery import Verdict
from pipeline.dispatch import Deliver, Dispatcher, Settled
from pipeline.message import Settlement, Slab
from pipeline.outcome import Outcome
from pipeline.performative import OUTCOMES
from pipeline.registry import LinkKind
from pipeline.selector.matching import Matches, Selections
from pipeline.sequences import Run
from pipeline.subscription import Definition, SubscriptionKey
from pipeline.tables.marks import Marks
from pipeline.tables.paging import Page
from pipeline.tables.topic_log import TopicLog

#: Bytes that one subscription may hand to the engine in one pass; then the others have a turn and
#: the sockets a chance to say that they are full.
PASS_BYTES = 1 << 20
#: Selectors evaluated for one subscription in one pass, about 5 us each: 2 ms until others go on.
PASS_EVALUATIONS = 400


@dataclass(slots=True, eq=False)
class Consumer:
    """One outgoing link and its subscription."""

    number: int
    link: Link
    name: str
    kind: LinkKind
    subscription: "Subscription"
    presettled: bool
    #: Its credit is cut to what it may hold unsettled.
    cut: bool = False
    #: The next message is larger than it takes, and how: its link ends when it holds nothing more.
    too_large: str = ""

    @property
    def left(self) -> bool:
        """Whether it has been detached; its link may live on until its peer has all answers."""
        return self.number not in self.subscription.consumers


@dataclass(slots=True, eq=False)
class Subscription:
    """A claim on a topic and what the service knows to serve it.

    `key` is None for a private one. `pages` hold what of `paged` (a range of sequences) is still
    to be delivered; they are older than memory reaches. `mark` is its slot among the marks, 0 for
    one that has none.
    """

    key: SubscriptionKey | None
    definition: Definition
    dispatcher: Dispatcher
    consumers: dict[int, Consumer] = field(default_factory=dict)
    pages: deque[Slab] = field(default_factory=deque)
    paged: range = range(0)
    paging: bool = False
    mark: int = 0

    @property
    def durable(self) -> bool:
        return self.key is not None and self.key.durable


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
        self._loop, self._settings, self._log, self._table = loop, settings, log, table
        self._marks, self._flush = marks, flush
        self.stopped: Callable[[str], None] = lambda _reason: None
        #: Told of a link that ends from this side.
        self.ended: Callable[[Link], None] = lambda _link: None
        self._reader: Worker[Page] = Worker("reader", loop)
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
            subscription.paged = range(0)
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
        self._end_if_empty(consumer)

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
            slab = self._find(subscription, wanted)
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
                    run = self._fitting(consumer, slab, deliver)
                sent += consumer.link.send(
                    slab, run, deliver.delivery_count, now, consumer.presettled
                )
                if consumer.presettled:
                    for settled in dispatcher.settle(consumer.number, run, Outcome.ACCEPTED):
                        self._record(consumer, settled, now, now)
            for consumer in limited:
                self._end_if_empty(consumer)
        if not subscription.paging:
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

    def _fitting(self, consumer: Consumer, slab: Slab, deliver: Deliver) -> Run:
        """What its peer takes of a delivery: what comes before the first message that is too
        large. The rest goes back, for whoever takes it; its own link gets no more."""
        link, run = consumer.link, deliver.run
        fits, size = 0, 0
        if not consumer.too_large:
            fits, size = pump.fitting(slab, run, deliver.delivery_count, link.message_bytes_max)
        if fits == len(run):
            return run
        if not consumer.too_large:
            consumer.too_large = (
                f"message {run[fits]} has {size} bytes, link '{link.name}' takes "
                f"{link.message_bytes_max}"
            )
        dispatcher = consumer.subscription.dispatcher
        dispatcher.settle(consumer.number, run[fits:], Outcome.RELEASED)
        dispatcher.credit(consumer.number, 0)
        return run[:fits]

    def _end_if_empty(self, consumer: Consumer) -> None:
        """End the link of a consumer that can't have its next message, when it holds no others:
        what it holds it may still settle."""
        link = consumer.link
        if not consumer.too_large or consumer.left:
            return
        if consumer.subscription.dispatcher.held(consumer.number):
            return
        self.ended(link)
        end = partial(
            link.detach,
            closed=True,
            condition="amqp:link:message-size-exceeded",
            description=consumer.too_large,
        )
        if link.waiting:  # the peer hears of every outcome before it hears the end
            link.when_answered = end
        else:
            end()

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

    # Messages at hand.

    def _find(self, subscription: Subscription, wanted: int) -> Slab | None:
        """The slab with `wanted` or the first one after it; None if there is none yet."""
        recent = self._log.recent
        topic = subscription.definition.topic
        if wanted < recent.floor:
            if not self._page(subscription, wanted):
                return None
            if subscription.pages:
                return subscription.pages[0]
        room = subscription.dispatcher.room
        slab = recent.find(topic, max(wanted, recent.floor), room)
        if slab is None:
            subscription.dispatcher.skip_to(recent.head)
        return slab

    def _page(self, subscription: Subscription, wanted: int) -> bool:
        """Whether the pages at hand lead to `wanted`; asks for the next one if they don't.

        With no page left and True, nothing is owed below the floor of what is in memory.
        """
        pages, recent = subscription.pages, self._log.recent
        if wanted not in subscription.paged:
            if not subscription.paging:
                pages.clear()
                subscription.paged = range(wanted, wanted)
                self._request(subscription, wanted)
            return False
        covered = subscription.paged.stop
        while pages and pages[0].stop <= wanted:
            subscription.paged = range(pages.popleft().stop, covered)
        if len(pages) <= 1 and covered < recent.floor and not subscription.paging:
            self._request(subscription, covered)  # read ahead while this one is delivered
        if not pages and covered < recent.floor:
            subscription.dispatcher.skip_to(covered)
            return False
        return True

    def _request(self, subscription: Subscription, start: int) -> None:
        subscription.paging = True
        topic, size = subscription.definition.topic, self._settings.delivery.page_bytes
        self._reader.submit(
            lambda: self._table.page(topic, start, size),
            lambda page: self._paged(subscription, start, page),
        )

    def _paged(self, subscription: Subscription, start: int, page: Page | Failure) -> None:
        subscription.paging = False
        if isinstance(page, Failure):
            self.stopped(f"{type(page.error).__name__}: {page.error}")
            return
        if subscription.paged.stop == start and subscription.consumers:
            subscription.pages.extend(page.slabs)
            subscription.paged = range(subscription.paged.start, page.covered)
        self._resume(subscription)

    def close(self) -> None:
        self._reader.stop()


def _verdict(outcomes: Outcomes, link: Link) -> Verdict:
    """What the peer said, in the words of the pure part."""
    if outcomes.state == 0:
        return link.default_outcome
    return Verdict(OUTCOMES[outcomes.state], outcomes.failed, outcomes.undeliverable)
