"""The table `topic_log`: each column once, with what it means and what always holds.

Which rows have a column is in its meaning; everywhere else it is null. Rows of three records lie
in one table so that one commit takes in whole groups: no reader ever sees half of one.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
MESSAGE: Final = "message"
SETTLEMENT: Final = "settlement"
SUBSCRIPTION: Final = "subscription"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, what it means, its unit, and what holds for each row that has it."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str
    invariant: str


COLUMNS: Final = (
    Column(
        "record",
        pa.string(),
        "what the row is; a partition",
        "",
        "message, settlement or subscription",
    ),
    Column(
        "day",
        pa.date32(),
        "the day in which its group was written; a partition",
        "UTC day",
        "the same for all rows of one group",
    ),
    Column(
        "group",
        pa.int64(),
        "the journal's group that the row came in",
        "",
        "dense and rising; all rows of one group lie in one commit",
    ),
    Column(
        "topic",
        pa.string(),
        "the topic of the message or of the subscription",
        "",
        "never null",
    ),
    Column(
        "sequence",
        pa.int64(),
        "message: its position in the log",
        "",
        "dense over all topics, rising with the groups, never used twice",
    ),
    Column(
        "published_at",
        TIMESTAMP,
        "message: when its group was written",
        "microseconds",
        "the same for all messages of one group",
    ),
    Column(
        "durable",
        pa.bool_(),
        "message: whether its publisher asked for persistence",
        "",
        "false only if the publisher said so",
    ),
    Column(
        "priority",
        pa.int8(),
        "message: its priority",
        "",
        "0 to 9, 4 if the publisher gave none",
    ),
    Column(
        "expires_at",
        TIMESTAMP,
        "message: when it is worth nothing any more",
        "microseconds",
        "null if it never is",
    ),
    Column(
        "message",
        pa.binary(),
        "message: all its sections as they came, header included",
        "bytes",
        "byte for byte what the publisher sent",
    ),
    Column(
        "subscription",
        pa.string(),
        "settlement, subscription: whose it is, as SubscriptionKey.id",
        "",
        "always a durable one",
    ),
    Column(
        "consumer",
        pa.string(),
        "settlement: who had the deliveries, as container/link",
        "",
        "never null; empty if nobody had them",
    ),
    Column(
        "outcome",
        pa.string(),
        "settlement: what became of the deliveries",
        "",
        "accepted, rejected, released, modified, expired, dead_lettered, local, redriven, dropped",
    ),
    Column(
        "final",
        pa.bool_(),
        "settlement: whether the subscription is owed them no more",
        "",
        "at most one final settlement per subscription and sequence in one incarnation",
    ),
    Column(
        "delivery_count",
        pa.int32(),
        "settlement: failed attempts before this delivery",
        "",
        "not negative; releases don't count",
    ),
    Column(
        "delivered_at",
        TIMESTAMP,
        "settlement: when the deliveries were handed to the consumer",
        "microseconds",
        "not later than settled_at",
    ),
    Column(
        "settled_at",
        TIMESTAMP,
        "settlement: when their outcome was known",
        "microseconds",
        "not later than the group was written",
    ),
    Column(
        "sequences",
        pa.list_(pa.field("element", pa.int64())),
        "settlement: the messages that were delivered",
        "",
        "ascending, no duplicates",
    ),
    Column(
        "floor",
        pa.int64(),
        "settlement: the subscription's floor after it; "
        "subscription: the first sequence that it is owed",
        "",
        "never falls between two events of the subscription",
    ),
    Column(
        "event",
        pa.string(),
        "subscription: what happened to it",
        "",
        "created, redefined, rewound, purged, paused, resumed, configured, deleted, or schema",
    ),
    Column(
        "shared",
        pa.bool_(),
        "subscription: whether many consumers may take turns",
        "",
        "the definition after the event",
    ),
    Column(
        "selector",
        pa.string(),
        "subscription: which messages it claims",
        "",
        "null if all",
    ),
    Column(
        "no_local",
        pa.bool_(),
        "subscription: whether it leaves out what its own container publishes",
        "",
        "the definition after the event",
    ),
    Column(
        "recorded_at",
        TIMESTAMP,
        "subscription: when its group was written",
        "microseconds",
        "the same for all events of one group",
    ),
    # Columns that came later stand at the end: there a table of before gets them.
    Column(
        "deliver_at",
        TIMESTAMP,
        "message: nobody gets it before",
        "microseconds",
        "null if at once",
    ),
    Column(
        "paused",
        pa.bool_(),
        "subscription: whether its consumers get nothing",
        "",
        "what holds after the event; null is false",
    ),
    Column(
        "policy",
        pa.string(),
        "subscription: what was said of its own policy; schema: the whole version, as JSON",
        "",
        "what holds after the event; null if nothing was",
    ),
    Column(
        "origin",
        pa.string(),
        "subscription: who made it",
        "",
        "client, operator or gateway, the same in all of its events; null is client",
    ),
    Column(
        "created_by",
        pa.string(),
        "subscription: the user who made it",
        "",
        "the same in all of its events; null if nobody knows",
    ),
    Column(
        "dropped",
        pa.int64(),
        "subscription: how many messages that it was owed the event took from it",
        "messages",
        "not negative; with a selector the most that it can be; null if nobody counted",
    ),
    Column(
        "by",
        pa.string(),
        "subscription: the user who did this",
        "",
        "null if the gateway did it by itself, and in rows of before this was recorded",
    ),
)

SCHEMA: Final[pa.Schema] = pa.schema([pa.field(c.name, c.type) for c in COLUMNS])
#: The columns that came later, together each time: a table of before lacks the last ones of these.
ADDED: Final = (("deliver_at", "paused", "policy"), ("origin", "created_by", "dropped"), ("by",))
#: The number of the format that this version writes; a table that lacks one more of ADDED is of the
#: format below.
FORMAT: Final = len(ADDED) + 1
#: The schemas of before, the first one first.
FORMER_SCHEMAS: Final[tuple[pa.Schema, ...]] = tuple(
    pa.schema([f for f in SCHEMA if not any(f.name in later for later in ADDED[nth:])])
    for nth in range(len(ADDED))
)
PARTITIONS: Final = ["record", "day"]

#: The columns of each record; all others are null in its rows, and absent from its files.
_OWN: Final = {
    MESSAGE: "topic sequence published_at durable priority expires_at message deliver_at",
    SETTLEMENT: (
        "topic subscription consumer outcome final delivery_count delivered_at settled_at "
        "sequences floor"
    ),
    SUBSCRIPTION: (
        "topic subscription floor event shared selector no_local recorded_at paused policy "
        "origin created_by dropped by"
    ),
}
#: What the rows of each record are in memory: the day tells which partition they belong to.
ROWS: Final[dict[str, pa.Schema]] = {
    record: pa.schema([SCHEMA.field(name) for name in ["day", "group", *names.split()]])
    for record, names in _OWN.items()
}
#: What a data file of each record holds.
FILES: Final[dict[str, pa.Schema]] = {
    record: pa.schema([f for f in kind if f.name not in PARTITIONS])
    for record, kind in ROWS.items()
}

#: No feature that Spark or deltalake would read differently.
READER_VERSION: Final = 1
WRITER_VERSION: Final = 2

STATISTICS: Final = "delta.dataSkippingStatsColumns"
CONFIGURATION: Final = {
    # Statistics for what prunes; those of the bytes would only make the log bigger.
    STATISTICS: "topic,sequence,group,published_at,priority,expires_at",
    # Longer than the longest stop of a Spark job: a stream can't pass a version that is cleaned.
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}
