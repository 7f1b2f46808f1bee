"""What `topic_log` says of a message in the columns beside its bytes."""

#: Columns that whoever reads a message gets as they stand, in this order; `message`, its bytes,
#: comes after them.
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
