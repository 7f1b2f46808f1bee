"""Columns of `topic_log` that each reader of a message gets beside its bytes."""

#: Copied unchanged, in this order; `message`, its bytes, comes after them.
COPIED = (
    "sequence",
    "topic",
    "day",
    "published_at",
    "durable",
    "priority",
    "expires_at",
    "deliver_at",
    "group",
)
