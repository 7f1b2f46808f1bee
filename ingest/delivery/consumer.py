"""Consumers and their subscriptions, with the delivery service's state of them."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import msgspec

from distributary.ingest.net.link import Link
from distributary.pipeline.dispatch.dispatcher import DeadLetter, Dispatcher, Settled
from distributary.pipeline.log.memory_stream import MemoryStream
from distributary.pipeline.log.message_counts import SubscriptionCounts
from distributary.pipeline.model.message import Settlement
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.hint import Hint
from distributary.pipeline.subscriptions.registry import LinkKind
from distributary.pipeline.tracing.tracer import Reader


class Consumer(msgspec.Struct, eq=False):
    """One outgoing link and its subscription."""

    number: int
    link: Link
    name: str
    kind: LinkKind
    subscription: "Subscription"
    presettled: bool
    #: Its own selector, over messages that its subscription is owed; None: it wants all of them.
    selector: str | None = None
    #: Its credit is cut, as it may hold only so many deliveries unsettled.
    cut: bool = False
    #: Why the next message is too large for it: its link ends when it holds no deliveries more.
    too_large: str = ""

    @property
    def reader(self) -> Reader:
        """This consumer in the form that the tracer takes."""
        subscription = self.subscription
        name = subscription.id
        topic, stream = subscription.definition.topic, subscription.stream
        return Reader(subscription.trace_key, name, topic, stream, self.name)

    @property
    def left(self) -> bool:
        """Whether it has been detached; its link may live on until its peer has all answers."""
        return self.number not in self.subscription.consumers


class Pages(msgspec.Struct, eq=False):
    """Older messages of one subscription, read from the table: those of `covered` (a range of
    sequences) that are still to be delivered. `reading`: another page is being read."""

    batches: deque[RecordBatch] = msgspec.field(default_factory=deque)
    covered: range = range(0)
    reading: bool = False

    def clear(self, at: int = 0) -> None:
        """Forget the pages; the next one begins at this sequence."""
        self.batches.clear()
        self.covered = range(at, at)


@dataclass(slots=True, eq=False)
class Subscription:
    """A subscription of a topic, with the service's state of it.

    `key` is None for a private subscription. `counts` are its metrics. With a `stream` it reads
    the stream, and its dispatcher uses the stream's numbers; without one it reads the log, and the
    dispatcher uses sequences. `ahead` are the pages from its position on, `aside` those of a
    message elsewhere: one that was returned, or is delivered early. `mark_slot` is its slot of
    marks, 0 if it has none. `alarm` is the time (microseconds) for which a timer is set, 0: none.
    `hint` says where its selector's matches are. `unreadable` says why a page of it couldn't be
    read, while it waits for that page. `next_message` is a position at which the topic is known to
    have a message, `recorded` the floor in the log. `copying` is the number of messages given up
    whose copies are in the pending group. `ended`: it is owed no messages any more.
    """

    key: SubscriptionKey | None
    definition: Definition
    dispatcher: Dispatcher
    counts: SubscriptionCounts
    stream: MemoryStream | None = None
    consumers: dict[int, Consumer] = field(default_factory=dict)
    ahead: Pages = field(default_factory=Pages)
    aside: Pages = field(default_factory=Pages)
    mark_slot: int = 0
    alarm: int = 0
    hint: Hint | None = None
    unreadable: str = ""
    next_message: int = -1
    recorded: int = 0
    copying: int = 0
    ended: bool = False

    #: Its id in the log; empty if it has no name.
    id: str = field(init=False)
    #: Whether it outlasts the process.
    durable: bool = field(init=False)

    def __post_init__(self) -> None:
        self.recorded = self.dispatcher.floor
        self.id = self.key.id if self.key is not None else ""
        self.durable = self.key is not None and self.key.durable

    @property
    def trace_key(self) -> Hashable:
        """A key unique among all subscriptions: its id, if it has one."""
        return self.id if self.key is not None else self

    def head(self, of_log: int) -> int:
        """Return the position after its last available message; `of_log` is the log's head."""
        return of_log if self.stream is None else self.stream.head

    @property
    def reading(self) -> bool:
        """Whether a page of the subscription's messages is being read."""
        return self.ahead.reading or self.aside.reading

    def forget_pages(self) -> None:
        """Forget all pages."""
        self.ahead.clear()
        self.aside.clear()

    def consumer_name(self, number: int) -> str:
        """Return the name of a consumer in the log; empty for a settlement without a consumer."""
        consumer = self.consumers.get(number)
        return consumer.name if consumer is not None else ""

    def settle(
        self, holder: int, run: Run, said: DeliveryState, delivered_at: int, now: int
    ) -> Sequence[Settled | DeadLetter]:
        """Settle a run that is in flight to `holder` with this state, in its dispatcher."""
        return self.dispatcher.settle(
            holder,
            run,
            said.outcome,
            failed=said.failed,
            undeliverable=said.undeliverable,
            now=now,
            delivered_at=delivered_at,
        )

    def settlement(self, settled: Settled, consumer: str, delivered: int, now: int) -> Settlement:
        """Return the record of an outcome, with the subscription's present floor. The subscription
        must have a name."""
        assert self.key is not None  # noqa: S101
        self.recorded = self.dispatcher.floor
        if settled.run:
            self.counts.settle(settled.outcome, len(settled.run))
        return Settlement(
            subscription=self.id,
            topic=self.definition.topic,
            consumer=consumer,
            outcome=settled.outcome,
            final=settled.final,
            delivery_count=settled.delivery_count,
            delivered_at=delivered,
            settled_at=now,
            floor=self.recorded,
            sequences=(settled.run,),
        )
