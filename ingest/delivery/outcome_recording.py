"""Recording of outcomes: dispatchers' settlements go to the pending group, messages given up become
dead letters; and the answers to peers that wait until the outcomes are durable.

Rule: a peer that ends a link, a session or its connection is answered when the outcomes that it
      gave there are durable, or after a while with an error that says that this isn't known. If no
      outcome waits the answer comes at once. All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

import msgspec

from distributary.ingest.commit.batches import size_of
from distributary.ingest.commit.group_log import Log, Receipt, answer
from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.delivery.dead_letters import DeadLetters
from distributary.ingest.net.link import Link
from distributary.ingest.runtime.host import Host
from distributary.pipeline.dispatch.dispatcher import DeadLetter, Deliver, Effect, Settled
from distributary.pipeline.log.message_counts import GIVEN_UP
from distributary.pipeline.model.record_batch import RecordBatch


class AnswerDue(msgspec.Struct, frozen=True):
    """Tells the message loop that an answer had waited for too long, and was given."""


class _Waiting(msgspec.Struct, eq=False):
    """An answer that waits for the outcomes given on these links; `timer` bounds the wait."""

    links: tuple[Link, ...]
    say: Callable[[str], None]
    timer: asyncio.TimerHandle | None = None


class OutcomeRecording:
    """Records the outcomes of all subscriptions."""

    def __init__(
        self,
        host: Host,
        log: Log,
        dead_letters: DeadLetters,
        complete: Callable[[AnswerDue], None],
    ) -> None:
        """`complete` is called when a timer has given an answer."""
        self._loop, self._log, self._dead_letters = host.loop, log, dead_letters
        self._traces = host.traces
        self._ms_max = host.settings.amqp.close_answer_ms_max
        self._complete = complete
        #: Answers that wait for copies of messages given up.
        self._for_copies: dict[_Waiting, None] = {}

    def concluded(
        self,
        consumer: Consumer,
        effects: Sequence[Settled | DeadLetter],
        delivered_at: int,
        now: int,
        receipt: Receipt | None,
    ) -> None:
        """Record a dispatcher's effects of a consumer's outcomes; the receipt is answered when they
        are durable."""
        subscription, link = consumer.subscription, consumer.link
        given_up = self._recorded(subscription, consumer.name, effects, delivered_at, now)
        if effects and subscription.durable:
            link.outcomes_in = self._log.forming
        if given_up:
            link.unburied += 1
            then = partial(self._copied, link, receipt)
            self._dead_letters.add(subscription, consumer.name, given_up, delivered_at, then)
        elif receipt is not None and subscription.durable:
            self._log.confirm(receipt)
        elif receipt is not None:
            answer(receipt, 0)

    def left(
        self,
        subscription: Subscription,
        name: str,
        effects: Sequence[Settled | DeadLetter],
        delivered_at: int,
        now: int,
    ) -> None:
        """Record a dispatcher's effects of the end of the consumer `name`, or of deliveries that a
        transaction had of it; no peer waits for an answer."""
        given_up = self._recorded(subscription, name, effects, delivered_at, now)
        if given_up:
            self._dead_letters.add(subscription, name, given_up, delivered_at)

    def perform(
        self,
        subscription: Subscription,
        effects: Sequence[Effect],
        now: int,
        batch: RecordBatch | None = None,
    ) -> None:
        """Record effects that no peer's outcome has caused. `batch` has the messages, if they are
        at hand; expired messages always are."""
        given_up: list[DeadLetter] = []
        for effect in effects:
            match effect:
                case Settled(consumer=number):
                    self._record(subscription, subscription.consumer_name(number), effect, now, now)
                    if batch is not None and effect.outcome in GIVEN_UP:
                        subscription.counts.give_up(effect.outcome, size_of(batch, effect.run))
                case DeadLetter():
                    given_up.append(effect)
                case Deliver():
                    raise AssertionError(f"{effect} without messages at hand")
        for number, same in groupby(given_up, lambda dead_letter: dead_letter.consumer):
            self._dead_letters.add(
                subscription, subscription.consumer_name(number), list(same), now
            )

    def when_durable(self, links: tuple[Link, ...], say: Callable[[str], None]) -> None:
        """Call `say` with "" when the outcomes given on these links are durable, perhaps at once;
        with a sentence if that takes too long. `say` raises nothing."""
        if self._durable(links):
            say("")
            return
        waiting = _Waiting(links, say)
        waiting.timer = self._loop.call_later(
            self._ms_max / 1_000, links[0].later(partial(self._late, waiting))
        )
        self._wait(waiting)

    def _durable(self, links: tuple[Link, ...]) -> bool:
        return not any(one.unburied or not self._log.durable(one.outcomes_in) for one in links)

    def _wait(self, waiting: _Waiting) -> None:
        if any(link.unburied for link in waiting.links):
            self._for_copies[waiting] = None
            return
        last = max(link.outcomes_in for link in waiting.links)
        self._log.when_durable(last, partial(self._look, waiting))

    def _look(self, waiting: _Waiting) -> None:
        if waiting.timer is None:
            return
        if not self._durable(waiting.links):
            self._wait(waiting)
            return
        waiting.timer.cancel()
        waiting.timer = None
        waiting.say("")

    def _late(self, waiting: _Waiting) -> None:
        waiting.timer = None
        self._for_copies.pop(waiting, None)
        waiting.say(
            "the outcomes that came before are not durable yet: their messages may come again "
            f"(amqp.close_answer_ms_max is {self._ms_max})"
        )
        self._complete(AnswerDue())

    def _copied(self, link: Link, receipt: Receipt | None) -> None:
        """Go on with an outcome whose messages' copies are in the pending group."""
        link.unburied -= 1
        link.outcomes_in = self._log.forming
        if receipt is not None:
            self._log.confirm(receipt)
        waiting, self._for_copies = self._for_copies, {}
        for one in waiting:
            self._look(one)

    def _recorded(
        self,
        subscription: Subscription,
        name: str,
        effects: Sequence[Settled | DeadLetter],
        delivered_at: int,
        now: int,
    ) -> list[DeadLetter]:
        """Record settlements; return the effects that are to become dead letters."""
        given_up: list[DeadLetter] = []
        for one in effects:
            if isinstance(one, DeadLetter):
                given_up.append(one)
            else:
                self._record(subscription, name, one, delivered_at, now)
        return given_up

    def _record(
        self, subscription: Subscription, consumer: str, settled: Settled, delivered: int, now: int
    ) -> None:
        if subscription.durable:
            self._log.settle(subscription.settlement(settled, consumer, delivered, now))
        else:
            subscription.counts.settle(settled.outcome, len(settled.run))
            if self._traces is not None:
                self._traces.settled(
                    subscription.trace_key,
                    settled.run,
                    settled.outcome,
                    final=settled.final,
                    delivered_at=delivered,
                    at=now,
                )
