"""The columns of the table `topic_log`, each once, with its meaning and invariant.

A column's meaning names the records that have it; in other rows it is null. Rows of three records
are in one table so that a commit has whole groups: no reader ever sees a part of one.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

MESSAGE: Final = "message"
SETTLEMENT: Final = "settlement"
SUBSCRIPTION: Final = "subscription"


class Column(msgspec.Struct, frozen=True):
    """One column: its Delta type, its meaning, its unit, and an invariant of each row that has
    it."""

    name: str
    type: str
    meaning: str
    unit: str
    invariant: str


COLUMNS: Final = (
    Column(
        "record",
        "string",
        "the kind of the row; a partition",
        "",
        "message, settlement or subscription",
    ),
    Column(
        "day",
        "date",
        "the day in which its group was written; a partition",
        "UTC day",
        "the same for all rows of one group",
    ),
    Column(
        "group",
        "long",
        "the journal's group that the row came in",
        "",
        "dense and rising; all rows of one group lie in one commit",
    ),
    Column(
        "topic",
        "string",
        "the topic of the message or of the subscription",
        "",
        "never null",
    ),
    Column(
        "sequence",
        "long",
        "message: its position in the log",
        "",
        "dense over all topics, rising with the groups, never used twice",
    ),
    Column(
        "published_at",
        "timestamp",
        "message: when its group was written",
        "microseconds",
        "the same for all messages of one group",
    ),
    Column(
        "durable",
        "boolean",
        "message: whether its publisher asked for persistence",
        "",
        "false only if the publisher said so",
    ),
    Column(
        "priority",
        "byte",
        "message: its priority",
        "",
        "0 to 9, 4 if the publisher gave none",
    ),
    Column(
        "expires_at",
        "timestamp",
        "message: when it expires",
        "microseconds",
        "null if never",
    ),
    Column(
        "message",
        "binary",
        "message: all its sections as they came, header included; "
        "prepared transaction: the work that its commit will do; decided one: its other logs",
        "bytes",
        "byte for byte what the publisher sent; null in other events",
    ),
    Column(
        "subscription",
        "string",
        "settlement, subscription: the subscription, as SubscriptionKey.id; or schema/TOPIC, "
        "transaction/GLOBAL-ID/USER",
        "",
        "always a durable one",
    ),
    Column(
        "consumer",
        "string",
        "settlement: the consumer that had the deliveries, as container/link",
        "",
        "never null; empty if no consumer had them",
    ),
    Column(
        "outcome",
        "string",
        "settlement: the outcome of the deliveries",
        "",
        "accepted, rejected, released, modified, expired, dead_lettered, local, redriven, dropped",
    ),
    Column(
        "final",
        "boolean",
        "settlement: whether the subscription is owed them no more",
        "",
        "at most one final settlement per subscription and sequence in one incarnation",
    ),
    Column(
        "delivery_count",
        "integer",
        "settlement: failed attempts before this delivery",
        "",
        "not negative; releases don't count",
    ),
    Column(
        "delivered_at",
        "timestamp",
        "settlement: when the deliveries were handed to the consumer",
        "microseconds",
        "not later than settled_at",
    ),
    Column(
        "settled_at",
        "timestamp",
        "settlement: when their outcome was known",
        "microseconds",
        "not later than the group was written",
    ),
    Column(
        "sequences",
        "array<long>",
        "settlement: the messages that were delivered",
        "",
        "ascending, no duplicates",
    ),
    Column(
        "floor",
        "long",
        "settlement: the subscription's floor after it; "
        "subscription: the first sequence that it is owed",
        "",
        "never falls between two events of the subscription",
    ),
    Column(
        "event",
        "string",
        "subscription: what happened to it",
        "",
        "created, redefined, rewound, purged, paused, resumed, configured, deleted; schema; or "
        "prepared, committed, rolled_back of a prepared transaction; or decided, completed of one "
        "over several logs",
    ),
    Column(
        "shared",
        "boolean",
        "subscription: whether many consumers may take turns",
        "",
        "the definition after the event",
    ),
    Column(
        "selector",
        "string",
        "subscription: which messages it claims",
        "",
        "null if all",
    ),
    Column(
        "no_local",
        "boolean",
        "subscription: whether it leaves out messages of its own container",
        "",
        "the definition after the event",
    ),
    Column(
        "recorded_at",
        "timestamp",
        "subscription: when its group was written",
        "microseconds",
        "the same for all events of one group",
    ),
    # Columns that came later stand at the end: there a table of before gets them.
    Column(
        "deliver_at",
        "timestamp",
        "message: the time before which no consumer gets it",
        "microseconds",
        "null if at once",
    ),
    Column(
        "paused",
        "boolean",
        "subscription: whether its consumers get nothing",
        "",
        "the state after the event; null is false",
    ),
    Column(
        "policy",
        "string",
        "subscription: its own policy; schema: the whole version, as JSON",
        "",
        "the policy after the event; null if it has none",
    ),
    Column(
        "origin",
        "string",
        "subscription: the kind of its maker",
        "",
        "client, operator or gateway, the same in all of its events; null is client",
    ),
    Column(
        "created_by",
        "string",
        "subscription: the user who made it",
        "",
        "the same in all of its events; null if unknown",
    ),
    Column(
        "dropped",
        "long",
        "subscription: how many messages that it was owed the event took from it",
        "messages",
        "not negative; with a selector an upper bound; null if not counted",
    ),
    Column(
        "by",
        "string",
        "subscription: the user who did this",
        "",
        "null if the gateway did it by itself, and in rows of before this was recorded",
    ),
)

#: Columns that were added later, by format: an older table lacks the last ones of these.
ADDED: Final = (("deliver_at", "paused", "policy"), ("origin", "created_by", "dropped"), ("by",))
#: The number of the format that this version writes; with each missing element of ADDED a table is
#: of the format before.
FORMAT: Final = len(ADDED) + 1
#: The names of the columns in each former format, the first one first, and of today's.
FORMATS: Final[tuple[tuple[str, ...], ...]] = tuple(
    tuple(c.name for c in COLUMNS if not any(c.name in later for later in ADDED[nth:]))
    for nth in range(FORMAT)
)
PARTITIONS: Final = ["record", "day"]
#: Protocol versions without features that Spark or deltalake would read differently.
READER_VERSION: Final = 1
WRITER_VERSION: Final = 2

STATISTICS: Final = "delta.dataSkippingStatsColumns"
CONFIGURATION: Final = {
    # Statistics of columns that prune; those of `message` would only make the log bigger.
    STATISTICS: "topic,sequence,group,published_at,priority,expires_at",
    # Longer than the longest stop of a Spark job: a stream can't pass a version that is cleaned.
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}

_LIST: Final = "array<"


def schema_text(names: Iterable[str] = FORMATS[-1]) -> str:
    """Return the schema with these columns in the form of Delta's log."""
    types = {column.name: _type_of(column.type) for column in COLUMNS}
    fields = [
        {"name": name, "type": types[name], "nullable": True, "metadata": {}} for name in names
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def _type_of(word: str) -> object:
    if not word.startswith(_LIST):
        return word
    return {"type": "array", "elementType": word[len(_LIST) : -1], "containsNull": True}
