"""What is done to a subscription from outside of its links, and when it may be.

Rule 1: every decision is a row of a table below.
Rule 2: what is so already is no error, and isn't done again.
Rule 3: a refusal is a value with a sentence, not an exception; it changes nothing.
Rule 4: who calls decides and performs in one step, as in `pipeline.subscriptions.registry`.
"""

from enum import StrEnum

from distributary.pipeline.model.amqp_error import LOCKED, NOT_FOUND, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionEvent, SubscriptionKey


class Operation(StrEnum):
    """The words are those of requests, in capitals there."""

    CREATE = "create"
    UPDATE = "update"  #: give it another policy
    PAUSE = "pause"  #: its consumers get nothing until it is resumed
    RESUME = "resume"
    PURGE = "purge"  #: drop its backlog
    REWIND = "rewind"  #: owe it what lies from a place on, which may be settled long since
    SKIP = "skip"  #: drop what lies before a place, or before now
    REDRIVE = "redrive"  #: send its dead letters back to where they came from
    CLOSE = "close"  #: end its consumers' links; they may come again
    DELETE = "delete"
    DELETE_ANYWAY = "delete anyway"  #: its links end, what it has is lost


class Standing(StrEnum):
    """What there is under a subscription's key."""

    ABSENT = "absent"
    EMPTY = "empty"  #: nobody uses it, and deleting it loses nothing
    WITH_MESSAGES = "with messages"  #: a queue that nobody uses, and that has messages
    USED = "used"  #: it has consumers, or, if it is a queue, producers


class Deed(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"  #: it is so already
    CREATE = "create"
    CONFIGURE = "configure"
    PAUSE = "pause"
    RESUME = "resume"
    MOVE = "move"  #: it is owed what lies from another place on
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


#: (operation, standing) -> what is to be done, or the condition and the sentence of a refusal.
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

#: What is so already when a subscription is (True) or isn't paused.
_SO: dict[Deed, bool] = {Deed.PAUSE: True, Deed.RESUME: False}

#: What is recorded of an operation that changes a subscription.
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
    """What there is under the key. `users` are the subscription's consumers and a queue's
    producers; `owed`: it may have messages that aren't settled."""
    if not present:
        return Standing.ABSENT
    if users:
        return Standing.USED
    return Standing.WITH_MESSAGES if queue and owed else Standing.EMPTY


def decide(
    operation: Operation, stands: Standing, key: SubscriptionKey, *, paused: bool
) -> Deed | AmqpError:
    """What the operation does to the subscription of this key, or why it is refused."""
    row = OPERATIONS[operation, stands]
    if not isinstance(row, Deed):
        return AmqpError(row[0], row[1].format(key.id))
    return Deed.NOTHING if _SO.get(row) is paused else row


def new_floor(
    operation: Operation, to: int, *, floor: int, first: int, head: int
) -> int | AmqpError:
    """The sequence from which on the subscription is owed all: `to`, if that is possible, or why
    not.

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
