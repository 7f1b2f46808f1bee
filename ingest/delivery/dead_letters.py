"""Copies of messages that subscriptions give up, in the queues of their dead letters.

The copy and the settlement are in one group: after a crash both are there or neither, and then the
message is still owed. A peer that waits for our settlement gets it when that group is durable. All
methods run on the loop's thread.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import structlog

from distributary.ingest.commit.batches import message_at, run_of, size_of
from distributary.ingest.commit.group_log import Inside, Log
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import Paging
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.logs import QUIET_SECONDS, SummedLines
from distributary.ingest.runtime.workers import WhileWanted
from distributary.pipeline.amqp.dead_letter import Copy, DeadLetterInfo, copy, queue_of
from distributary.pipeline.dispatch.dispatcher import DeadLetter
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.message_counts import GIVEN_UP
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.message import Settlement
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.sorting import split_expired
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.redelivery import giving_up
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.policy_table import dead_letter_queue

#: Messages that are copied without a break, about 30 us each.
BREAK_MESSAGES = 64
#: Most bytes of copies that wait to be durable; above it no further copies are made for now.
WAITING_BYTES_MAX = 8 << 20
#: Reasons that come with a last attempt, which isn't counted as failed.
_IN_ONE_MORE = frozenset({Reason.REJECTED, Reason.UNDELIVERABLE})
#: Reasons that a consumer's outcome gives.
_SAID = _IN_ONE_MORE | {Reason.EXHAUSTED}

_events = structlog.get_logger("delivery")


class _Pending(msgspec.Struct, frozen=True, eq=False):
    """Messages that one consumer ("": none) gave up at one time (`at`), and the callback for when
    their copies are in a group of the log."""

    subscription: Subscription
    consumer: str
    dead_letter: DeadLetter
    delivered_at: int
    at: int
    then: Callable[[], None] | None


class DeadLetters:
    """Writes the copies of dead letters, in the order in which dispatchers give them up."""

    def __init__(
        self,
        host: Host,
        log: Log,
        paging: Paging,
        ensure_queue: Callable[[Destination], SubscriptionKey],
    ) -> None:
        """`ensure_queue` makes a queue, in the pending group, if it isn't there."""
        loop = host.loop
        self._loop, self._log, self._log_name = loop, log, host.log
        self._lookup, self._ensure_queue = paging.lookup(), ensure_queue
        self._retry_seconds = paging.retry_seconds
        self._pending: deque[_Pending] = deque()
        #: Dead letters whose messages couldn't be read: they are tried again, later ones go on.
        self._unreadable: list[_Pending] = []
        self._work = WhileWanted(self._run, lambda: bool(self._pending), loop, "dead letters")
        self._waiting_bytes = 0
        self._lines = SummedLines(loop.time)
        self._telling: asyncio.TimerHandle | None = None
        self._written: asyncio.Event = asyncio.Event()

    def add(
        self,
        subscription: Subscription,
        consumer: str,
        given_up: Sequence[DeadLetter],
        delivered_at: int,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Write copies of these messages; `then` is called when the last copy is in the pending
        group, which is written next."""
        last, now = len(given_up) - 1, clock.now()
        for nth, one in enumerate(given_up):
            done = then if nth == last else None
            self._pending.append(_Pending(subscription, consumer, one, delivered_at, now, done))
        self._work.begin()

    def _again(self) -> None:
        """Try the unreadable dead letters once more."""
        self._pending.extend(self._unreadable)
        self._unreadable.clear()
        self._work.begin()

    async def finish(self, seconds: float) -> None:
        """Write the pending copies, for at most this time."""
        await self._work.finish(seconds)

    def close(self) -> None:
        """Stop: messages without a durable copy are owed after the next start."""
        self._pending.clear()
        self._unreadable.clear()
        if self._telling is not None:
            self._telling.cancel()
        self._work.close()

    async def _run(self) -> None:
        while self._pending:
            pending = self._pending.popleft()
            try:
                await self._one(pending)
            except StoreError:  # it was logged; copies that were written stay
                if not self._unreadable:
                    self._loop.call_later(self._retry_seconds, self._again)
                self._unreadable.append(pending)
                continue
            if pending.then is not None:
                pending.then()
                self._log.flush()
        self._lookup.forget()

    async def _one(self, pending: _Pending) -> None:
        """Find the messages of one entry, batch by batch, and write their copies."""
        run, topic = pending.dead_letter.run, pending.subscription.definition.topic
        at = 0
        while at < len(run) and not pending.subscription.ended:
            batch = await self._lookup.batch(topic, run[at], run[at] + 1)
            if batch is None:  # retention has removed the message: it is settled without a copy
                self._write(pending, None, run[at : at + 1], {})
                at += 1
                continue
            stop = min(bisect_left(run, batch.stop, lo=at), at + BREAK_MESSAGES)
            topics = await self._lookup.topics(topic, run[at:stop])
            self._write(pending, batch, run[at:stop], topics)
            at = stop
            await self._turn()

    async def _turn(self) -> None:
        """Let other work go on; wait while too many bytes of copies wait to be written."""
        self._log.flush()
        await asyncio.sleep(0)
        while self._waiting_bytes > WAITING_BYTES_MAX:
            self._written.clear()
            await self._written.wait()

    def _write(
        self, pending: _Pending, batch: RecordBatch | None, run: Run, topics: dict[int, str]
    ) -> None:
        """End those of these messages that are still given up. A message that was past its expiry
        counts as expired, whatever the consumer's outcome. `topics` has each message's topic."""
        reason = pending.dead_letter.reason
        if batch is None or reason not in _SAID:
            self._end(pending, reason, batch, run, topics)
            return
        rest, expired = split_expired(run, batch.attributes, pending.at)
        for why, part in ((reason, rest), (Reason.EXPIRED, expired)):
            if part:
                self._end(pending, why, batch, part, topics)

    def _end(
        self,
        pending: _Pending,
        why: Reason,
        batch: RecordBatch | None,
        run: Run,
        topics: dict[int, str],
    ) -> None:
        """Put the copies, if any are to be kept, and settlements of those messages that are still
        given up into one group."""
        subscription, said = pending.subscription, pending.dead_letter.reason
        if subscription.key is None or subscription.ended:
            return
        now, dispatcher = clock.now(), subscription.dispatcher
        keeps = why is said or giving_up.keeps(dispatcher.policy, why)
        consumer, delivered_at = pending.consumer, pending.delivered_at or now
        if said is Reason.EXHAUSTED and not keeps:
            consumer, delivered_at = "", now  # the last attempt is recorded by itself already
        outcome = Outcome.DEAD_LETTERED if keeps else giving_up.OUTCOMES[why]
        settlements = [
            subscription.settlement(settled, consumer, delivered_at, now)
            for settled in dispatcher.dead_lettered(run, outcome)
        ]
        if not settlements:
            return
        if batch is not None and outcome in GIVEN_UP:
            ended = (run for one in settlements for run in one.sequences)
            subscription.counts.give_up(outcome, sum(size_of(batch, some) for some in ended))
        if not keeps:
            self._log.write((), settlements, Inside())
            return
        self._keep(pending, why, batch, settlements, topics)

    def _keep(
        self,
        pending: _Pending,
        why: Reason,
        batch: RecordBatch | None,
        settlements: list[Settlement],
        topics: dict[int, str],
    ) -> None:
        """Put the settlements and the copies of their messages into one group."""
        subscription, now = pending.subscription, settlements[0].settled_at
        said = pending.dead_letter.reason
        attempts = pending.dead_letter.delivery_count + (said in _IN_ONE_MORE)
        name, claimed = settlements[0].subscription, subscription.definition.topic
        infos = {
            topic: DeadLetterInfo(name, topic, why, attempts, now)
            for topic in {claimed, *topics.values()}
        }
        copies: list[Copy] = []
        if batch is not None:
            copies = [
                copy(message_at(batch, one), one, infos[topics.get(one, claimed)])
                for settlement in settlements
                for run in settlement.sequences
                for one in run
            ]
        queue = dead_letters_of(subscription, self._log_name)
        self._ensure_queue(queue)
        runs = [run_of(queue.topic, copies)] if copies else []
        size = sum(len(run.blob) for run in runs)
        self._waiting_bytes += size
        subscription.copying += len(copies)
        self._log.after(partial(self._durable, subscription, len(copies), size))
        self._log.write(runs, settlements, Inside())  # which may close the group
        self._tell((name, queue.topic, why.value), len(copies))

    def _durable(self, subscription: Subscription, count: int, size: int) -> None:
        subscription.copying -= count
        self._waiting_bytes -= size
        self._written.set()

    def _tell(self, kind: tuple[str, ...], count: int) -> None:
        """Log the first dead letters of a kind at once, and sum up later ones."""
        if count:
            self._lines.add(kind, count)
        for (subscription, queue, reason), messages in self._lines.due():
            _events.warning(
                "messages.dead_lettered",
                subscription=subscription,
                queue=queue,
                reason=reason,
                messages=messages,
            )
        if self._lines.waits and self._telling is None:
            self._telling = self._loop.call_later(QUIET_SECONDS, self._tell_more)

    def _tell_more(self) -> None:
        self._telling = None
        self._tell((), 0)


def dead_letters_of(subscription: Subscription, log: str) -> Destination:
    """Return the queue of a subscription's dead letters in this log."""
    assert subscription.key is not None  # noqa: S101
    own = dead_letter_queue(subscription.dispatcher.policy.dead_letter_address)
    return own or Destination(Kind.QUEUE, queue_of(subscription.key.id, log))
