"""Temporary queues and topics: the kind that a peer wants, and a connection's rights at one.

Rule 1: a temporary destination belongs to the connection that made it: only that connection
        consumes from it, every connection may send to it.
Rule 2: it lasts until the link that made it, or that link's connection, ends.
Rule 3: a destination that has ended is unknown to all connections, as is one that never was.
"""

from collections.abc import Collection
from enum import StrEnum

from distributary.pipeline.model.address import Kind
from distributary.pipeline.model.amqp_error import INVALID_FIELD, LOCKED, NOT_FOUND, AmqpError

_TOPIC_WORDS = frozenset({Kind.TOPIC, Kind.TEMPORARY_TOPIC})
_QUEUE_WORDS = frozenset({Kind.QUEUE, Kind.TEMPORARY_QUEUE})


class Deed(StrEnum):
    """A link's or a message's use of a temporary destination."""

    SEND = "send"
    CONSUME = "consume"  #: or browse
    SUBSCRIBE_DURABLY = "subscribe durably"


class Ownership(StrEnum):
    """Owner of a temporary destination, as the asking connection sees it."""

    OWN = "own"
    FOREIGN = "foreign"  #: another connection's
    ABSENT = "gone"


_ABSENT = (NOT_FOUND, "there is no '{}'; its connection or the link that made it has ended")
_FOREIGN = (LOCKED, "'{}' is another connection's; only that one may consume from it")
_DURABLE = (NOT_FOUND, "'{}' is temporary, so there are no durable subscriptions on it")

#: (deed, ownership) -> the condition and the sentence of a refusal, or None if allowed.
RIGHTS: dict[tuple[Deed, Ownership], tuple[str, str] | None] = {
    (Deed.SEND, Ownership.OWN): None,
    (Deed.SEND, Ownership.FOREIGN): None,
    (Deed.SEND, Ownership.ABSENT): _ABSENT,
    (Deed.CONSUME, Ownership.OWN): None,
    (Deed.CONSUME, Ownership.FOREIGN): _FOREIGN,
    (Deed.CONSUME, Ownership.ABSENT): _ABSENT,
    (Deed.SUBSCRIBE_DURABLY, Ownership.OWN): _DURABLE,
    (Deed.SUBSCRIBE_DURABLY, Ownership.FOREIGN): _FOREIGN,
    (Deed.SUBSCRIBE_DURABLY, Ownership.ABSENT): _ABSENT,
}


def amqp_error(deed: Deed, ownership: Ownership, address: str) -> AmqpError | None:
    """Return why this isn't allowed at the temporary destination of this address; None if it
    is."""
    denial = RIGHTS[deed, ownership]
    return AmqpError(denial[0], denial[1].format(address)) if denial else None


def wanted_kind(capabilities: Collection[str]) -> Kind | AmqpError:
    """Return the kind that a dynamic terminus' capabilities name; a queue if they name none."""
    topic = not _TOPIC_WORDS.isdisjoint(capabilities)
    if topic and not _QUEUE_WORDS.isdisjoint(capabilities):
        return AmqpError(INVALID_FIELD, "a dynamic terminus wants a queue or a topic, not both")
    return Kind.TEMPORARY_TOPIC if topic else Kind.TEMPORARY_QUEUE
