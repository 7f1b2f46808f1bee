"""What became of a delivery: the outcomes of AMQP 1.0 (part 3, section 4) and those of our own."""

from enum import StrEnum


class Outcome(StrEnum):
    """How one delivery of one message to one consumer ended."""

    ACCEPTED = "accepted"  #: done; the subscription is owed it no more
    REJECTED = "rejected"  #: the consumer can't take it; archived
    RELEASED = "released"  #: given back unseen; no failure counted
    LOST = "lost"  #: its consumer was lost, and may have seen it; no failure counted
    MODIFIED = "modified"  #: given back as failed, or as undeliverable to this subscription
    EXPIRED = "expired"  #: its time ran out before a consumer took it
    DEAD_LETTERED = "dead_lettered"  #: given up, its copy is in the dead letters
    LOCAL = "local"  #: its own container published it, and no-local says that it isn't owed that
    FORBIDDEN = "forbidden"  #: a pattern's maker may not consume from the topic of it
    REDRIVEN = "redriven"  #: it went again to one other subscription, and only that is owed it
    DROPPED = "dropped"  #: the backlog was full


class Reason(StrEnum):
    """Why a message was given up."""

    REJECTED = "rejected"  #: a consumer can't take it
    UNDELIVERABLE = "undeliverable"  #: a consumer said that this subscription shall not see it
    EXHAUSTED = "exhausted"  #: it failed as often as it may
    EXPIRED = "expired"
    OVERFLOW = "overflow"  #: the backlog was full
    REDRIVEN = "redriven"  #: it goes back to where it came from
