"""Outcomes of deliveries: those of AMQP 1.0 (part 3, section 4) and our own."""

from enum import StrEnum


class Outcome(StrEnum):
    """Outcome of one delivery of one message to one consumer."""

    ACCEPTED = "accepted"  #: done; the subscription is owed the message no more
    REJECTED = "rejected"  #: the consumer can't process the message; archived
    RELEASED = "released"  #: given back unseen; no failure counted
    LOST = "lost"  #: its consumer was lost and may have seen the message; no failure counted
    MODIFIED = "modified"  #: given back as failed, or as undeliverable to this subscription
    EXPIRED = "expired"  #: its time ran out before a consumer took it
    DEAD_LETTERED = "dead_lettered"  #: given up, its copy is in the dead letters
    #: Published by the subscription's own container; with no-local the message isn't owed.
    LOCAL = "local"
    FORBIDDEN = "forbidden"  #: the creator of a pattern may not consume from the message's topic
    #: A dead letter that was published again; or a message that was published again for another
    #: subscription alone, and never owed to this one.
    REDRIVEN = "redriven"
    DROPPED = "dropped"  #: the backlog was full


class Reason(StrEnum):
    """Why a message was given up."""

    REJECTED = "rejected"  #: a consumer can't process it
    UNDELIVERABLE = "undeliverable"  #: a consumer settled it as undeliverable to this subscription
    EXHAUSTED = "exhausted"  #: it has failed as often as the policy allows
    EXPIRED = "expired"
    OVERFLOW = "overflow"  #: the backlog was full
    REDRIVEN = "redriven"  #: a dead letter that is published again
