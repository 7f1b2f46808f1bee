"""The delivery service: performs the decisions of all subscriptions' dispatchers.

A subscription is a position over the log. New messages come from memory, older ones from
`topic_log`, a page at a time; a slow one doesn't delay others. All run on the loop's thread.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count

import msgspec

from distributary.ingest.commit.group_log import Log, Receipt
from distributary.ingest.commit.home_opening import Store
from distributary.ingest.delivery import oversize
from distributary.ingest.delivery.alarms import Alarms
from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.delivery.dead_letters import DeadLetters
from distributary.ingest.delivery.expiry import Expiry
from distributary.ingest.delivery.leased_consumer import LeasedConsumer
from distributary.ingest.delivery.message_source import PageRead, Paging
from distributary.ingest.delivery.outcome_recording import AnswerDue, OutcomeRecording
from distributary.ingest.delivery.selector_faults import SelectorFaults
from distributary.ingest.delivery.selector_filter import SelectorFilter
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.native.runs import Outcomes
from distributary.ingest.net.link import Link
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.turns import Allowance, FairQueue, units
from distributary.pipeline.dispatch.dispatcher import DeadLetter, Deliver, Effect, Settled
from distributary.pipeline.model.address import Destination
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.registry import LinkKind

#: Seconds that dead-lettering may take at the end, when no consumer is served any more.
FINISH_SECONDS = 5.0
#: Subscriptions of a topic that are served until those of the next topic have their turn.
TOPIC_SUBSCRIPTIONS = 64
#: Bytes that one subscription may hand to the engine in one pass; then others have their turn, and
#: sockets can report that they are full.
PASS_BYTES = 1 << 20
#: Messages that selectors read for one subscription in one pass, 1 to 2 us each with one selector,
#: fewer with many: 2 ms until others go on.
PASS_EVALUATIONS = 1_000
#: Messages that aren't plain and are looked at, delivered or not, in the time of one evaluation.
MESSAGES_LIKE_ONE_EVALUATION = 4


class DeliveryDue(msgspec.Struct, frozen=True):
    """The delivery service tells the message loop: subscriptions are to be served."""


class DeliveryService:
    """Serves the subscriptions that have consumers with credit."""

    def __init__(
        self,
        host: Host,
        store: Store,
        log: Log,
        topics: TopicDirectory,
        ensure_queue: Callable[[Destination], SubscriptionKey],
        complete: Callable[[PageRead | DeliveryDue | AnswerDue], None],
    ) -> None:
        """`ensure_queue` makes a queue, in the pending group, if absent. `complete` gets events."""
        self._settings, self._log, self._complete = host.settings, log, complete
        self._traces = host.traces
        self._marks, self._topics = store.marks, topics
        self.paging = Paging(host, log.recent, store.table, complete)
        self.faults = SelectorFaults(host, complete)
        self._alarms = Alarms(host.loop, self._rung)
        self._dead_letters = DeadLetters(host, log, self.paging, ensure_queue)
        #: Records outcomes, and keeps the answers that wait for them.
        self.recording = OutcomeRecording(host, log, self._dead_letters, complete)
        self._expiry = Expiry(host, topics, self.paging, self.faults, self.give_up)
        self._attached: dict[str, dict[Subscription, None]] = {}  # by topic; with consumers
        self._queue: FairQueue[Subscription] = FairQueue(TOPIC_SUBSCRIPTIONS)
        self._again: list[Subscription] = []  # not done in their pass: last in the next turn
        self._cut: dict[Consumer, None] = {}  # get more when their outcomes are durable
        most = host.settings.delivery.turn_subscriptions_max
        self._turn = Allowance(host.loop, most, self._turned)
        self._filter = SelectorFilter(self.faults)
        self._numbers = count(1)

    # Consumers come and go.

    def attach(
        self,
        subscription: Subscription,
        link: Link,
        name: str,
        kind: LinkKind,
        selector: str | None = None,
    ) -> Consumer:
        """Add a consumer, perhaps with a selector of its own; its credit comes by `flowed`."""
        presettled = link.sends_settled or kind is LinkKind.BROWSER
        number = next(self._numbers)
        consumer = Consumer(number, link, name, kind, subscription, presettled, selector)
        if not subscription.consumers:
            self._filter.join(subscription)
        subscription.consumers[consumer.number] = consumer
        self._filter.consume(consumer)
        priority = link.attach.priority or 0  # a browser's is ignored
        subscription.dispatcher.attach(number, priority=priority, selector=selector)
        self._topics.add(subscription)
        self._attached.setdefault(subscription.definition.topic, {})[subscription] = None
        return consumer

    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer; its unsettled deliveries are released, and that is recorded. If its
        link was lost, its application may have seen them."""
        subscription = consumer.subscription
        if subscription.consumers.pop(consumer.number, None) is None:
            return
        now = clock.now()
        lost = not consumer.link.ended_well
        effects = subscription.dispatcher.detach(consumer.number, lost=lost, now=now)
        self.recording.left(subscription, consumer.name, effects, now, now)
        self._filter.stop(consumer)
        if not subscription.consumers:
            self._filter.leave(subscription)
            subscription.forget_pages()
            if subscription.key is None:
                self.end(subscription)
            attached = self._attached[subscription.definition.topic]
            attached.pop(subscription, None)
            if not attached:
                del self._attached[subscription.definition.topic]
        self._wake(subscription)

    def reacquire(self, consumer: Consumer, run: Run, now: int) -> list[Effect]:
        """Give the consumer those of these messages that are owed and not in flight."""
        subscription = consumer.subscription
        effects = subscription.dispatcher.reacquire(consumer.number, run, now)
        self._marks.deliver(subscription.mark_slot, subscription.dispatcher.reach)
        self._alarms.look(subscription)
        return effects

    def flowed(self, consumer: Consumer) -> None:
        """Serve a consumer whose link's credit or drain, or whose socket's state, has changed."""
        if consumer.left:
            return
        self._set_credit(consumer)
        self._wake(consumer.subscription)

    def _set_credit(self, consumer: Consumer) -> None:
        link, dispatcher = consumer.link, consumer.subscription.dispatcher
        able = link.alive and link.takes_more and not consumer.too_large
        credit = link.credit if able else 0
        leased, settings = isinstance(link, LeasedConsumer), self._settings
        most = settings.management.acquire_max if leased else settings.amqp.unsettled_max
        unsettled = able and not leased
        room = most - (link.unsettled if unsettled else len(dispatcher.unsettled(consumer.number)))
        consumer.cut = credit > room
        if consumer.cut and link.waiting:
            self._cut[consumer] = None
        dispatcher.credit(consumer.number, min(credit, max(room, 0)))

    # Subscriptions change.

    def changed(self, subscription: Subscription, *, repositioned: bool = False) -> None:
        """Serve a subscription whose dispatcher was changed: it may deliver, or wake earlier, than
        before. `repositioned`: an operator has set its position, and pages read are useless."""
        if repositioned:
            subscription.forget_pages()
            self._topics.changed(subscription)
        self._alarms.look(subscription)
        self._wake(subscription)

    def end(self, subscription: Subscription) -> None:
        """End a subscription: it is owed no messages any more."""
        subscription.ended = True
        self._alarms.forget(subscription)
        self.faults.forget(subscription)
        self._topics.remove(subscription)

    def give_up(
        self,
        subscription: Subscription,
        run: Run,
        reason: Reason,
        batch: RecordBatch | None = None,
    ) -> None:
        """Give up those of these messages that aren't in flight. `batch` has expired ones."""
        effects = subscription.dispatcher.give_up(run, reason)
        self.recording.perform(subscription, effects, clock.now(), batch)
        if effects and subscription.consumers:
            self._wake(subscription)  # later messages may be delivered now
        self._log.flush()

    def due(self) -> None:
        """Serve the subscriptions that were woken, without waiting for a frame."""
        self._complete(DeliveryDue())

    def _rung(self, subscriptions: list[Subscription], now: int) -> None:
        for subscription in subscriptions:
            self.recording.perform(subscription, subscription.dispatcher.wake(now), now)
            self._alarms.look(subscription)
            if subscription.consumers:
                self._wake(subscription)
        self.due()

    # Outcomes.

    def settled(self, consumer: Consumer, outcomes: Outcomes) -> None:
        """Settle a run of deliveries as a consumer's peer has said."""
        receipt: Receipt | None = None
        if outcomes.confirm:
            receipt = Receipt(consumer.link, outcomes.confirm, len(outcomes.confirm) // 8, 0)
        said = consumer.link.delivery_state(outcomes)
        self.settle(consumer, consumer.number, outcomes.run, said, outcomes.delivered_at, receipt)
        if consumer.cut or consumer.too_large:
            self.eased(consumer)

    def settle(
        self,
        consumer: Consumer,
        holder: int,
        run: Run,
        said: DeliveryState,
        delivered_at: int,
        receipt: Receipt | None = None,
    ) -> int:
        """Settle a run that is in flight to `holder`, the consumer's or its transaction's number,
        as the consumer said; the receipt is answered when that is durable. Return how many
        deliveries have ended."""
        now, subscription = clock.now(), consumer.subscription
        effects = subscription.settle(holder, run, said, delivered_at, now)
        self.recording.concluded(consumer, effects, delivered_at, now, receipt)
        return self._returned(subscription, effects)

    def conclude(
        self,
        subscription: Subscription,
        name: str,
        holder: int,
        run: Run,
        said: DeliveryState,
        delivered_at: int,
    ) -> None:
        """Settle as `settle` does, a run of a transaction whose consumer (`name`) may be gone."""
        now = clock.now()
        effects = subscription.settle(holder, run, said, delivered_at, now)
        self.recording.left(subscription, name, effects, delivered_at, now)
        self._wake(subscription)  # messages may be back, and groups may go on

    def _returned(self, subscription: Subscription, effects: Sequence[Settled | DeadLetter]) -> int:
        """Serve the subscription if messages were returned to it; return how many deliveries have
        ended."""
        ended = 0
        for one in effects:
            ended += len(one.run)
            if isinstance(one, DeadLetter) or not one.final:
                self._wake(subscription)
        return ended

    def eased(self, consumer: Consumer) -> None:
        """Serve a consumer that holds fewer deliveries than before."""
        if consumer.cut and not consumer.left:
            self._set_credit(consumer)
            self._wake(consumer.subscription)
        oversize.end_if_empty(consumer)

    # Serving.

    def arrived(self, topics: Iterable[str]) -> None:
        """Note that messages of these topics, and outcomes, have become durable: `run` serves the
        consumers that may get more by that."""
        cut, self._cut = self._cut, {}
        for consumer in cut:
            self.eased(consumer)
        patterns = self._log.recent.patterns
        for topic in topics:
            for word in (topic, *patterns.of(topic)) if patterns.claims else (topic,):
                if attached := self._attached.get(word):
                    self._queue.add_all(attached, word)

    def run(self) -> None:
        """Serve due subscriptions, as many as this turn of the loop allows; the others later, in
        the order in which they became due."""
        queue, turn = self._queue, self._turn
        while queue.order and turn.left > 0:
            sent, work = self._serve(queue.take())
            turn.spend(units(sent, work))

    def _turned(self) -> None:
        """Go on after a turn of the loop: sockets were written, and other peers had their turn."""
        while self._again:
            self._wake(self._again.pop(0))
        if self._queue.order:
            self._complete(DeliveryDue())

    def _wake(self, subscription: Subscription) -> None:
        """Have `run` serve the subscription: it may have something to deliver."""
        self._queue.add(subscription, subscription.definition.topic)

    def _serve(self, subscription: Subscription) -> tuple[int, int]:
        """Serve a subscription for one pass; return the bytes sent, and the evaluations made."""
        dispatcher, stream = subscription.dispatcher, subscription.stream
        head = self._log.recent.head if stream is None else stream.head
        selects = subscription.definition.selector is not None
        sent = work = 0
        missed = stuck = None
        while (wanted := dispatcher.wanted(head)) is not None:
            if sent >= PASS_BYTES or work >= PASS_EVALUATIONS:
                self._again.append(subscription)
                self._turn.ask()
                return sent, work
            batch = self.paging.find(subscription, wanted)
            if batch is None:
                if subscription.reading or wanted == missed:
                    break
                missed, stuck = wanted, None
                continue
            now = clock.now()
            if selects or dispatcher.selectors:
                part = self._filter.part(subscription, batch, wanted, PASS_EVALUATIONS - work)
                if part is None:
                    break
                work += part.work
                effects = dispatcher.offer(
                    part.first,
                    part.stop,
                    part.sequences,
                    now=now,
                    attributes=batch.attributes,
                    matches=part.matches,
                )
            else:
                effects = dispatcher.offer(
                    batch.first, batch.stop, batch.sequences, now=now, attributes=batch.attributes
                )
            assert effects or wanted != stuck, (  # noqa: S101
                f"nothing becomes of {wanted}, read up to {dispatcher.position}, in the batch "
                f"{batch.first} to {batch.stop - 1} of {subscription.definition}"
            )
            # A message that was too large may be back already, and one of low priority is wanted
            # again when no other follows it; both may have to wait for other messages then.
            stuck = None if effects else wanted
            if batch.attributes is not None:
                work += batch.count // MESSAGES_LIKE_ONE_EVALUATION
            self._marks.deliver(subscription.mark_slot, dispatcher.reach)
            sent += self._deliver(subscription, batch, effects, now)
        self._alarms.look(subscription)
        if not (subscription.reading or subscription.unreadable):
            self._answer_drains(subscription)
        return sent, work

    def _deliver(
        self, subscription: Subscription, batch: RecordBatch, effects: Sequence[Effect], now: int
    ) -> int:
        """Perform the dispatcher's effects on a batch's messages; return the bytes sent."""
        sent, limited, others = 0, list[Consumer](), list[Effect]()
        for effect in effects:
            if not isinstance(effect, Deliver):
                others.append(effect)
                continue
            consumer, run = subscription.consumers[effect.consumer], effect.run
            if consumer.link.message_bytes_max:
                limited.append(consumer)
                run = oversize.fitting(consumer, batch, effect, now)
            size = consumer.link.send(batch, run, effect.delivery_count, now, consumer.presettled)
            subscription.counts.delivered(len(run), size, effect.delivery_count)
            if self._traces is not None and consumer.kind is not LinkKind.BROWSER:
                self._traces.delivered(consumer.reader, batch, run, effect.delivery_count, now)
            sent += size
            if consumer.presettled:
                others += subscription.dispatcher.settle(
                    consumer.number, run, Outcome.ACCEPTED, now=now, delivered_at=now
                )
        if others:
            self.recording.perform(subscription, others, now, batch)
        for consumer in limited:
            oversize.end_if_empty(consumer)
        return sent

    def resume(self, subscription: Subscription) -> None:
        """Serve a subscription again: its page is there, or is to be asked for again."""
        self._wake(subscription)

    def _answer_drains(self, subscription: Subscription) -> None:
        """Give back the credit of consumers that drain: all available messages were sent."""
        for consumer in subscription.consumers.values():
            link = consumer.link
            if link.alive and link.draining and link.writable:
                link.drained()
                self._set_credit(consumer)

    async def finish(self) -> None:
        """Write the copies of messages given up, and begin no more; the last peer has gone."""
        self._expiry.close()
        await self._dead_letters.finish(FINISH_SECONDS)

    def close(self) -> None:
        self._dead_letters.close()
        self.paging.close()
