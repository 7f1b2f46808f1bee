"""Transactions that are prepared: their work is durable, and waits for the word of a transaction
manager.

A machine without I/O. Its records in the log are what is true: `prepared` with the whole work,
which nobody sees yet, then one end with the work itself, in one group.

Rule 1: what one does next is a row of ROWS; a row that isn't there can't come.
Rule 2: a prepared one ends by an answer to COMMIT or ROLLBACK alone: no time, no loss of a
        connection, no restart ends it. Both may be asked for again until they are answered.
Rule 3: what is asked while the record of the step before isn't durable waits for that.
Rule 4: each user has global ids of its own: what one has prepared is in no other one's way.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from distributary.pipeline.model.amqp_error import (
    LIMIT_EXCEEDED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    AmqpError,
)
from distributary.pipeline.transition_rows import row_of


class State(StrEnum):
    PREPARING = "preparing"  #: its record isn't durable yet: nobody was told of it
    PREPARED = "prepared"
    COMMITTING = "committing"  #: its end isn't durable yet
    ROLLING_BACK = "rolling_back"
    GONE = "gone"  #: ended; nobody knows its id any more


class Event(StrEnum):
    DURABLE = "durable"  #: what was recorded last is
    COMMIT = "commit"
    ROLL_BACK = "roll_back"


class Step(StrEnum):
    """What is done then."""

    ANSWER = "answer"  #: who waits hears of it
    APPLY = "apply"  #: its work and the record of its end become one group
    UNDO = "undo"  #: the record of its end is written, and what it retired is given back
    WAIT = "wait"  #: ask again when all that waits now is durable
    REFUSE = "refuse"  #: the other end was asked for before


ROWS: dict[tuple[State, Event], tuple[State, Step]] = {
    (State.PREPARING, Event.DURABLE): (State.PREPARED, Step.ANSWER),
    (State.PREPARING, Event.COMMIT): (State.PREPARING, Step.WAIT),
    (State.PREPARING, Event.ROLL_BACK): (State.PREPARING, Step.WAIT),
    (State.PREPARED, Event.COMMIT): (State.COMMITTING, Step.APPLY),
    (State.PREPARED, Event.ROLL_BACK): (State.ROLLING_BACK, Step.UNDO),
    (State.COMMITTING, Event.DURABLE): (State.GONE, Step.ANSWER),
    (State.COMMITTING, Event.COMMIT): (State.COMMITTING, Step.WAIT),
    (State.COMMITTING, Event.ROLL_BACK): (State.COMMITTING, Step.REFUSE),
    (State.ROLLING_BACK, Event.DURABLE): (State.GONE, Step.ANSWER),
    (State.ROLLING_BACK, Event.COMMIT): (State.ROLLING_BACK, Step.REFUSE),
    (State.ROLLING_BACK, Event.ROLL_BACK): (State.ROLLING_BACK, Step.WAIT),
}
#: Those of which a transaction manager is told that they wait for its word.
LISTED = frozenset({State.PREPARED, State.COMMITTING, State.ROLLING_BACK})


class Limits(msgspec.Struct, frozen=True):
    """How many may be prepared, how many of one user, and bytes of their records together."""

    count_max: int
    of_user_max: int
    bytes_max: int


class Facts(msgspec.Struct, frozen=True):
    """What is known of one: who prepared it and when (microseconds), the topics that it is about,
    how many messages are posted and deliveries retired in it, and the bytes of its record."""

    user: str
    at: int
    topics: tuple[str, ...]
    messages: int
    deliveries: int
    bytes: int


W = TypeVar("W")  #: the work of one, as its caller keeps it


class Prepared(msgspec.Struct, Generic[W], eq=False):
    """One of them, with its work."""

    id: str  #: its global id, as text
    facts: Facts
    work: W
    state: State = State.PREPARING

    def step(self, event: Event) -> Step:
        """What comes of this. Raises IllegalTransition for what can't be."""
        self.state, step = row_of(ROWS, self.state, event)
        return step


class PreparedTransactions(Generic[W]):
    """All of one log, by their users and global ids."""

    __slots__ = ("_all", "_by_id", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all: dict[tuple[str, str], Prepared[W]] = {}
        self._by_id: dict[str, list[Prepared[W]]] = {}

    def amqp_error(self, id_: str, user: str, size: int = 0) -> AmqpError | None:
        """Why this user can't prepare one more under this id, with a record of so many bytes."""
        limits, all_ = self._limits, self._all.values()
        if (user, id_) in self._all:
            text = f"a transaction is prepared under the global id {id_} already"
            return AmqpError(PRECONDITION_FAILED, text)
        if len(self._all) >= limits.count_max:
            most, of, name = limits.count_max, "", "prepared_max"
        elif sum(one.facts.user == user for one in all_) >= limits.of_user_max:
            most, of, name = limits.of_user_max, f" of user '{user}'", "prepared_of_user_max"
        elif sum(one.facts.bytes for one in all_) + size > limits.bytes_max:
            most, of, name = limits.bytes_max, "", "prepared_bytes_max"
            text = f"the records of prepared transactions may have {most} bytes together"
            return AmqpError(LIMIT_EXCEEDED, f"{text} (amqp.{name}): end some of them")
        else:
            return None
        text = f"{most} transactions{of} are prepared, the most that may be (amqp.{name})"
        return AmqpError(LIMIT_EXCEEDED, f"{text}: end some of them")

    def add(self, one: Prepared[W]) -> None:
        """It is prepared, or was before a restart. The caller has asked `amqp_error`; what was
        prepared before is kept whatever the limits are now."""
        key = one.facts.user, one.id
        assert key not in self._all, key  # noqa: S101
        self._all[key] = one
        self._by_id.setdefault(one.id, []).append(one)

    def get(self, id_: str) -> list[Prepared[W]]:
        """Those that are prepared under this id, each by another user."""
        return [*self._by_id.get(id_, ())]

    def durable(self, one: Prepared[W]) -> None:
        """What was recorded of it last is on the disk."""
        one.step(Event.DURABLE)
        if one.state is State.GONE:
            del self._all[one.facts.user, one.id]
            self._by_id[one.id].remove(one)
            if not self._by_id[one.id]:
                del self._by_id[one.id]

    def listed(self) -> Iterable[Prepared[W]]:
        """Those that wait for a transaction manager's word, the oldest first."""
        return [one for one in self._all.values() if one.state in LISTED]


def absent(id_: str) -> AmqpError:
    """That there is none: it ended, or never was one."""
    text = f"no transaction is prepared under the global id {id_}: it ended, or never was one"
    return AmqpError(NOT_FOUND, text)


def ended_otherwise(one: Prepared[W]) -> AmqpError:
    """Why it can't end so: the other end was asked for."""
    return AmqpError(PRECONDITION_FAILED, f"the transaction {one.id} is {one.state} already")
