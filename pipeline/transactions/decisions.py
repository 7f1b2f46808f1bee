"""Transactions over several logs, in the log that decides them: commit or rollback.

A machine without I/O. One of the logs decides: its commit's group has the decision, beside its own
part of the work. The others have prepared their parts before, and commit when they are told. Where
a transaction manager decides, that log prepares its own part, too, under the manager's id, and
decides when the manager does (`prepared_transactions`). Only decisions to commit are written: the
answer for an unknown transaction is that it is rolled back ("presumed abort").

Rule 1: a transaction's next step is a row of ROWS; other steps are bugs.
Rule 2: a transaction is known before any other log is asked to prepare, and its id is never used
        twice. So an unknown one was rolled back, is committed in all logs, or was given up.
Rule 3: a decided transaction is known until every other log has committed it, or an operator gives
        up the logs that haven't, as they are lost for good.
Rule 4: a log that has prepared a part is answered by a row of OUTCOMES when it asks; it asks for
        its parts in turn (`Questions`).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.transition_rows import row_of

T = TypeVar("T")


class State(StrEnum):
    LIVE = "live"  #: other logs may be asked to prepare
    DECIDING = "deciding"  #: its commit's group isn't durable yet
    DECIDED = "decided"
    UNDONE = "undone"  #: the other logs are told, once; a log that misses it asks
    GONE = "gone"


class Event(StrEnum):
    COMMIT = "commit"  #: its own part is committed
    DURABLE = "durable"  #: that commit is durable
    UNDO = "undo"  #: its own part is rolled back, or lost
    TOLD = "told"  #: every other log has ended its part, or (of an undone one) was told
    GIVE_UP = "give_up"  #: the logs that have yet to end theirs are lost for good


class Step(StrEnum):
    """The action after an event."""

    RECORD = "record"  #: the decision goes into the group with the work
    TELL = "tell"  #: the other logs are told
    COMPLETE = "complete"  #: record that no log is waited for any more
    FORGET = "forget"


ROWS: dict[tuple[State, Event], tuple[State, Step]] = {
    (State.LIVE, Event.COMMIT): (State.DECIDING, Step.RECORD),
    (State.LIVE, Event.UNDO): (State.UNDONE, Step.TELL),
    (State.DECIDING, Event.DURABLE): (State.DECIDED, Step.TELL),
    (State.DECIDED, Event.TOLD): (State.GONE, Step.COMPLETE),
    (State.DECIDED, Event.GIVE_UP): (State.GONE, Step.COMPLETE),
    (State.UNDONE, Event.TOLD): (State.GONE, Step.FORGET),
}


class Outcome(StrEnum):
    """Answer to a log that has prepared its part."""

    OPEN = "open"  #: not decided yet
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


OUTCOMES: dict[State, Outcome] = {
    State.LIVE: Outcome.OPEN,
    State.DECIDING: Outcome.OPEN,
    State.DECIDED: Outcome.COMMITTED,
    State.UNDONE: Outcome.ROLLED_BACK,
    # Of a committed one no log asks any more: all have committed their parts, or were given up.
    State.GONE: Outcome.ROLLED_BACK,
}


class Decision(msgspec.Struct, eq=False):
    """One transaction: its id, the other logs that have a part in it, and those of them (`left`)
    that haven't ended their part; once decided, its user and the time (`at`, microseconds)."""

    id: str
    logs: tuple[str, ...]
    state: State = State.LIVE
    user: str = ""
    at: int = 0
    left: set[str] = msgspec.field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = set(self.logs)

    @property
    def commits(self) -> bool:
        """Whether the decision is to commit."""
        return self.state is State.DECIDED

    def step(self, event: Event) -> Step:
        """Apply an event and return the action. Raises IllegalTransition where ROWS has no row."""
        self.state, step = row_of(ROWS, self.state, event)
        return step


class Decisions:
    """All transactions that one log decides, by their ids."""

    __slots__ = ("_all", "_most")

    def __init__(self, most: int) -> None:
        """`most`: limit of known transactions; those decided before a start may exceed it."""
        self._most = most
        self._all: dict[str, Decision] = {}

    def name(self, id_: str, logs: tuple[str, ...]) -> AmqpError | None:
        """Add a transaction to be decided here; return why that isn't possible, or None."""
        if id_ in self._all:
            return AmqpError(PRECONDITION_FAILED, f"the transaction {id_} is known already")
        if len(self._all) >= self._most:
            text = f"{self._most} transactions over several logs have no end in all of them, the "
            return AmqpError(LIMIT_EXCEEDED, f"{text}most that may be (amqp.prepared_max)")
        self._all[id_] = Decision(id_, logs)
        return None

    def restore(self, id_: str, logs: tuple[str, ...], user: str, at: int) -> None:
        """Add a transaction that was decided before a start."""
        self._all[id_] = Decision(id_, logs, State.DECIDED, user, at)

    def reopen(self, id_: str, logs: tuple[str, ...]) -> None:
        """Add a transaction that was prepared here before a start, and that its transaction manager
        hasn't decided."""
        self._all[id_] = Decision(id_, logs)

    def get(self, id_: str) -> Decision | None:
        """Return the transaction with this id; None if it is unknown."""
        return self._all.get(id_)

    def outcome(self, id_: str) -> Outcome:
        """Return the answer to a log that has prepared a part of the transaction."""
        found = self._all.get(id_)
        return OUTCOMES[State.GONE if found is None else found.state]

    def told(self, id_: str, log: str) -> Step | None:
        """Take note that a log has ended its part, or was told of a rollback. Return the next
        action when it was the last log, else None."""
        one = self._all.get(id_)
        if one is None:  # the log was given up while it answered
            return None
        one.left.discard(log)
        if one.left:
            return None
        del self._all[id_]
        return one.step(Event.TOLD)

    def give_up(self, id_: str) -> None:
        """Stop waiting for the logs that haven't committed their part. Raises IllegalTransition
        where the transaction isn't decided."""
        self._all[id_].step(Event.GIVE_UP)
        del self._all[id_]

    def waiting(self) -> list[Decision]:
        """Return the decided transactions that other logs have yet to commit."""
        return [one for one in self._all.values() if one.commits]

    def telling(self) -> list[Decision]:
        """Return the transactions whose decision other logs are to be told."""
        return [one for one in self._all.values() if one.state in (State.DECIDED, State.UNDONE)]


class Questions(msgspec.Struct):
    """The waiting parts whose outcome a log asks for next: `most` at a time, in turn. A part may
    wait for days for a transaction manager, and is asked for all that time."""

    most: int
    asked: int = 0  #: parts asked for in this round

    def of(self, waiting: Sequence[T]) -> Sequence[T]:
        """Return the next of the waiting parts, which are sorted by age. If some have ended since
        the last call, as many others may be skipped until the next round."""
        at = self.asked if self.asked < len(waiting) else 0
        self.asked = at + self.most
        return waiting[at : self.asked]
