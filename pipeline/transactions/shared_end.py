"""The end of a transaction with work in several logs, at the gateway of its client.

A machine without I/O. One of its logs decides. That one is told of the decision to come, then the
others prepare their parts; when all have, it decides by committing its own, else it is rolled back.
What the others do then is between them and the log that decides (`decisions`).

Rule 1: what follows what is a row of ROWS; a row that isn't there can't come.
Rule 2: the log that decides is asked to commit once at most, and when all others have prepared.
Rule 3: its answer is the client's. Before it was asked nothing is done, whoever is lost.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import InDoubt
from distributary.pipeline.transition_rows import row_of


class State(StrEnum):
    NAMING = "naming"  #: the log that decides hears of the decision to come
    PREPARING = "preparing"
    FAILING = "failing"  #: one couldn't; the others haven't all answered
    DECIDING = "deciding"
    UNDOING = "undoing"
    GONE = "gone"  #: the client has its answer


class Event(StrEnum):
    DONE = "done"  #: a log has done what it was asked for
    FAILED = "failed"  #: or hasn't
    ALL = "all"  #: all that were asked have answered


class Step(StrEnum):
    """What is done then."""

    WAIT = "wait"
    PREPARE = "prepare"  #: ask all logs but the one that decides
    DECIDE = "decide"  #: ask that one to commit
    UNDO = "undo"  #: it is rolled back, and the others by its word
    UNDO_ALL = "undo_all"  #: all are rolled back: none has prepared
    ANSWER = "answer"  #: the client


ROWS: dict[tuple[State, Event], tuple[State, Step]] = {
    (State.NAMING, Event.DONE): (State.NAMING, Step.WAIT),
    (State.NAMING, Event.FAILED): (State.UNDOING, Step.UNDO_ALL),
    (State.NAMING, Event.ALL): (State.PREPARING, Step.PREPARE),
    (State.PREPARING, Event.DONE): (State.PREPARING, Step.WAIT),
    (State.PREPARING, Event.FAILED): (State.FAILING, Step.WAIT),
    (State.PREPARING, Event.ALL): (State.DECIDING, Step.DECIDE),
    (State.FAILING, Event.DONE): (State.FAILING, Step.WAIT),
    (State.FAILING, Event.FAILED): (State.FAILING, Step.WAIT),
    (State.FAILING, Event.ALL): (State.UNDOING, Step.UNDO),
    (State.DECIDING, Event.DONE): (State.DECIDING, Step.WAIT),
    (State.DECIDING, Event.FAILED): (State.DECIDING, Step.WAIT),
    (State.DECIDING, Event.ALL): (State.GONE, Step.ANSWER),
    (State.UNDOING, Event.DONE): (State.UNDOING, Step.WAIT),
    (State.UNDOING, Event.FAILED): (State.UNDOING, Step.WAIT),
    (State.UNDOING, Event.ALL): (State.GONE, Step.ANSWER),
}


class SharedEnd(msgspec.Struct, eq=False):
    """One of them, of `others` logs beside the one that decides. What its methods give is to be
    done. `answer` is the client's, when it is GONE; None: what it wanted is done."""

    others: int
    state: State = State.NAMING
    left: int = 1  #: that were asked and haven't answered
    answer: AmqpError | InDoubt | None = None

    def roll_back(self, reason: AmqpError | None) -> Step:
        """Instead of all else: its client wants that, or (`reason`) a part of it failed before."""
        self.answer = reason
        self.state, self.left = State.UNDOING, self.others + 1
        return Step.UNDO_ALL

    def answered(self, ending: AmqpError | InDoubt | None) -> Step:
        """A log that was asked has answered: None, it is done; or why not."""
        self.left -= 1
        if self.state is not State.UNDOING:  # a rollback is done, whoever was lost
            self.answer = self.answer or ending
        step = self._step(Event.DONE if ending is None else Event.FAILED)
        if step is Step.WAIT and not self.left:
            step = self._step(Event.ALL)
        match step:
            case Step.PREPARE:
                self.left = self.others
            case Step.DECIDE | Step.UNDO:
                self.left = 1
            case Step.UNDO_ALL:
                self.left = self.others + 1
        return step

    def _step(self, event: Event) -> Step:
        self.state, step = row_of(ROWS, self.state, event)
        return step
