"""What subscriptions give up is kept: a copy in the queue of their dead letters.

The copy and the settlement lie in one group: after a crash both are there or neither, and then the
message is owed still. A peer that waits for our word on its outcome has it when that group is
durable. All methods run on the loop's thread.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distributary.ingest.commit.batches import message_at, run_of
from distributary.ingest.commit.group_log import Inside, Log, Receipt
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import Paging
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.workers import watched, went_well
from distributary.pipeline.amqp.dead_letter import Copy, DeadLetterInfo, copy, queue_of
from distributary.pipeline.dispatch.dispatcher import DeadLetter
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.message import RecordBatch, Settlement
from distributary.pipeline.model.outcome import Reason
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.policy_table import dead_letter_queue

#: Messages that are copied without a break, about 30 us each.
BREAK_MESSAGES = 64
#: Bytes of copies that wait to be durable; above it the others wait as what they are in the log.
WAITING_BYTES_MAX = 8 << 20
#: Reasons that come with an attempt which isn't among those that failed.
_IN_ONE_MORE = frozenset({Reason.REJECTED, Reason.UNDELIVERABLE})


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """Messages that one consumer ("": none) gave up at one time, and the receipt that waits for
    their copies."""

    subscription: Subscription
    consumer: str
    dead_letter: DeadLetter
    delivered_at: int
    receipt: Receipt | None


class DeadLetters:
    """Writes the copies of dead letters, in the order in which dispatchers give them up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        paging: Paging,
        ensure_queue: Callable[[Destination], SubscriptionKey],
    ) -> None:
        """`ensure_queue` makes a queue, in the pending group, if it isn't there."""
        self._loop, self._log, self._lookup, self._ensure_queue = (
            loop,
            log,
            paging.lookup(),
            ensure_queue,
        )
        self._retry_seconds = paging.retry_seconds
        self._pending: deque[_Pending] = deque()
        #: Dead letters whose messages couldn't be read: they are tried again, the others go on.
        self._unreadable: list[_Pending] = []
        self._task: asyncio.Task[None] | None = None
        self._waiting_bytes = 0
        self._written: asyncio.Event = asyncio.Event()

    def add(
        self,
        subscription: Subscription,
        consumer: str,
        given_up: Sequence[DeadLetter],
        delivered_at: int,
        receipt: Receipt | None = None,
    ) -> None:
        """Write copies of these messages; the receipt is answered when the last copy is durable."""
        last = len(given_up) - 1
        for nth, dead_letter in enumerate(given_up):
            pending = _Pending(
                subscription, consumer, dead_letter, delivered_at, receipt if nth == last else None
            )
            self._pending.append(pending)
        self._begin()

    def _begin(self) -> None:
        if self._task is None and self._pending:
            work = watched(self._run(), self._loop, "burial")
            self._task = self._loop.create_task(work)
            self._task.add_done_callback(self._ended)

    def _again(self) -> None:
        """Try once more what couldn't be read."""
        self._pending.extend(self._unreadable)
        self._unreadable.clear()
        self._begin()

    async def finish(self, seconds: float) -> None:
        """Write the copies that are known until now, for at most so many seconds."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    def close(self) -> None:
        """Stop: messages without a durable copy are owed after the next start."""
        self._pending.clear()
        self._unreadable.clear()
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        went_well(task)

    async def _run(self) -> None:
        while self._pending:
            pending = self._pending.popleft()
            try:
                await self._one(pending)
            except StoreError:  # the log says which; what is written of it stays written
                if not self._unreadable:
                    self._loop.call_later(self._retry_seconds, self._again)
                self._unreadable.append(pending)
                continue
            if pending.receipt is not None:
                self._log.confirm(pending.receipt)
                self._log.flush()
        self._lookup.forget()

    async def _one(self, pending: _Pending) -> None:
        """Find the messages of one entry, batch by batch, and write their copies."""
        run, topic = pending.dead_letter.run, pending.subscription.definition.topic
        at = 0
        while at < len(run) and not pending.subscription.ended:
            batch = await self._lookup.batch(topic, run[at], run[at] + 1)
            if batch is None:  # what retention has taken can't be copied, nor is it owed for ever
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
        """Put the copies and settlements of those messages that are still given up into one
        group. `topics` says where each was published."""
        subscription = pending.subscription
        if subscription.key is None or subscription.ended:
            return
        now = clock.now()
        reason = pending.dead_letter.reason
        attempts = pending.dead_letter.delivery_count + (reason in _IN_ONE_MORE)
        name, claimed = subscription.key.id, subscription.definition.topic
        infos = {
            topic: DeadLetterInfo(name, topic, reason, attempts, now)
            for topic in {claimed, *topics.values()}
        }
        copies: list[Copy] = []
        settlements: list[Settlement] = []
        for settled in subscription.dispatcher.dead_lettered(run):
            settlements.append(
                subscription.settlement(settled, pending.consumer, pending.delivered_at or now, now)
            )
            if batch is not None:
                copies += [
                    copy(message_at(batch, one), one, infos[topics.get(one, claimed)])
                    for one in settled.run
                ]
        if not settlements:
            return
        queue = dead_letters_of(subscription)
        self._ensure_queue(queue)
        runs = [run_of(queue.topic, copies)] if copies else []
        size = sum(len(run.blob) for run in runs)
        self._waiting_bytes += size
        self._log.write(runs, settlements, Inside())
        self._log.after(lambda: self._durable(size))

    def _durable(self, size: int) -> None:
        self._waiting_bytes -= size
        self._written.set()


def dead_letters_of(subscription: Subscription) -> Destination:
    """The queue of the subscription's dead letters."""
    assert subscription.key is not None  # noqa: S101
    own = dead_letter_queue(subscription.dispatcher.policy.dead_letter_address)
    return own or Destination(Kind.QUEUE, queue_of(subscription.key.id))
