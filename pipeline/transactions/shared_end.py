"""The end of a transaction with work in several logs, at the gateway of its client.

A machine without I/O. One of its logs decides. That log is told of the decision to come, then the
others prepare their parts. When all have, the deciding log commits its own part, else it rolls it
back; it tells the other logs the outcome (`decisions`).

Rule 1: the next step is a row of ROWS; other steps are bugs.
Rule 2: the log that decides is asked to commit once at most, and when all others have prepared.
Rule 3: that log's answer is the client's. Until it is asked to commit nothing is done, whichever
        gateways are lost.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import InDoubt
from distributary.pipeline.transition_rows import row_of


class State(StrEnum):
    NAMING = "naming"  #: the log that decides hears of the decision to come
    PREPARING = "preparing"
    FAILING = "failing"  #: a log couldn't prepare; some haven't answered yet
    DECIDING = "deciding"
    UNDOING = "undoing"
    GONE = "gone"  #: the client has its answer


class Event(StrEnum):
    DONE = "done"  #: a log has fulfilled its request
    FAILED = "failed"  #: a log has refused or failed it
    ALL = "all"  #: all that were asked have answered


class Step(StrEnum):
    """The action after an event."""

    WAIT = "wait"
    PREPARE = "prepare"  #: ask all logs but the one that decides
    DECIDE = "decide"  #: ask that one to commit
    UNDO = "undo"  #: ask that one to roll back; it tells the others
    UNDO_ALL = "undo_all"  #: ask all logs to roll back: none has prepared
    ANSWER = "answer"  #: answer the client


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
    """The end of one transaction with `others` logs beside the one that decides. The caller takes
    the actions that its methods return. `answer` is for the client, once GONE; None: success."""

    others: int
    state: State = State.NAMING
    left: int = 1  #: logs that were asked and haven't answered
    answer: AmqpError | InDoubt | None = None

    def roll_back(self, reason: AmqpError | None) -> Step:
        """Roll back in all logs, as the client wants, or because a part failed (`reason`)."""
        self.answer = reason
        self.state, self.left = State.UNDOING, self.others + 1
        return Step.UNDO_ALL

    def answered(self, ending: AmqpError | InDoubt | None) -> Step:
        """Take a log's answer to its request, None for success, and return the next action."""
        self.left -= 1
        if self.state is not State.UNDOING:  # a rollback succeeds even if a gateway is lost
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
