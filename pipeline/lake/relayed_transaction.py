"""A transaction whose work is in another gateway's log: what the owner of that log knows of it.

A machine without I/O. The client's transaction is declared at its gateway; with its first work the
owner is asked for one of its own, all work goes there, and so does the end.

Rule 1: what a transaction does next is a row of ROWS; a row that isn't there can't come.
Rule 2: the owner is asked once at most to end it, and when it has all of the work.
Rule 3: a commit is answered as done only where the owner has said so. Where the owner was lost
        before it was asked nothing is done; where it was lost after that nobody knows.
Rule 4: of what a part failed can only be rolled back.
Rule 5: where other logs have work of the transaction, too, the owner prepares its part of it, and
        nothing of it is in doubt: the log that decides hasn't been asked. Or it is the one that
        decides, and is told of that before.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import InDoubt
from distributary.pipeline.transition_rows import row_of


class Owned(StrEnum):
    """How far the owner is with it."""

    WAITING = "waiting"  #: no owner has heard of it
    DECLARING = "declaring"  #: the owner is asked for it
    OPEN = "open"  #: the owner has it
    NAMING = "naming"  #: the owner is told that its commit decides for other logs, too
    COMMITTING = "committing"  #: the client has; the owner hasn't all of the work yet
    COMMIT_ASKED = "commit_asked"
    ROLLING_BACK = "rolling_back"  #: what the owner was sent of it isn't all answered yet
    ROLL_BACK_ASKED = "roll_back_asked"
    LOST = "lost"  #: no owner has it any more, or will: it can only be rolled back
    GONE = "gone"  #: the client has its answer


class Event(StrEnum):
    WORK = "work"  #: messages were sent in it, or deliveries given an outcome
    DECLARE = "declare"  #: there is an owner to be asked
    DECLARED = "declared"  #: the owner has given it a number
    SPOIL = "spoil"  #: a part of the work can't be done
    LOSE = "lose"  #: the owner is lost, doesn't want it, or was waited for long enough
    NAME = "name"  #: the owner is to hear that its commit decides
    NAMED = "named"  #: it knows, or doesn't want to
    COMMIT = "commit"
    ROLL_BACK = "roll_back"
    PASSED = "passed"  #: the owner has answered all that it was sent
    ANSWERED = "answered"  #: the owner has ended it


class Step(StrEnum):
    """What is done then."""

    KEEP = "keep"  #: nothing
    HOLD = "hold"  #: what came waits
    SEND = "send"  #: what came, and what waits, goes to the owner
    DROP = "drop"  #: what waits never goes there
    REFUSE = "refuse"  #: neither does what comes
    DECLARE = "declare"  #: ask the owner
    NAME = "name"
    TELL = "tell"  #: who wanted the owner to hear it hears whether it has
    COMMIT = "commit"
    ROLL_BACK = "roll_back"
    DONE = "done"  #: the client's answer is the owner's
    UNDONE = "undone"  #: the client hears that nothing of it is done
    IN_DOUBT = "in_doubt"  #: the client hears that nobody knows


ROWS: dict[tuple[Owned, Event], tuple[Owned, Step]] = {
    (Owned.WAITING, Event.WORK): (Owned.WAITING, Step.HOLD),
    (Owned.WAITING, Event.DECLARE): (Owned.DECLARING, Step.DECLARE),
    (Owned.WAITING, Event.SPOIL): (Owned.WAITING, Step.KEEP),
    (Owned.WAITING, Event.LOSE): (Owned.LOST, Step.DROP),
    (Owned.WAITING, Event.NAME): (Owned.WAITING, Step.HOLD),
    (Owned.WAITING, Event.COMMIT): (Owned.WAITING, Step.HOLD),
    (Owned.WAITING, Event.ROLL_BACK): (Owned.GONE, Step.UNDONE),
    (Owned.DECLARING, Event.WORK): (Owned.DECLARING, Step.HOLD),
    (Owned.DECLARING, Event.DECLARED): (Owned.OPEN, Step.SEND),
    (Owned.DECLARING, Event.SPOIL): (Owned.DECLARING, Step.KEEP),
    (Owned.DECLARING, Event.LOSE): (Owned.LOST, Step.DROP),
    (Owned.DECLARING, Event.NAME): (Owned.DECLARING, Step.HOLD),
    (Owned.DECLARING, Event.COMMIT): (Owned.DECLARING, Step.HOLD),
    (Owned.DECLARING, Event.ROLL_BACK): (Owned.DECLARING, Step.HOLD),
    (Owned.OPEN, Event.WORK): (Owned.OPEN, Step.SEND),
    (Owned.OPEN, Event.SPOIL): (Owned.OPEN, Step.KEEP),
    (Owned.OPEN, Event.LOSE): (Owned.LOST, Step.DROP),
    (Owned.OPEN, Event.NAME): (Owned.NAMING, Step.NAME),
    (Owned.OPEN, Event.COMMIT): (Owned.COMMITTING, Step.KEEP),
    (Owned.OPEN, Event.ROLL_BACK): (Owned.ROLLING_BACK, Step.DROP),
    (Owned.NAMING, Event.NAMED): (Owned.OPEN, Step.TELL),
    (Owned.NAMING, Event.SPOIL): (Owned.NAMING, Step.KEEP),
    (Owned.NAMING, Event.LOSE): (Owned.LOST, Step.DROP),
    (Owned.COMMITTING, Event.PASSED): (Owned.COMMIT_ASKED, Step.COMMIT),
    (Owned.COMMITTING, Event.SPOIL): (Owned.ROLLING_BACK, Step.DROP),
    (Owned.COMMITTING, Event.LOSE): (Owned.GONE, Step.UNDONE),
    (Owned.COMMIT_ASKED, Event.ANSWERED): (Owned.GONE, Step.DONE),
    (Owned.COMMIT_ASKED, Event.LOSE): (Owned.GONE, Step.IN_DOUBT),
    # Whoever is lost with it, or finds its peer gone, does nothing of it.
    (Owned.ROLLING_BACK, Event.PASSED): (Owned.ROLL_BACK_ASKED, Step.ROLL_BACK),
    (Owned.ROLLING_BACK, Event.SPOIL): (Owned.ROLLING_BACK, Step.KEEP),
    (Owned.ROLLING_BACK, Event.LOSE): (Owned.GONE, Step.UNDONE),
    (Owned.ROLL_BACK_ASKED, Event.ANSWERED): (Owned.GONE, Step.UNDONE),
    (Owned.ROLL_BACK_ASKED, Event.LOSE): (Owned.GONE, Step.UNDONE),
    (Owned.LOST, Event.WORK): (Owned.LOST, Step.REFUSE),
    (Owned.LOST, Event.SPOIL): (Owned.LOST, Step.KEEP),
    (Owned.LOST, Event.LOSE): (Owned.LOST, Step.KEEP),
    (Owned.LOST, Event.NAME): (Owned.LOST, Step.TELL),
    (Owned.LOST, Event.COMMIT): (Owned.GONE, Step.UNDONE),
    (Owned.LOST, Event.ROLL_BACK): (Owned.GONE, Step.UNDONE),
}
#: Whether work goes to the owner: it has the transaction, and has yet to be asked for its end.
PASSING = frozenset({Owned.OPEN, Owned.NAMING, Owned.COMMITTING})
ENDS = frozenset({Step.DONE, Step.UNDONE, Step.IN_DOUBT})


class RelayedTransaction(msgspec.Struct, eq=False):
    """One of them. What its methods give is to be done in that order. `left` counts the messages of
    it that the owner hasn't answered, whether they wait here or are on their way."""

    log: str
    state: Owned = Owned.WAITING
    left: int = 0
    there: int = 0  #: the owner's number for it
    reason: AmqpError | None = None  #: why it can only be rolled back
    wanted: Event | None = None  #: how the client ends it; before that, that the owner hears NAME
    branch: bool = False  #: its commit prepares the owner's part of it
    answer: AmqpError | InDoubt | None = None  #: of that end, when it is GONE; None: it is done

    @property
    def passing(self) -> bool:
        """Whether its work goes to the owner now."""
        return self.state in PASSING

    def work(self, messages: int) -> Step:
        """So many messages came in it, or none but outcomes of deliveries: those of one that can
        only be rolled back stay with it until its end."""
        step = self._step(Event.WORK)
        if messages and self.reason is not None:
            return Step.REFUSE
        if step is not Step.REFUSE:
            self.left += messages
        return step

    def declare(self) -> list[Step]:
        """There is an owner to be asked."""
        return [self._step(Event.DECLARE)]

    def declared(self, there: int) -> list[Step]:
        """The owner has it, under this number."""
        self.there = there
        return self._go_on([self._step(Event.DECLARED)])

    def answered(self, messages: int) -> list[Step]:
        """So many messages have the owner's outcome, or will never be sent."""
        self.left -= messages
        return self._go_on([])

    def spoil(self, reason: AmqpError) -> list[Step]:
        """A part of the work can't be done. Once the owner was asked for the end it has all of it,
        and nothing can fail here."""
        if (self.state, Event.SPOIL) not in ROWS:
            return []
        self.reason = self.reason or reason
        return self._go_on([self._step(Event.SPOIL)])

    def lose(self, reason: AmqpError) -> list[Step]:
        """No owner has it any more."""
        self.reason = self.reason or reason
        return self._go_on([self._step(Event.LOSE)])

    def name(self) -> list[Step]:
        """The owner is to hear that with its commit it decides. Work may be on its way to it; none
        comes any more."""
        self.wanted = Event.NAME
        return self._go_on([])

    def named(self, refusal: AmqpError | None) -> list[Step]:
        """The owner has heard it, or says why it can't be."""
        self.wanted = None
        self.reason = self.reason or refusal
        return [self._step(Event.NAMED)]

    def end(self, *, commit: bool, branch: bool = False) -> list[Step]:
        """The client ends it; with other logs in it a commit prepares this `branch` of it."""
        self.branch = branch
        self.wanted = Event.COMMIT if commit else Event.ROLL_BACK
        return self._go_on([])

    def ended(self, refusal: AmqpError | None) -> list[Step]:
        """The owner has ended it, or says why it didn't commit."""
        self.reason = self.reason or refusal
        return [self._step(Event.ANSWERED)]

    def _go_on(self, steps: list[Step]) -> list[Step]:
        """What is due then: the end that waited, the question that waited for all of the work."""
        if self.wanted is not None and (self.state, self.wanted) in ROWS:
            commits = self.wanted is Event.COMMIT
            event = Event.ROLL_BACK if commits and self.reason else self.wanted
            steps.append(self._step(event))
            if steps[-1] is Step.TELL:
                self.wanted = None
        if self.left == 0 and (self.state, Event.PASSED) in ROWS:
            steps.append(self._step(Event.PASSED))
        return steps

    def _step(self, event: Event) -> Step:
        self.state, step = row_of(ROWS, self.state, event)
        if step is Step.IN_DOUBT and not self.branch:
            self.answer = InDoubt(
                f"the owner of the log '{self.log}' was lost while it committed: nobody knows "
                "whether the transaction is done"
            )
        elif step in ENDS:
            refused = step is Step.DONE or self.wanted is Event.COMMIT
            self.answer = self.reason if refused else None
        return step
