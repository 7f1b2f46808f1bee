"""Messages in runs: how they wait, how they are kept, and what shares one fsync.

A message is immutable bytes and a dense position in the log, its sequence. There is no object per
message anywhere: what one read brings is one blob with an array of lengths, and a message is
(batch, index). Times are microseconds since the epoch, UTC.

Values that are made for each run or group are `msgspec.Struct`s: a frozen dataclass of nine fields
takes 3 us to make, a struct 0.1.
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

    `expires_at` and `deliver_at` are int64 times: nobody shall get the message from the one on (0:
    it doesn't expire), and nobody before the other (0: at once). Each is empty when it would be 0
    for all messages of the run. `plain`: it is known that no message of it has header attributes.
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

    All of them were handed to one consumer at one time with one delivery count. `final` says
    whether the subscription is owed them no more. `floor` is the subscription's floor after this
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
    """One event in the life of a durable subscription, with all that it is after it.

    `floor` is the first sequence that it is owed: the head of the log when it was created or
    redefined. `policy` is what was said of its own policy, as text (`pipeline.model.policy`); empty
    if nothing was. `made` says who made it, in each of its events. `dropped` is how many messages
    that it was owed the event took from it; with a selector the most that it can be. `by` is the
    user who did this; empty if the gateway did it by itself.
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
        """The word for it among the events of the log."""
        return SubscriptionEvent.SCHEMA

    @property
    def id(self) -> str:
        """Where a subscription's event has the subscription's id."""
        return f"schema/{quote(self.topic, '')}"


class TransactionRecord(msgspec.Struct, frozen=True):
    """A transaction was prepared under a global id, or decided for several logs, or one ended.

    `transaction` is the global id (`pipeline.transactions.global_id`), `work` all that a prepared
    one will have done, in the words of `ingest.transactions.prepared_work`, or the other logs of a
    decided one; it is empty at its end. `floor` is the head of the log then, `by` the user who did
    this, `user` who prepared it: each user has ids of its own; empty of a decided one.
    """

    event: SubscriptionEvent
    transaction: str
    floor: int
    by: str = ""
    work: bytes = b""
    user: str = ""

    @property
    def id(self) -> str:
        """Where a subscription's event has the subscription's id."""
        return f"transaction/{self.transaction}" + (f"/{quote(self.user, '')}" if self.user else "")


#: An event of the log: a row of the record `subscription`.
LogEvent: TypeAlias = SubscriptionRecord | SchemaRecord | TransactionRecord


class Group(msgspec.Struct, frozen=True, eq=False):
    """What shares one fsync, one frame of the journal, and lies whole inside one Delta commit.

    `number` rises by one from group to group, for ever. The messages of `messages`, in order, have
    the sequences `first_sequence`, `first_sequence + 1`, ...; `written_at` is their publishing
    time.
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
