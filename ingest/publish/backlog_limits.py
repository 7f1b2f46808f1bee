"""Limits of backlogs: publishers are refused, or the oldest messages are given up.

A limit is part of a subscription's policy. The room of a topic is measured again only when the last
measured room is used up, so most messages cost a subtraction. All methods run on the loop's thread.
"""

import asyncio
from array import array
from bisect import bisect_left

import msgspec
import structlog

from distributary.ingest.commit.group_log import Log
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.delivery_service import DeliveryService
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.native.batch_reader import BatchReader
from distributary.ingest.native.pump import Pump
from distributary.ingest.publish.backlog_counters import BacklogCounters
from distributary.ingest.publish.overflow_rule import OverflowRule
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.logs import SummedLines
from distributary.ingest.runtime.workers import WhileWanted
from distributary.pipeline.dispatch.dispatcher import FOREVER
from distributary.pipeline.errors import SelectorFailed, StoreError
from distributary.pipeline.log.backlog_counter import BacklogCounter, Volume
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError
from distributary.pipeline.model.outcome import Reason
from distributary.pipeline.model.policy import Backlog, Overflow
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.topic_pattern import is_pattern, matches
from distributary.pipeline.selector.matching import Selections
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

_events = structlog.get_logger("gateway")

_NO_LIMIT = 1 << 62  # more than anything counts
#: Messages that a selector evaluates in one step, about 5 us each.
_LOOK_AT = 400
_TOPICS_MAX = 10_000  # whose limited subscriptions are cached


class _Room(msgspec.Struct, eq=False):
    """The room in the fullest backlog of some subscriptions of a topic: messages and bytes, valid
    until a time. `full` names that subscription and its limit, for people."""

    subscriptions: list[Subscription] = msgspec.field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    until: int = 0
    full: str = ""

    def take(self, messages: int, size: int) -> bool:
        """Take this much of the room if it fits; return whether it did."""
        if messages > self.messages or size > self.bytes:
            return False
        self.messages -= messages
        self.bytes -= size
        return True


class _Topic(msgspec.Struct, eq=False):
    """The limited subscriptions of a topic, by their `Overflow`. `shared`: some have a pattern, so
    other topics' messages take their room, too, and it is measured each time."""

    refusing: _Room = msgspec.field(default_factory=_Room)
    dropping: _Room = msgspec.field(default_factory=_Room)
    shared: bool = False


class Backlogs:
    """The limits of all backlogs. The delivery service gives up the messages beyond them."""

    def __init__(
        self,
        host: Host,
        log: Log,
        topic_directory: TopicDirectory,
        delivery: DeliveryService,
        pump: Pump,
    ) -> None:
        self._loop, self._log, self._topic_directory = host.loop, log, topic_directory
        self._delivery, self._pump, self._faults = delivery, pump, delivery.faults
        self.counters = BacklogCounters(topic_directory)
        self.overflow = OverflowRule(topic_directory, host.log)
        #: Whether publishers may be refused: then the pump accepts nothing on receipt.
        self.refuses = False
        self._lookup, self._retry_seconds = delivery.paging.lookup(), delivery.paging.retry_seconds
        self._selections = Selections(BatchReader)
        #: By subscription with a selector: the sequence below which unclaimed ones are excluded.
        self._filtered: dict[Subscription, int] = {}
        self._topics: dict[str, _Topic | None] = {}  # None: it has no limits
        #: Messages and bytes of each topic that were admitted and aren't in the log yet.
        self._admitted: dict[str, tuple[int, int]] = {}
        # Topics with too much, and those with limits by age.
        self._over, self._aging = dict[str, None](), dict[str, None]()
        self._work = WhileWanted(self._drop, lambda: bool(self._over), self._loop, "backlogs")
        self._seconds = host.settings.delivery.expiry_scan_ms / 1_000
        self._overflows = SummedLines(host.loop.time)
        self._timer = host.loop.call_later(self._seconds, self._scan)

    def seed(self, table: TopicLog, since: int) -> None:
        """Count the table's messages from this sequence on; without limits the start doesn't wait
        for that."""
        subscriptions = tuple(self._topic_directory.all())
        if any(one.dispatcher.policy.backlog.limits for one in subscriptions):
            self.counters.seed(table.volumes(since))
        else:
            self.counters.seed_slowly(self._loop, table, since)
        for subscription in subscriptions:
            self.changed(subscription)

    def close(self) -> None:
        self._timer.cancel()
        self.counters.close()
        self._work.close()

    def changed(self, subscription: Subscription) -> None:
        """Note that a subscription was added, has ended, or has another policy or position."""
        topic, limit = subscription.definition.topic, subscription.dispatcher.policy.backlog
        if is_pattern(topic):
            self._topics.clear()
        self._topics.pop(topic, None)
        for queue in self.overflow.changed(topic):
            self._topics.pop(queue, None)
            self._begin(queue)
        self._filtered.pop(subscription, None)
        self.counters.changed(subscription)
        if limit.limits and not subscription.ended and subscription.stream is None:
            if self.overflow.of(subscription) is Overflow.REFUSE:
                self._refuse()
            else:
                self._begin(topic)

    def _refuse(self) -> None:
        self.refuses = True
        self._pump.accept_late()

    def _of(self, topic: str) -> _Topic | None:
        if topic in self._topics:
            return self._topics[topic]
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        found = _Topic()
        for subscription in self._topic_directory.owed(topic):
            limit = subscription.dispatcher.policy.backlog
            if limit.limits and subscription.stream is None:
                found.shared |= subscription.definition.topic != topic
                refuses = self.overflow.of(subscription) is Overflow.REFUSE
                (found.refusing if refuses else found.dropping).subscriptions.append(subscription)
                if limit.age_ms_max and not refuses:
                    self._aging[topic] = None
        if found.refusing.subscriptions and not self.refuses:
            self._refuse()
        any_limited = found.refusing.subscriptions or found.dropping.subscriptions
        self._topics[topic] = one = found if any_limited else None
        return one

    # Publishers.

    def admit(self, topic: str, lengths: bytes) -> tuple[int, AmqpError | None]:
        """Return how many of the first messages of these lengths (uint32 each) the topic takes, and
        why no more, if any is refused. The caller publishes these, then calls `published`."""
        count = len(lengths) // 4
        found = self._of(topic)
        if found is None or not found.refusing.subscriptions:
            return count, None
        room, sizes = found.refusing, array("I", lengths)
        now, taken = clock.now(), 0
        if not found.shared and now < room.until and room.take(count, sum(sizes)):
            taken = count
        else:
            self._measure(topic, room, now)
            while taken < count and room.take(1, sizes[taken]):
                taken += 1
        messages, size = self._admitted.get(topic, (0, 0))
        self._admitted[topic] = (messages + taken, size + sum(sizes[:taken]))
        if taken == count:
            return count, None
        if any(one.definition.selector for one in room.subscriptions):
            self._begin(topic)  # the real backlog may be smaller than the counted one
        return taken, AmqpError(LIMIT_EXCEEDED, f"the backlog of {room.full}; try again later")

    def published(self) -> None:
        """Forget the admitted messages: they were given to the log, or won't be."""
        self._admitted.clear()

    def _measure(self, topic: str, room: _Room, now: int) -> None:
        """Measure the room, less the messages on their way to the disk."""
        coming = {topic: self._coming(topic)}
        room.messages = room.bytes = room.until = _NO_LIMIT
        for subscription in room.subscriptions:
            limit, has = subscription.dispatcher.policy.backlog, self.counters.waiting(subscription)
            before, word = (room.messages, room.bytes, room.until), subscription.definition.topic
            messages, size = coming[word] if word in coming else self._coming(word)
            counter = self.counters.of(word)
            if limit.messages_max:
                room.messages = min(room.messages, limit.messages_max - has.messages - messages)
            if limit.bytes_max:
                room.bytes = min(room.bytes, limit.bytes_max - has.bytes - size)
            if limit.age_ms_max:
                # If no message waits, the next one will be the oldest.
                first = counter.published_at(subscription.dispatcher.floor) if counter else None
                if first is None or not has.messages:
                    first = now
                room.until = min(room.until, first + 1_000 * limit.age_ms_max)
            if before != (room.messages, room.bytes, room.until):
                room.full = _full(subscription, limit)
        if room.until <= now:
            room.messages = 0
        room.messages, room.bytes = max(room.messages, 0), max(room.bytes, 0)

    def _coming(self, word: str) -> tuple[int, int]:
        """Return messages and bytes of a topic or pattern that are on their way to the disk."""
        messages, size = self._log.coming(word)
        for topic, (some, their_size) in self._admitted.items():
            if matches(word, topic):
                messages, size = messages + some, size + their_size
        return messages, size

    # Messages beyond the limits.

    def arrived(self, topic: str, batch: RecordBatch, at: int) -> None:
        """Count durable messages, which were published at this time."""
        self.counters.arrived(topic, batch, at)
        found = self._of(topic)
        if found is not None and found.dropping.subscriptions:
            room = found.dropping
            if found.shared or not room.take(batch.count, len(batch.blob)):
                self._begin(topic)

    def _scan(self) -> None:
        """Look for messages that have become too old; log and trim the counts."""
        self._timer = self._loop.call_later(self._seconds, self._scan)
        for (subscription,), count in self._overflows.due():
            _events.warning("backlog.overflowed", subscription=subscription, dropped=count)
        self.counters.trim()
        for topic in tuple(self._aging):
            found = self._of(topic)
            if found is None or not found.dropping.subscriptions:
                del self._aging[topic]
            else:
                self._begin(topic)

    def _begin(self, topic: str) -> None:
        self._over[topic] = None
        self._work.begin()

    async def _drop(self) -> None:
        while self._over:
            topic = next(iter(self._over))
            del self._over[topic]
            found = self._of(topic)
            if found is None:
                continue
            try:
                for subscription in (*found.refusing.subscriptions, *found.dropping.subscriptions):
                    if subscription.definition.selector is not None:
                        await self._filter_or_wait(subscription)
                for subscription in found.dropping.subscriptions:
                    await self._fit(subscription)
            except StoreError:  # it was logged
                self._loop.call_later(self._retry_seconds, self._begin, topic)
            self._measure(topic, found.dropping, 0)
        self._lookup.forget()

    async def _fit(self, subscription: Subscription) -> None:
        """Give up the oldest messages that aren't in flight, until the rest fits."""
        dispatcher, topic = subscription.dispatcher, subscription.definition.topic
        at = dispatcher.floor
        while not subscription.ended and self._is_full(subscription):
            batch = await self._lookup.batch(topic, at, self._log.recent.head)
            if batch is None:
                return
            run = _listed(batch, at)
            some = self._too_much(subscription, batch, run)
            if some:
                self._delivery.give_up(subscription, some, Reason.OVERFLOW)
                self._overflows.add((name_of(subscription),), len(some))
            elif run:
                return  # later messages aren't too old either
            at = some[-1] + 1 if len(some) < len(run) else batch.stop
            await asyncio.sleep(0)

    async def _filter_or_wait(self, subscription: Subscription) -> None:
        """Filter as `_filter` does; if the selector fails, log it and go on."""
        try:
            await self._filter(subscription)
        except SelectorFailed as failure:
            self._faults.tell(subscription, failure)

    async def _filter(self, subscription: Subscription) -> None:
        """Exclude messages that its selector doesn't claim, so that they aren't counted."""
        dispatcher, definition = subscription.dispatcher, subscription.definition
        at = max(dispatcher.position, self._filtered.get(subscription, 0))
        self._filtered[subscription] = at
        head = self._log.recent.head
        while not subscription.ended:
            batch = await self._lookup.batch(definition.topic, at, head)
            if subscription not in self._filtered:
                return  # it has another position meanwhile: begin anew another time
            if batch is None:
                self._filtered[subscription] = head
                return
            self._selections.join(definition)
            try:
                found = self._selections.matches(
                    definition, batch, at, room=_LOOK_AT, work_max=_LOOK_AT
                )
            finally:
                self._selections.leave(definition)
            selected = frozenset(found.sequences or ())
            for one in _listed(batch, max(at, dispatcher.position)):
                if one < found.stop and one not in selected:
                    dispatcher.exclude(range(one, one + 1))
            self._filtered[subscription] = at = found.stop
            await asyncio.sleep(0)

    def _is_full(self, subscription: Subscription) -> bool:
        limit, has = subscription.dispatcher.policy.backlog, self._surely(subscription)
        if limit.messages_max and has.messages > limit.messages_max:
            return True
        if limit.bytes_max and has.bytes > limit.bytes_max:
            return True
        floor = subscription.dispatcher.floor
        return bool(limit.age_ms_max) and self._too_old(subscription) > floor

    def _surely(self, subscription: Subscription) -> Volume:
        """Return a lower bound of its backlog, without messages that its selector hasn't evaluated:
        its oldest messages must not be given up for messages that it may not claim."""
        looked = FOREVER
        if subscription.definition.selector is not None:
            looked = self._filtered.get(subscription, 0)
        return self.counters.surely(subscription, looked)

    def _counter(self, subscription: Subscription) -> BacklogCounter | None:
        return self.counters.of(subscription.definition.topic)

    def _too_old(self, subscription: Subscription) -> int:
        """Return the sequence below which all messages are too old."""
        counter = self._counter(subscription)
        if counter is None:
            return 0
        age = 1_000 * subscription.dispatcher.policy.backlog.age_ms_max
        return counter.older(clock.now() - age)

    def _too_much(self, subscription: Subscription, batch: RecordBatch, run: Run) -> Run:
        """Return the first ones of these messages that are too many, too large or too old."""
        limit, has = subscription.dispatcher.policy.backlog, self._surely(subscription)
        count = 0
        if limit.messages_max:
            count = max(has.messages - limit.messages_max, 0)
        if limit.bytes_max and has.bytes > limit.bytes_max:
            over, some = has.bytes - limit.bytes_max, 0
            sizes = _sizes(batch, run)
            while some < len(sizes) and over > 0:
                over -= sizes[some]
                some += 1
            count = max(count, some)
        if limit.age_ms_max:
            count = max(count, bisect_left(run, self._too_old(subscription)))
        return run[:count]


def name_of(subscription: Subscription) -> str:
    """Return a subscription's name in the log and in refusals."""
    return subscription.key.id if subscription.key is not None else "a consumer of its own"


def _full(subscription: Subscription, limit: Backlog) -> str:
    """Return the sentence for a full backlog: the subscription and its limits."""
    name = name_of(subscription)
    most = (
        (limit.messages_max, "messages"),
        (limit.bytes_max, "bytes"),
        (limit.age_ms_max, "ms of age"),
    )
    words = ", ".join(f"{number} {unit}" for number, unit in most if number)
    return f"{name} is full (at most {words})"


def _listed(batch: RecordBatch, start: int) -> Run:
    """Return the batch's messages from this sequence on."""
    listed = batch.sequences
    if listed is None:
        return range(max(batch.first, start), batch.stop)
    return listed[bisect_left(listed, start) :]


def _sizes(batch: RecordBatch, run: Run) -> list[int]:
    """Return the bytes of each of these messages of the batch."""
    offsets = memoryview(batch.offsets).cast("B").cast("i")
    listed = batch.sequences or range(batch.first, batch.stop)
    places = [bisect_left(listed, sequence) for sequence in run]
    return [offsets[place + 1] - offsets[place] for place in places]
