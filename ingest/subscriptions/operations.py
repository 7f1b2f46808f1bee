"""Operators' operations on durable subscriptions: decided by the pure part
(`pipeline.subscriptions.subscription_operations`), performed here, answered when durable.

All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, assert_never
from weakref import WeakValueDictionary

import msgspec
import structlog

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.net.link import Link
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.queue_emptiness import empty_below, empty_since
from distributary.ingest.runtime.workers import Worker
from distributary.ingest.subscriptions.seek import Seek
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.log.log_position import AtEnd, AtSequence, AtTime, Place
from distributary.pipeline.model.amqp_error import (
    DELETED,
    INVALID_FIELD,
    PRECONDITION_FAILED,
    AmqpError,
)
from distributary.pipeline.model.policy import DEFAULT
from distributary.pipeline.model.subscription import (
    Definition,
    Made,
    Origin,
    SubscriptionEvent,
    SubscriptionKey,
)
from distributary.pipeline.subscriptions.policy_table import dead_letter_queue, of_text, over
from distributary.pipeline.subscriptions.subscription_operations import (
    Deed,
    Operation,
    Standing,
    decide,
    new_floor,
    standing,
)

#: An operator intervened to detach the link (AMQP 1.0, 2.8.17).
DETACH_FORCED = "amqp:link:detach-forced"

#: Result of an operation, by name.
Facts: TypeAlias = Mapping[str, Writable]


_END = AtEnd()
_events = structlog.get_logger("gateway")


class Order(msgspec.Struct, frozen=True):
    """An operation on the subscription of this key. `place` is the target of a rewind or a skip,
    or the place where a new subscription begins; `definition` is that of a new one, `policy` the
    text of its own policy. `from_what_is_there`: a new one may begin later than `place`, where
    the log begins. `user` has ordered it. `consumer`: the one whose links end; empty: all."""

    operation: Operation
    key: SubscriptionKey
    place: Place = _END
    definition: Definition | None = None
    policy: str = ""
    from_what_is_there: bool = False
    user: str = ""
    consumer: str = ""


class Links(Protocol):
    """The gateway's links, as operations ask for them."""

    def producers(self, topic: str) -> list[Link]:
        """Return the links that send to this topic or queue."""


class Operations:
    """Performs orders. Two orders for one subscription are performed one after the other."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        parts: MessageParts,
        directory: SubscriptionDirectory,
        links: Links,
        logs_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        """`logs_of` returns the logs of a destination or pattern."""
        self._loop, self._log, self._table, self._directory = (
            loop,
            parts.log,
            parts.store.table,
            directory,
        )
        self._delivery, self._links, self._logs_of = parts.delivery, links, logs_of
        self._counters = parts.backlogs.counters
        #: Reads of the table for which an operator waits.
        self._reads: Worker[Any] = Worker("operations", loop)
        self._seek = Seek(parts, directory, self._reads)
        #: One order for a subscription after the other.
        self._locks: WeakValueDictionary[SubscriptionKey, asyncio.Lock] = WeakValueDictionary()

    async def perform(self, order: Order) -> Facts | AmqpError:
        """Perform the order, or return why it is refused; on return it is durable. Raises
        StoreError when the table can't be read."""
        lock = self._locks.setdefault(order.key, asyncio.Lock())
        async with lock:
            to = await self._sequence(order.place, from_what_is_there=order.from_what_is_there)
            return to if isinstance(to, AmqpError) else await self._perform(order, to)

    async def _perform(self, order: Order, to: int | None) -> Facts | AmqpError:
        key = order.key
        empty = await self._empty_below(order)
        while not self._directory.sure(key):
            await self._seek.durable()
        subscription = self._directory.get(key) if key.durable else None
        deed = decide(
            order.operation,
            self._standing(subscription, empty),
            key,
            paused=self._directory.paused(key),
        )
        if isinstance(deed, AmqpError):
            return deed
        if (wrong := self._unreachable_letters(order, subscription)) is not None:
            return wrong
        if subscription is None:
            assert deed is Deed.CREATE, deed  # noqa: S101
            return await self._create(order, to)
        return await self._do(order, deed, subscription, to)

    def _unreachable_letters(
        self, order: Order, subscription: Subscription | None
    ) -> AmqpError | None:
        """Return why a policy is refused that would keep dead letters where no consumer of their
        queue gets them: a dead letter is in one group with its settlement, so in its log. An
        address that the policy has already is let be, so that its other keys can change."""
        definition = order.definition or (subscription.definition if subscription else None)
        address = letters_of(order.policy, order.key)
        queue = dead_letter_queue(address)
        if definition is None or queue is None:
            return None
        own = self._directory.own_policy(order.key)
        if subscription and address == letters_of(own, order.key):
            return None
        where = self._logs_of(queue.topic)
        if not (others := [log for log in self._logs_of(definition.topic) if log not in where]):
            return None
        text = f"'dead_letter_address' is in the log {', '.join(where)}, and messages of "
        text += f"{definition.topic} are in {', '.join(others)}, where their dead letters stay. "
        return AmqpError(INVALID_FIELD, f"{text}Place that queue as the topic is, or leave it out")

    def close(self) -> None:
        self._reads.leave()

    async def _empty_below(self, order: Order) -> int | None:
        """Return the sequence below which a queue that is to be deleted is owed nothing; None if it
        is owed a message."""
        subscription = self._directory.get(order.key)
        if order.operation is not Operation.DELETE or not order.key.queue or subscription is None:
            return None
        return await empty_below(subscription, self._log, self._delivery.paging)

    def _standing(self, subscription: Subscription | None, empty: int | None) -> Standing:
        if subscription is None:
            return Standing.ABSENT
        queue = subscription.key is not None and subscription.key.queue
        senders = len(self._links.producers(subscription.definition.topic)) if queue else 0
        return standing(
            present=True,
            users=len(subscription.consumers) + senders,
            queue=queue,
            owed=empty is None or not empty_since(subscription, self._log, empty),
        )

    async def _sequence(self, place: Place, *, from_what_is_there: bool) -> int | AmqpError | None:
        """Return the sequence at a place; None for the end, wherever that is when it is used."""
        match place:
            case AtEnd():
                return None
            case AtSequence(sequence):
                return sequence
            case AtTime(at):
                committed = self._table.sequence_version
                newer = self._log.moments.first_at(at, committed)
                found = await self._committed_at(at)
                if found >= committed:
                    return self._log.next_sequence if newer is None else newer
                beyond = found and found == self._table.first_sequence
                if beyond and not from_what_is_there:
                    return AmqpError(
                        PRECONDITION_FAILED,
                        "that time is beyond retention: the earliest message that is kept has "
                        f"sequence {found} and was published at or after it, "
                        f"on {self._table.first_day}",
                    )
                return found
            case _ as never:
                assert_never(never)

    async def _committed_at(self, at: int) -> int:
        """Return the first sequence in the table that was published at or after a time."""
        found: int = await self._reads.ask(lambda: self._table.first_sequence_at(at))
        return found

    async def _create(self, order: Order, to: int | None) -> Facts | AmqpError:
        assert order.definition is not None  # noqa: S101
        first, head = self._table.first_sequence, self._log.next_sequence
        wanted = head if to is None else to
        if order.from_what_is_there:
            wanted = max(wanted, first)
        floor = new_floor(order.operation, wanted, floor=wanted, first=first, head=head)
        if isinstance(floor, AmqpError):
            return floor  # the sequence isn't there
        created = self._directory.define(
            SubscriptionEvent.CREATED,
            order.key,
            order.definition,
            Made(Origin.OPERATOR, order.user),
            policy=order.policy,
            floor=None if to is None else floor,
        )
        if floor < head:
            return await self._seek.begin_before(created, floor, whole=not order.from_what_is_there)
        await self._seek.durable()
        return {"floor": floor}

    async def _do(
        self, order: Order, deed: Deed, subscription: Subscription, to: int | None
    ) -> Facts | AmqpError:
        match deed:
            case Deed.NOTHING:
                return {}
            case Deed.CONFIGURE:
                self._directory.configure(subscription, order.policy, by=order.user)
                await self._seek.durable()
            case Deed.PAUSE | Deed.RESUME:
                paused = deed is Deed.PAUSE
                self._directory.pause(subscription, paused=paused, by=order.user)
                await self._seek.durable()
                self._seek.serve(subscription)
            case Deed.MOVE:
                return await self._seek.move(order.operation, subscription, to, order.user)
            case Deed.END_LINKS:
                links = self._end_consumers(subscription, DETACH_FORCED, "closed", order.consumer)
                facts = {"subscription": order.key.id, "consumer": order.consumer, "links": links}
                _events.info("subscription.closed", **facts, by=order.user)
                return {"links": links}
            case Deed.DELETE | Deed.END_AND_DELETE:
                links = self._end_users(subscription)
                dropped = self._counters.owed_below(subscription)
                self._directory.delete(subscription, by=order.user, dropped=dropped)
                await self._seek.durable()
                return {"links": links, **dropped.facts}
            case Deed.CREATE | Deed.REDRIVE:
                raise AssertionError(deed)  # one has no subscription, `Redrive` does the other
            case _ as never:
                assert_never(never)
        return {}

    def _end_consumers(
        self, subscription: Subscription, condition: str, done: str, name: str = ""
    ) -> int:
        assert subscription.key is not None  # noqa: S101
        every = tuple(subscription.consumers.values())
        consumers = [one for one in every if not name or one.name == name]
        for consumer in consumers:
            text = f"an operator has {done} {consumer.name if name else subscription.key.id}"
            consumer.link.end(condition, text)
        return len(consumers)

    def _end_users(self, subscription: Subscription) -> int:
        """End links of consumers and producers: messages sent to a deleted queue would be lost."""
        assert subscription.key is not None  # noqa: S101
        ended = self._end_consumers(subscription, DELETED, "deleted")
        topic = subscription.definition.topic
        producers = self._links.producers(topic) if subscription.key.queue else []
        for link in producers:
            link.end(DELETED, f"'{topic}' has been deleted")
        return ended + len(producers)


def letters_of(policy: str, key: SubscriptionKey) -> str:
    """Return the address of dead letters in a policy's text, which was checked before."""
    return over(DEFAULT, of_text(policy, key.id), key.id).dead_letter_address
