"""The state of every durable subscription when a gateway starts: the values, without the tables."""

import msgspec

from distributary.pipeline.log.failures import Failures
from distributary.pipeline.model.message import SchemaRecord, TransactionRecord
from distributary.pipeline.model.subscription import (
    MADE_BY_CLIENT,
    Definition,
    Made,
    SubscriptionKey,
)
from distributary.pipeline.sequences.sequence_set import SequenceSet

WHOLE_LOG = "the whole log"


class SubscriptionState(msgspec.Struct, frozen=True, eq=False):
    """One durable subscription: everything owed below `floor` is settled, and `settled` above.

    `failures` and `lost` are messages that it is owed: those with failed attempts, and those that
    lost consumers may have seen. The caller may keep and change `settled` and `lost`. `began` is
    the group in which its incarnation began; `paused`, `policy` and `made` are from its last event.
    """

    key: SubscriptionKey
    definition: Definition
    floor: int
    settled: SequenceSet
    failures: dict[int, Failures]
    began: int = 0
    paused: bool = False
    policy: str = ""
    made: Made = MADE_BY_CLIENT
    lost: SequenceSet = msgspec.field(default_factory=SequenceSet)


class SchemaEvent(msgspec.Struct, frozen=True):
    """A schema that was set or dropped, with its group and time (microseconds)."""

    record: SchemaRecord
    group: int
    recorded_at: int


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that was prepared or decided and hasn't ended: its record, and when that record
    was written (microseconds)."""

    record: TransactionRecord
    recorded_at: int


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """The state from which the gateway continues. `source` describes what it was read from;
    `schemas` are all that were ever set, `open` the transactions that haven't ended, in the order
    of the log."""

    next_group: int
    next_sequence: int
    subscriptions: tuple[SubscriptionState, ...]
    source: str
    schemas: tuple[SchemaEvent, ...] = ()
    open: tuple[OpenTransaction, ...] = ()


def at_the_beginning(next_group: int, next_sequence: int) -> Snapshot:
    """Return the state of a log that has no rows: it has no subscriptions."""
    return Snapshot(next_group, next_sequence, (), f"{WHOLE_LOG}, which has no rows")
