"""Operators' requests about a subscription, and the states in which each is allowed.

Rule 1: every decision is a row of a table below.
Rule 2: a request for the present state is no error, and does nothing.
Rule 3: a refusal is a value with a sentence, not an exception; it changes nothing.
Rule 4: the caller decides and performs in one step, as in `pipeline.subscriptions.registry`.
"""

from enum import StrEnum

from distributary.pipeline.model.amqp_error import LOCKED, NOT_FOUND, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionEvent, SubscriptionKey


class Operation(StrEnum):
    """The verb of a request, where it is written in capitals."""

    CREATE = "create"
    UPDATE = "update"  #: give it another policy
    PAUSE = "pause"  #: its consumers get nothing until it is resumed
    RESUME = "resume"
    PURGE = "purge"  #: drop its backlog
    REWIND = "rewind"  #: owe it all messages from a sequence on, settled ones included
    SKIP = "skip"  #: drop its messages before a sequence, or before now
    REDRIVE = "redrive"  #: send its dead letters back to where they came from
    CLOSE = "close"  #: end its consumers' links; they may attach again
    DELETE = "delete"
    DELETE_ANYWAY = "delete anyway"  #: end its links, drop its messages


class Standing(StrEnum):
    """State of the subscription with a key."""

    ABSENT = "absent"
    EMPTY = "empty"  #: it has no users, and deleting it loses no queue's messages
    WITH_MESSAGES = "with messages"  #: a queue with messages and without users
    USED = "used"  #: it has consumers, or, if it is a queue, producers


class Deed(StrEnum):
    """Effect of a request."""

    NOTHING = "nothing"  #: the wanted state is the present one
    CREATE = "create"
    CONFIGURE = "configure"
    PAUSE = "pause"
    RESUME = "resume"
    MOVE = "move"  #: give it another floor
    REDRIVE = "redrive"
    END_LINKS = "end links"
    DELETE = "delete"
    END_AND_DELETE = "end links and delete"


_ABSENT = (NOT_FOUND, "there is no durable subscription {}")
_EXISTS = (PRECONDITION_FAILED, "there is a subscription {} already")
_USED = (LOCKED, "{} has links; say force to end them and delete it")
_HAS_MESSAGES = (PRECONDITION_FAILED, "{} has messages; say force to delete it with them")

_PRESENT = (Standing.EMPTY, Standing.WITH_MESSAGES, Standing.USED)


def _same(operation: Operation, deed: Deed) -> dict[tuple[Operation, Standing], Deed]:
    return {(operation, standing): deed for standing in _PRESENT}


#: (operation, standing) -> the deed, or the condition and the sentence of a refusal.
OPERATIONS: dict[tuple[Operation, Standing], Deed | tuple[str, str]] = {
    **{(operation, Standing.ABSENT): _ABSENT for operation in Operation},
    (Operation.CREATE, Standing.ABSENT): Deed.CREATE,
    (Operation.CREATE, Standing.EMPTY): _EXISTS,
    (Operation.CREATE, Standing.WITH_MESSAGES): _EXISTS,
    (Operation.CREATE, Standing.USED): _EXISTS,
    **_same(Operation.UPDATE, Deed.CONFIGURE),
    **_same(Operation.PAUSE, Deed.PAUSE),
    **_same(Operation.RESUME, Deed.RESUME),
    **_same(Operation.PURGE, Deed.MOVE),
    **_same(Operation.REWIND, Deed.MOVE),
    **_same(Operation.SKIP, Deed.MOVE),
    **_same(Operation.REDRIVE, Deed.REDRIVE),
    (Operation.CLOSE, Standing.EMPTY): Deed.NOTHING,
    (Operation.CLOSE, Standing.WITH_MESSAGES): Deed.NOTHING,
    (Operation.CLOSE, Standing.USED): Deed.END_LINKS,
    (Operation.DELETE, Standing.EMPTY): Deed.DELETE,
    (Operation.DELETE, Standing.WITH_MESSAGES): _HAS_MESSAGES,
    (Operation.DELETE, Standing.USED): _USED,
    (Operation.DELETE_ANYWAY, Standing.EMPTY): Deed.DELETE,
    (Operation.DELETE_ANYWAY, Standing.WITH_MESSAGES): Deed.DELETE,
    (Operation.DELETE_ANYWAY, Standing.USED): Deed.END_AND_DELETE,
}

#: Deeds that do nothing when the subscription is paused (True), or isn't (False).
_SO: dict[Deed, bool] = {Deed.PAUSE: True, Deed.RESUME: False}

#: The recorded event of each operation that changes a subscription.
EVENTS: dict[Operation, SubscriptionEvent] = {
    Operation.CREATE: SubscriptionEvent.CREATED,
    Operation.UPDATE: SubscriptionEvent.CONFIGURED,
    Operation.PAUSE: SubscriptionEvent.PAUSED,
    Operation.RESUME: SubscriptionEvent.RESUMED,
    Operation.PURGE: SubscriptionEvent.PURGED,
    Operation.REWIND: SubscriptionEvent.REWOUND,
    Operation.SKIP: SubscriptionEvent.REWOUND,
    Operation.DELETE: SubscriptionEvent.DELETED,
    Operation.DELETE_ANYWAY: SubscriptionEvent.DELETED,
}


def standing(*, present: bool, users: int, queue: bool, owed: bool) -> Standing:
    """Return the state of a subscription. `users` are its consumers and a queue's producers;
    `owed`: it may have messages that aren't settled."""
    if not present:
        return Standing.ABSENT
    if users:
        return Standing.USED
    return Standing.WITH_MESSAGES if queue and owed else Standing.EMPTY


def decide(
    operation: Operation, stands: Standing, key: SubscriptionKey, *, paused: bool
) -> Deed | AmqpError:
    """Decide about an operation on the subscription with this key: its deed, or its refusal."""
    row = OPERATIONS[operation, stands]
    if not isinstance(row, Deed):
        return AmqpError(row[0], row[1].format(key.id))
    return Deed.NOTHING if _SO.get(row) is paused else row


def new_floor(
    operation: Operation, to: int, *, floor: int, first: int, head: int
) -> int | AmqpError:
    """Return the subscription's new floor: `to`, or why that isn't possible.

    `floor` is its floor, `first` the earliest sequence that the log keeps, `head` the sequence of
    the next message.
    """
    if to > head:
        return AmqpError(
            PRECONDITION_FAILED,
            f"sequence {to} is beyond the end: the next message gets sequence {head}",
        )
    if to < first:
        return AmqpError(
            PRECONDITION_FAILED,
            f"sequence {to} is beyond retention: the earliest that is kept is {first}",
        )
    if operation is Operation.SKIP and to < floor:
        return AmqpError(
            PRECONDITION_FAILED,
            f"a skip goes forward, and sequence {to} lies before {floor}; rewind goes back",
        )
    return to
