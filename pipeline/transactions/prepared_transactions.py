"""Prepared transactions: their work is durable, and waits until a transaction manager ends them.

A machine without I/O. Its state is in the log's records: first `prepared` with the whole work,
which no consumer sees yet, then one end together with the work itself, in one group.

Rule 1: a transaction's next step is a row of ROWS; other steps are bugs.
Rule 2: only a COMMIT or ROLLBACK ends a prepared transaction: no time-out, no loss of a
        connection, no restart. Both may be requested again until they are answered.
Rule 3: a request waits while the record of the step before isn't durable.
Rule 4: each user has its own global ids: transactions of different users may have the same id.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from distributary.pipeline.model.amqp_error import (
    LIMIT_EXCEEDED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    AmqpError,
)
from distributary.pipeline.transactions.global_id import is_of_lake
from distributary.pipeline.transactions.recorded_age import is_young
from distributary.pipeline.transition_rows import row_of


class State(StrEnum):
    PREPARING = "preparing"  #: its record isn't durable, so `prepare` isn't answered yet
    PREPARED = "prepared"
    COMMITTING = "committing"  #: its end isn't durable yet
    ROLLING_BACK = "rolling_back"
    GONE = "gone"  #: ended; its id is forgotten


class Event(StrEnum):
    DURABLE = "durable"  #: the last record is durable
    COMMIT = "commit"
    ROLL_BACK = "roll_back"


class Step(StrEnum):
    """The action after an event."""

    ANSWER = "answer"  #: answer the waiting requests
    APPLY = "apply"  #: write its work and the record of its end as one group
    UNDO = "undo"  #: write the record of its end, and give its retired deliveries back
    WAIT = "wait"  #: ask again when all records that wait now are durable
    REFUSE = "refuse"  #: the other end was requested before


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
#: States of the transactions that a transaction manager is told of when it recovers.
LISTED = frozenset({State.PREPARED, State.COMMITTING, State.ROLLING_BACK})


class Limits(msgspec.Struct, frozen=True):
    """Limits: prepared transactions, those of one user, and bytes of all their records."""

    count_max: int
    of_user_max: int
    bytes_max: int


class Facts(msgspec.Struct, frozen=True):
    """Facts about a prepared transaction: its user, its time (`at`, microseconds), its topics, the
    numbers of posted messages and retired deliveries, and the bytes of its record."""

    user: str
    at: int
    topics: tuple[str, ...]
    messages: int
    deliveries: int
    bytes: int


W = TypeVar("W")  #: the caller's form of a transaction's work


class Prepared(msgspec.Struct, Generic[W], eq=False):
    """One prepared transaction, with its work."""

    id: str  #: its global id, as text
    facts: Facts
    work: W
    state: State = State.PREPARING

    def step(self, event: Event) -> Step:
        """Apply an event and return the action. Raises IllegalTransition where ROWS has no row."""
        self.state, step = row_of(ROWS, self.state, event)
        return step


class PreparedTransactions(Generic[W]):
    """All prepared transactions of one log, by user and global id."""

    __slots__ = ("_all", "_by_id", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all: dict[tuple[str, str], Prepared[W]] = {}
        self._by_id: dict[str, list[Prepared[W]]] = {}

    def amqp_error(self, id_: str, user: str, size: int = 0) -> AmqpError | None:
        """Return why this user can't prepare one more transaction under this id, with a record of
        `size` bytes; None if it can."""
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
        """Add a transaction. The caller asks `amqp_error` before, but not for one that was prepared
        before a restart: that is kept whatever the limits are now."""
        key = one.facts.user, one.id
        assert key not in self._all, key  # noqa: S101
        self._all[key] = one
        self._by_id.setdefault(one.id, []).append(one)

    def get(self, id_: str) -> list[Prepared[W]]:
        """Return the transactions with this id, each of another user."""
        return [*self._by_id.get(id_, ())]

    def durable(self, one: Prepared[W]) -> None:
        """Take note that a transaction's last record is durable."""
        one.step(Event.DURABLE)
        if one.state is State.GONE:
            del self._all[one.facts.user, one.id]
            self._by_id[one.id].remove(one)
            if not self._by_id[one.id]:
                del self._by_id[one.id]

    def listed(self) -> Iterable[Prepared[W]]:
        """Return the transactions that wait for a transaction manager, the oldest first."""
        return [one for one in self._all.values() if one.state in LISTED]

    def undecided(self, now: int, within: int) -> Sequence[Prepared[W]]:
        """Return those that wait for another log's decision and are no younger than `within`
        (microseconds), the oldest first."""
        found = [one for one in self._all.values() if one.state is State.PREPARED]
        found = [one for one in found if not is_young(one.facts.at, now, within)]
        return [one for one in found if is_of_lake(one.id)]


def absent(id_: str) -> AmqpError:
    """Return the refusal of an unknown global id."""
    text = f"no transaction is prepared under the global id {id_}: it ended, or never was one"
    return AmqpError(NOT_FOUND, text)


def ended_otherwise(one: Prepared[W]) -> AmqpError:
    """Return the refusal of an end when the other one was requested before."""
    return AmqpError(PRECONDITION_FAILED, f"the transaction {one.id} is {one.state} already")
