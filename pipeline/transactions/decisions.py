"""Transactions over several logs, in the log that decides them: which is to be, which isn't.

A machine without I/O. One of the logs decides: its commit's group has the decision, beside its own
part of the work. The others have prepared theirs before, and commit when they hear of it. Where a
transaction manager is to decide, that log prepares its own part, too, under the manager's id, and
decides by its word (`prepared_transactions`). Nothing is written of what isn't decided: who is
asked for one that nobody knows says that it isn't to be ("presumed abort").

Rule 1: what a transaction does next is a row of ROWS; a row that isn't there can't come.
Rule 2: it is known before any other log is asked to prepare, and its name never comes twice. So
        one that isn't known was undone, or is committed everywhere, for good, or was given up.
Rule 3: what is decided is known until every other log has committed, or an operator gives those
        up that have yet to: logs that are lost for good.
Rule 4: a log that has prepared a part hears a row of OUTCOMES when it asks; each of its parts is
        asked for in its turn (`Questions`).
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
    UNDONE = "undone"  #: the other logs are told, once; who doesn't hear asks
    GONE = "gone"


class Event(StrEnum):
    COMMIT = "commit"  #: its own part is committed
    DURABLE = "durable"  #: that is
    UNDO = "undo"  #: its own part is rolled back, or lost
    TOLD = "told"  #: every other log has ended its part, or (of an undone one) was told
    GIVE_UP = "give_up"  #: the logs that have yet to end theirs are lost for good


class Step(StrEnum):
    """What is done then."""

    RECORD = "record"  #: the decision goes into the group with the work
    TELL = "tell"  #: the other logs are told
    COMPLETE = "complete"  #: that no log is waited for any more is recorded
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
    """What a log that has prepared its part hears."""

    OPEN = "open"  #: nobody knows yet
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


OUTCOMES: dict[State, Outcome] = {
    State.LIVE: Outcome.OPEN,
    State.DECIDING: Outcome.OPEN,
    State.DECIDED: Outcome.COMMITTED,
    State.UNDONE: Outcome.ROLLED_BACK,
    State.GONE: Outcome.ROLLED_BACK,  # committed, every log has, and none asks; or it was given up
}


class Decision(msgspec.Struct, eq=False):
    """One of them: its id, the other logs that have a part in it, and those of them that have yet
    to end theirs; of a decided one whose it is, and when it was decided (microseconds)."""

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
        """Whether it is to be."""
        return self.state is State.DECIDED

    def step(self, event: Event) -> Step:
        """What comes of this. Raises IllegalTransition for what can't be."""
        self.state, step = row_of(ROWS, self.state, event)
        return step


class Decisions:
    """All that one log decides, by their ids."""

    __slots__ = ("_all", "_most")

    def __init__(self, most: int) -> None:
        """So many are known at most, but for those that were decided before a start."""
        self._most = most
        self._all: dict[str, Decision] = {}

    def name(self, id_: str, logs: tuple[str, ...]) -> AmqpError | None:
        """One more is to be decided here; or why it can't be."""
        if id_ in self._all:
            return AmqpError(PRECONDITION_FAILED, f"the transaction {id_} is known already")
        if len(self._all) >= self._most:
            text = f"{self._most} transactions over several logs have no end in all of them, the "
            return AmqpError(LIMIT_EXCEEDED, f"{text}most that may be (amqp.prepared_max)")
        self._all[id_] = Decision(id_, logs)
        return None

    def restore(self, id_: str, logs: tuple[str, ...], user: str, at: int) -> None:
        """One was decided before a start."""
        self._all[id_] = Decision(id_, logs, State.DECIDED, user, at)

    def reopen(self, id_: str, logs: tuple[str, ...]) -> None:
        """One is prepared here since before a start: a transaction manager has yet to decide it."""
        self._all[id_] = Decision(id_, logs)

    def get(self, id_: str) -> Decision | None:
        """That one, if it is known."""
        return self._all.get(id_)

    def outcome(self, id_: str) -> Outcome:
        """What who has prepared a part of it hears."""
        found = self._all.get(id_)
        return OUTCOMES[State.GONE if found is None else found.state]

    def told(self, id_: str, log: str) -> Step | None:
        """This log has ended its part, or was told. What is done, when it was the last one."""
        one = self._all.get(id_)
        if one is None:  # the log was given up while it answered
            return None
        one.left.discard(log)
        if one.left:
            return None
        del self._all[id_]
        return one.step(Event.TOLD)

    def give_up(self, id_: str) -> None:
        """None of the logs that have yet to commit it is waited for any more. Raises
        IllegalTransition where it isn't decided."""
        self._all[id_].step(Event.GIVE_UP)
        del self._all[id_]

    def waiting(self) -> list[Decision]:
        """Those that are decided and that other logs have yet to commit."""
        return [one for one in self._all.values() if one.commits]

    def telling(self) -> list[Decision]:
        """Those of which other logs are to be told."""
        return [one for one in self._all.values() if one.state in (State.DECIDED, State.UNDONE)]


class Questions(msgspec.Struct):
    """For which of the parts that wait a log asks next: `most` at a time, each in its turn. What
    waits for a transaction manager waits for days perhaps, and is asked for all that time."""

    most: int
    asked: int = 0  #: in this round

    def of(self, waiting: Sequence[T]) -> Sequence[T]:
        """The next ones of those that wait, the oldest first. When some have ended meanwhile, as
        many others may be left to the next round."""
        at = self.asked if self.asked < len(waiting) else 0
        self.asked = at + self.most
        return waiting[at : self.asked]
