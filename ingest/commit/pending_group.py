"""A group on its way to the disk: pending while it gathers content, then sealed."""

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from distributary.ingest.native import pump
from distributary.ingest.net.link import Link, Peer
from distributary.pipeline.model.message import (
    Group,
    LogEvent,
    PublishBatch,
    SchemaRecord,
    Settlement,
    SubscriptionRecord,
    TransactionRecord,
)
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import BEGINNINGS, SubscriptionEvent, SubscriptionKey


class Receipt(msgspec.Struct, frozen=True, eq=False):
    """Deliveries whose peer waits for our settlement, and the credit that it gets back with it."""

    link: Link
    deliveries: bytes
    unsettled: int
    credit: int


class Inside(msgspec.Struct, frozen=True):
    """The gateway itself, as a publisher. With `only`, that subscription alone is owed the
    messages."""

    only: SubscriptionKey | None = None


class Former(msgspec.Struct, frozen=True, eq=False):
    """The publisher of a prepared transaction: a connection of this container, which may have ended
    since. A transaction may wait for long, so it doesn't keep the connection in memory."""

    container: str
    connection: "weakref.ref[Peer] | None" = None

    @property
    def client(self) -> "Peer | Former":
        """The connection's client, if the connection still exists; else this."""
        found = None if self.connection is None else self.connection()
        return self if found is None else found.client


#: The publisher of a run of messages.
Publisher: TypeAlias = Peer | Inside | Former


class NoLocalRule(Protocol):
    """The subscriptions that aren't owed all messages of their topics."""

    def __contains__(self, topic: str) -> bool:
        """Whether this topic has such a subscription."""

    def exclude(self, topic: str, publisher: Publisher, run: range) -> list[Settlement]:
        """Return settlements for the subscriptions that aren't owed this publisher's messages,
        which get the sequences of `run`."""


#: Bytes that a row takes beside its names, and each sequence in it.
ROW_BYTES = 512
SEQUENCE_BYTES = 8


class PendingGroup(msgspec.Struct, eq=False):
    """The content of a future group, and the receipts and callbacks for when it is durable.

    `size` is the bytes of its messages, settlements and records; the connections of `held` aren't
    read until the group is written.
    """

    runs: list[PublishBatch] = msgspec.field(default_factory=list)
    publishers: list[Publisher] = msgspec.field(default_factory=list)  #: of each run
    settlements: list[Settlement] = msgspec.field(default_factory=list)
    records: list[LogEvent] = msgspec.field(default_factory=list)
    receipts: "list[Receipt]" = msgspec.field(default_factory=list)
    confirmations: "list[Receipt]" = msgspec.field(default_factory=list)
    then: list[Callable[[], None]] = msgspec.field(default_factory=list)
    size: int = 0
    since: float = 0.0  #: when its first messages came, in seconds of the monotonic clock
    held: dict[Link, None] = msgspec.field(default_factory=dict)
    aimed: bool = False  #: at least one run is for one subscription alone

    def __bool__(self) -> bool:
        return bool(self.settlements) or self.awaited

    @property
    def awaited(self) -> bool:
        """Whether a peer, a subscription or a callback waits for it: true for all content but
        settlements whose consumers don't wait for an answer."""
        return bool(self.runs or self.receipts or self.confirmations or self.then or self.records)

    def note_begun(self, begun: dict[str, int], group: int) -> None:
        """Update `begun` by the records of this group, which gets the number `group`: it has the id
        of each living durable subscription, with the group in which its incarnation began."""
        for record in self.records:
            if not isinstance(record, SubscriptionRecord):
                continue
            if record.event in BEGINNINGS:
                begun[record.key.id] = group
            elif record.event is SubscriptionEvent.DELETED:
                begun.pop(record.key.id, None)


def settled_bytes(settlement: Settlement) -> int:
    """Return the bytes of a settlement, until it is in the table: its row, and its sequences."""
    names = len(settlement.subscription) + len(settlement.topic) + len(settlement.consumer)
    runs = settlement.sequences
    count = len(runs[0]) if len(runs) == 1 else sum(map(len, runs))
    return ROW_BYTES + names + SEQUENCE_BYTES * count


def recorded_bytes(record: LogEvent) -> int:
    """Return the bytes of an event, until it is in the table."""
    if isinstance(record, TransactionRecord):
        return ROW_BYTES + len(record.transaction) + len(record.work)
    if isinstance(record, SchemaRecord):
        return ROW_BYTES + len(record.topic) + len(record.text)
    definition = record.definition
    said = len(definition.topic) + len(definition.selector or "") + len(record.policy)
    return ROW_BYTES + len(record.key.name) + len(record.key.container or "") + said


def excluded(
    no_local: NoLocalRule, waiting: PendingGroup, runs: Sequence[PublishBatch], first: int
) -> tuple[list[Settlement], list[Settlement]]:
    """Return settlements for the subscriptions that aren't owed some of the group's messages: those
    to record in this group, and those for the next one. The messages get the sequences from `first`
    on, in the order of `runs`; each of `runs` consists of whole runs of `waiting`, in their order.

    The settlements become durable with the messages: no reader can see one without the other. Only
    the settlements of a subscription that begins in this very group wait for the next one, because
    settlements in a group belong to incarnations that began before it.
    """
    if not waiting.aimed:
        for run in runs:
            if run.topic in no_local:
                break
        else:
            return [], []
    places: dict[str, deque[range]] = {}
    for run in runs:
        places.setdefault(run.topic, deque()).append(range(first, first + run.count))
        first += run.count
    found: list[Settlement] = []
    for run, publisher in zip(waiting.runs, waiting.publishers, strict=True):
        there = places[run.topic].popleft()
        sequences, rest = there[: run.count], there[run.count :]
        if rest:
            places[run.topic].appendleft(rest)
        if waiting.aimed or run.topic in no_local:
            found += no_local.exclude(run.topic, publisher, sequences)
    events = [one for one in waiting.records if isinstance(one, SubscriptionRecord)]
    begun = {one.key.id for one in events if one.event in BEGINNINGS}
    later = [one for one in found if one.subscription in begun]
    return [one for one in found if one.subscription not in begun], later


class SealedGroup(msgspec.Struct, frozen=True, eq=False):
    """A group that has its sequences and goes to the disk: nothing is added to it any more.
    `batches` are its messages as they will be delivered, by topic, `count` is their number;
    `waiting` has the receipts and callbacks."""

    group: Group
    waiting: PendingGroup
    batches: tuple[tuple[str, RecordBatch], ...]
    count: int


class GroupDurable(msgspec.Struct, frozen=True, eq=False):
    """The log tells the message loop that this group is on the disk."""

    sealed: SealedGroup


class CreditGiven(msgspec.Struct, frozen=True):
    """The committer tells the message loop that producers got the credit that was kept back while
    the journal was full, so that it writes their flows."""


def answer(receipt: Receipt, state: int) -> None:
    """Settle a receipt's deliveries with `state`, or (0) with their peer's own."""
    link = receipt.link
    if not link.alive:
        return  # the peer has gone without waiting; its deliveries are freed
    if receipt.unsettled:
        pump.settle(receipt.deliveries, state)
        link.connection.touch()
    link.answered(receipt.unsettled)
