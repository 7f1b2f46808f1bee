"""The tables that Spark writes, column by column: the contract of every transform.

`cursors` has one row per durable subscription, `acks` one per message and settlement, `messages`
one per message, `subscriptions` one per event of a subscription, `log_versions` one per version of
topic_log. A column's comment is its meaning, and stands in the table itself.
"""

from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

Column: TypeAlias = tuple[str, DataType, str]

#: The failed attempts of a message that came back, and the group that says so.
FAILURE = StructType(
    [
        StructField("sequence", LongType()),
        StructField("failures", IntegerType()),
        StructField("group", LongType()),
    ]
)

#: One application property. Its AMQP type says which of the others is set.
PROPERTY = StructType(
    [
        StructField("type", StringType()),
        StructField("text", StringType()),
        StructField("long", LongType()),
        StructField("double", DoubleType()),
        StructField("boolean", BooleanType()),
        StructField("binary", BinaryType()),
    ]
)


def arrow_schema(kind: StructType) -> pa.Schema:
    """The columns in Arrow, without the metadata that only Spark reads; times are UTC."""
    return pa.schema([(one.name, one.type) for one in to_arrow_schema(kind, timezone="UTC")])


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with times in UTC. Spark gives tasks times in its session's zone, which Java
    may know and Python may not: Python can't make such a time."""
    kinds = [one.with_type(_in_utc(one.type)) for one in batch.schema]
    return batch.cast(pa.schema(kinds))


def _in_utc(kind: pa.DataType) -> pa.DataType:
    match kind:
        case pa.TimestampType() if kind.tz is not None:
            return pa.timestamp(kind.unit, "UTC")
        case pa.ListType():
            return pa.list_(_in_utc(kind.value_type))
        case pa.MapType():
            return pa.map_(kind.key_type, _in_utc(kind.item_type))
        case pa.StructType():
            return pa.struct([one.with_type(_in_utc(one.type)) for one in kind])
        case _:
            return kind


def _table(*columns: Column) -> StructType:
    return StructType(
        [StructField(name, kind, metadata={"comment": says}) for name, kind, says in columns]
    )


CURSORS = _table(
    ("subscription", StringType(), "id of the durable subscription; the key of this table"),
    ("topic", StringType(), "the topic that it claims, or its pattern"),
    ("shared", BooleanType(), "whether several consumers may share it"),
    ("selector", StringType(), "the selector, null if it takes everything"),
    ("floor", LongType(), "all that it was owed below this sequence is settled"),
    (
        "settled",
        BinaryType(),
        "settled sequences from the floor on: portable 64-bit roaring bitmap",
    ),
    ("settled_count", LongType(), "how many sequences are in `settled`"),
    (
        "failures",
        ArrayType(FAILURE),
        "of messages owed that came back: failed attempts, as of the last group that says so",
    ),
    (
        "lost",
        BinaryType(),
        "sequences owed that lost consumers may have seen: a bitmap as `settled`",
    ),
    ("accepted", LongType(), "deliveries accepted since its last beginning"),
    ("rejected", LongType(), "deliveries rejected"),
    ("released", LongType(), "deliveries given back with no failure counted"),
    ("modified", LongType(), "deliveries given back as failed, or as undeliverable here"),
    ("group", LongType(), "last group of the journal that is in this row"),
    ("log_version", LongType(), "version of topic_log for which this row is wholly true"),
    ("updated_at", TimestampType(), "when this row was written"),
)

ACKS = _table(
    ("subscription", StringType(), "id of the durable subscription"),
    ("topic", StringType(), "the topic of the message"),
    ("sequence", LongType(), "the message"),
    ("consumer", StringType(), "the consumer that had it: container and link name; null if none"),
    (
        "outcome",
        StringType(),
        "as in topic_log: accepted, ..., dropped; local, forbidden and redriven were no deliveries",
    ),
    ("final", BooleanType(), "whether the subscription is owed it no more"),
    ("delivery_count", IntegerType(), "failed attempts before this delivery"),
    ("delivered_at", TimestampType(), "when the consumer got it; null if none did"),
    ("settled_at", TimestampType(), "when the outcome came"),
    ("floor", LongType(), "the subscription's floor after the settlement"),
    ("group", LongType(), "group of the journal with the settlement"),
    ("day", DateType(), "UTC day of settled_at; the partition"),
)

MESSAGES = _table(
    ("sequence", LongType(), "position in the log; dense over all topics"),
    ("topic", StringType(), "where it was published"),
    ("day", DateType(), "UTC day of published_at; the partition"),
    ("published_at", TimestampType(), "when it was made durable"),
    ("durable", BooleanType(), "whether the publisher asked for persistence"),
    ("priority", ByteType(), "0 to 9; 4 if the publisher said nothing"),
    ("expires_at", TimestampType(), "when it expires, null if never"),
    ("deliver_at", TimestampType(), "not delivered before, null if at once"),
    ("group", LongType(), "group of the journal with the message"),
    ("message_id", StringType(), "properties.message-id in the JMS text form"),
    ("correlation_id", StringType(), "properties.correlation-id in the JMS text form"),
    ("subject", StringType(), "properties.subject (JMSType)"),
    ("to", StringType(), "properties.to"),
    ("reply_to", StringType(), "properties.reply-to"),
    ("content_type", StringType(), "properties.content-type"),
    ("group_id", StringType(), "properties.group-id (JMSXGroupID)"),
    ("creation_time", TimestampType(), "properties.creation-time (JMSTimestamp)"),
    ("user_id", StringType(), "properties.user-id (JMSXUserID), null if it is no UTF-8"),
    ("group_sequence", LongType(), "properties.group-sequence (JMSXGroupSeq)"),
    (
        "delivery_count",
        LongType(),
        "header.delivery-count as the publisher sent it, mostly 0",
    ),
    ("properties", MapType(StringType(), PROPERTY), "application properties with their AMQP types"),
    (
        "delivery_annotations",
        MapType(StringType(), PROPERTY),
        "delivery annotations as the publisher sent them, with their AMQP types",
    ),
    (
        "message_annotations",
        MapType(StringType(), PROPERTY),
        "message annotations with their AMQP types",
    ),
    ("body_kind", StringType(), "data, sequence, value or none"),
    ("body_text", StringType(), "text of a text body, JSON of a list, map or number"),
    ("body_bytes", BinaryType(), "bytes of a data body or of a binary value"),
    ("error", StringType(), "why the message could not be decoded, null if it could"),
    ("message", BinaryType(), "all its bytes as they came, if it could not be decoded; else null"),
)

SUBSCRIPTIONS = _table(
    ("subscription", StringType(), "id of the durable subscription"),
    ("topic", StringType(), "the topic that it claims, or its pattern"),
    (
        "event",
        StringType(),
        "created, redefined, rewound, purged, paused, resumed, configured or deleted",
    ),
    ("shared", BooleanType(), "whether several consumers may share it"),
    ("selector", StringType(), "the selector, null if it takes everything"),
    ("no_local", BooleanType(), "whether it leaves out what its own container publishes"),
    ("paused", BooleanType(), "whether its consumers get nothing after the event"),
    ("policy", StringType(), "its own policy, as JSON; null if it has none"),
    ("origin", StringType(), "kind of its maker: client, operator or gateway; null is client"),
    ("created_by", StringType(), "the user who made it; null if unknown"),
    (
        "dropped",
        LongType(),
        "messages that it was owed and the event took from it, with a selector at most; or null",
    ),
    ("by", StringType(), "the user who did this; null if the gateway did, or unknown"),
    (
        "floor",
        LongType(),
        "the first sequence that it is owed, if the event begins an incarnation; else null",
    ),
    ("group", LongType(), "group of the journal with the event"),
    ("recorded_at", TimestampType(), "when that group was written"),
)

SCHEMA_VERSIONS = _table(
    ("topic", StringType(), "the topic, or the pattern of topics as policies have it"),
    ("version", LongType(), "counted from 1 for each topic; null for a drop"),
    ("event", StringType(), "set or dropped"),
    ("format", StringType(), "json, avro or protobuf"),
    ("definition", StringType(), "the schema; of Protobuf a descriptor set, as base64"),
    ("message", StringType(), "of Protobuf the message's full name; else empty"),
    ("compatibility", StringType(), "none, backward, forward or full"),
    ("validate", StringType(), "off, refuse or dead-letter"),
    ("framing", StringType(), "plain or confluent"),
    ("registry_id", StringType(), "the id that bodies name it by; empty if they don't"),
    ("cloud_events", BooleanType(), "whether messages are CloudEvents"),
    ("columns", StringType(), "the columns of its typed table, as Spark's schema in JSON"),
    ("floor", LongType(), "the first sequence that it counts for, until the next event's"),
    ("by", StringType(), "the user who did this"),
    ("group", LongType(), "group of the journal with the event"),
    ("recorded_at", TimestampType(), "when that group was written"),
)

REJECTED = _table(
    ("topic", StringType(), "where it was published"),
    ("sequence", LongType(), "the message"),
    ("schema_version", LongType(), "the version that it doesn't fit"),
    ("reason", StringType(), "why, as a sentence"),
    ("place", StringType(), "where in its body, as a JSON pointer; empty: all of it"),
    ("message", BinaryType(), "all its bytes as they came"),
    ("group", LongType(), "group of the journal with the message"),
    ("day", DateType(), "UTC day of its publication; the partition"),
)

LOG_VERSIONS = _table(
    ("log_version", LongType(), "version of topic_log"),
    ("group", LongType(), "last group of the journal that is in this version"),
    ("committed_at", TimestampType(), "when the version was committed"),
)
