"""Records of the log: batches of messages, settlements and events, and the group of one fsync.

A message is immutable bytes and a dense position in the log, its sequence. There is no object per
message: the messages of one read are one blob with an array of lengths, and a message is
(batch, index). Times are microseconds since the epoch, UTC.

Values made for each run or group are `msgspec.Struct`s: a frozen dataclass of nine fields takes
3 us to make, a struct 0.1.
"""

from typing import TypeAlias
from urllib.parse import quote

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import (
    MADE_BY_CLIENT,
    Definition,
    Made,
    SubscriptionEvent,
    SubscriptionKey,
)
from distributary.pipeline.sequences.sequence_set import Run

__all__ = [
    "Bytes",
    "Group",
    "LogEvent",
    "PublishBatch",
    "SchemaRecord",
    "Settlement",
    "SubscriptionRecord",
    "TransactionRecord",
]


class PublishBatch(msgspec.Struct, frozen=True, eq=False):
    """Consecutive messages of one topic, received together and not yet in the log.

    `blob` is the messages' bytes as they came, joined; the arrays have one native-endian element
    per message: `lengths` uint32 (bytes), `durable` uint8 (0 or 1), `priority` uint8 (0 to 9, 4 if
    the header has none), `ttl` uint32 (milliseconds, 0 if none).

    `expires_at` and `deliver_at` are int64 times: no consumer gets the message from `expires_at` on
    (0: it doesn't expire), nor before `deliver_at` (0: at once). An array is empty when it would be
    0 for all messages. `plain`: it is known that no message of the batch has header attributes.
    """

    topic: str
    count: int
    blob: Bytes
    lengths: Bytes
    durable: Bytes
    priority: Bytes
    ttl: Bytes
    expires_at: Bytes = b""
    deliver_at: Bytes = b""
    plain: bool = False


class Settlement(msgspec.Struct, frozen=True):
    """The durable record of one outcome for a run of deliveries of one subscription.

    All of them were delivered to one consumer at one time with one delivery count. `final`: the
    subscription is owed them no more. `floor` is the subscription's floor after this
    settlement and all before it. `sequences` are runs of sequences, ascending in each.
    """

    subscription: str
    topic: str
    consumer: str
    outcome: Outcome
    final: bool
    delivery_count: int
    delivered_at: int
    settled_at: int
    floor: int
    sequences: tuple[Run, ...]


class SubscriptionRecord(msgspec.Struct, frozen=True):
    """One event of a durable subscription, with the subscription's whole state after it.

    `floor` is the first sequence that it is owed: the head of the log when it was created or
    redefined. `policy` is its own policy as text (`pipeline.model.policy`), empty if it has none.
    `made`, the creator of the subscription, is in each of its events. `dropped` is the number of
    owed messages that the event dropped; with a selector an upper bound. `by` is the user who did
    this; empty if the gateway did it by itself.
    """

    event: SubscriptionEvent
    key: SubscriptionKey
    definition: Definition
    floor: int
    paused: bool = False
    policy: str = ""
    made: Made = MADE_BY_CLIENT
    dropped: int = 0
    by: str = ""


class SchemaRecord(msgspec.Struct, frozen=True):
    """A schema was set for a topic or a pattern, or dropped.

    `text` is the whole version as JSON (`pipeline.schemas.schema_text`). `floor` is the head of the
    log then: messages from this sequence on are read by it. `by` is the user who did this.
    """

    topic: str
    text: str
    floor: int
    by: str = ""

    @property
    def event(self) -> SubscriptionEvent:
        """The event as the log names it."""
        return SubscriptionEvent.SCHEMA

    @property
    def id(self) -> str:
        """The value of this event in the column of subscriptions' ids."""
        return f"schema/{quote(self.topic, '')}"


class TransactionRecord(msgspec.Struct, frozen=True):
    """A transaction was prepared under a global id, or decided for several logs, or one ended.

    `transaction` is the global id (`pipeline.transactions.global_id`). `work` is a prepared
    transaction's work, as `ingest.transactions.prepared_work` writes it, or the other logs of a
    decided one; empty when it ended. `floor` is the head of the log then, `by` the user who did
    this. `user` is the user who prepared it, as each user has ids of its own; empty if decided.
    """

    event: SubscriptionEvent
    transaction: str
    floor: int
    by: str = ""
    work: bytes = b""
    user: str = ""

    @property
    def id(self) -> str:
        """The value of this event in the column of subscriptions' ids."""
        return f"transaction/{self.transaction}" + (f"/{quote(self.user, '')}" if self.user else "")


#: An event of the log: a row of the record `subscription`.
LogEvent: TypeAlias = SubscriptionRecord | SchemaRecord | TransactionRecord


class Group(msgspec.Struct, frozen=True, eq=False):
    """Records that one fsync makes durable: one frame of the journal, whole in one Delta commit.

    `number` rises by one from group to group, also over restarts. The messages, in order, have the
    sequences `first_sequence`, `first_sequence + 1`, ...; `written_at` is their publishing time.
    """

    number: int
    first_sequence: int
    written_at: int
    messages: tuple[PublishBatch, ...] = ()
    settlements: tuple[Settlement, ...] = ()
    subscriptions: tuple[LogEvent, ...] = ()

    @property
    def message_count(self) -> int:
        messages = self.messages
        return messages[0].count if len(messages) == 1 else sum([run.count for run in messages])
