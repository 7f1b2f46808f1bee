"""A group on its way to the disk: what gathers in it, and what of it is being written."""

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
    """Deliveries whose peer waits for our word, and the credit that it gets back with it."""

    link: Link
    deliveries: bytes
    unsettled: int
    credit: int


class Inside(msgspec.Struct, frozen=True):
    """What the gateway itself publishes. `only`: of all subscriptions of the topic no other one is
    owed it."""

    only: SubscriptionKey | None = None


class Former(msgspec.Struct, frozen=True, eq=False):
    """Who published in a transaction that was prepared: a connection of this container, which may
    have ended since. A transaction waits for long, so it keeps nothing of that."""

    container: str
    connection: "weakref.ref[Peer] | None" = None

    @property
    def client(self) -> "Peer | Former":
        """Whose connection it was, if that one is there yet."""
        found = None if self.connection is None else self.connection()
        return self if found is None else found.client


#: Who publishes.
Publisher: TypeAlias = Peer | Inside | Former


class NoLocalRule(Protocol):
    """Which subscriptions aren't owed all that is published to their topics."""

    def __contains__(self, topic: str) -> bool:
        """Whether there is any on this topic."""

    def exclude(self, topic: str, publisher: Publisher, run: range) -> list[Settlement]:
        """This publisher's messages get these sequences: what is to be recorded for those that
        aren't owed them."""


#: Bytes of a row beside its names, of a sequence in it, and of a receipt for a delivery.
ROW_BYTES = 512
SEQUENCE_BYTES = 8


class PendingGroup(msgspec.Struct, eq=False):
    """What the next group will hold, and who is told when it is durable.

    `size` is the bytes of messages and of what was settled and recorded; the connections of `held`
    are not read until the group goes.
    """

    runs: list[PublishBatch] = msgspec.field(default_factory=list)
    publishers: list[Publisher] = msgspec.field(default_factory=list)  #: of each run
    settlements: list[Settlement] = msgspec.field(default_factory=list)
    records: list[LogEvent] = msgspec.field(default_factory=list)
    receipts: "list[Receipt]" = msgspec.field(default_factory=list)
    confirmations: "list[Receipt]" = msgspec.field(default_factory=list)
    then: list[Callable[[], None]] = msgspec.field(default_factory=list)
    size: int = 0
    since: float = 0.0  #: when its first messages came, in seconds of the loop's clock
    held: dict[Link, None] = msgspec.field(default_factory=dict)
    aimed: bool = False  #: some run is for one subscription alone

    def __bool__(self) -> bool:
        return bool(self.settlements) or self.awaited

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for it, or for what it brings: all but settlements whose consumers
        have forgotten their deliveries."""
        return bool(self.runs or self.receipts or self.confirmations or self.then or self.records)

    def note_begun(self, begun: dict[str, int], group: int) -> None:
        """The group has this number: `begun` has for each durable subscription that lives, by its
        id, the group in which its incarnation began."""
        for record in self.records:
            if not isinstance(record, SubscriptionRecord):
                continue
            if record.event in BEGINNINGS:
                begun[record.key.id] = group
            elif record.event is SubscriptionEvent.DELETED:
                begun.pop(record.key.id, None)


def settled_bytes(settlement: Settlement) -> int:
    """What a settlement takes until it is in the table: its row, and each sequence of it."""
    names = len(settlement.subscription) + len(settlement.topic) + len(settlement.consumer)
    runs = settlement.sequences
    count = len(runs[0]) if len(runs) == 1 else sum(map(len, runs))
    return ROW_BYTES + names + SEQUENCE_BYTES * count


def recorded_bytes(record: LogEvent) -> int:
    """What an event takes until it is in the table."""
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
    """What the group's messages, which get the sequences from `first` on in the order of `runs`,
    are to the subscriptions that aren't owed all of their topic: to be recorded in it, and in the
    next. Each of `runs` has some that wait joined, as a whole and in their order.

    It becomes durable with the messages: nobody can see one without the other. Only for a
    subscription that begins in this very group it waits for the next one: whatever is settled
    in a group belongs to what there was before it.
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
    `batches` are its messages as they will be delivered, by topic, `count` is how many they are;
    `waiting` is who is told."""

    group: Group
    waiting: PendingGroup
    batches: tuple[tuple[str, RecordBatch], ...]
    count: int


class GroupDurable(msgspec.Struct, frozen=True, eq=False):
    """The log tells the message loop: what this group holds is on the disk."""

    sealed: SealedGroup


class CreditGiven(msgspec.Struct, frozen=True):
    """The committer tells the message loop: producers got the credit that was kept back while the
    journal was full, and what waited for that may be said."""


def answer(receipt: Receipt, state: int) -> None:
    """Settle a receipt's deliveries with `state`, or (0) with their peer's own."""
    link = receipt.link
    if not link.alive:
        return  # the peer went without waiting; its deliveries are gone
    if receipt.unsettled:
        pump.settle(receipt.deliveries, state)
        link.connection.touch()
    link.answered(receipt.unsettled)
