"""A transaction whose work is in another gateway's log: the state of its part at that log's owner.

A machine without I/O. The client declares the transaction at its gateway; with its first work that
gateway declares another one at the owner, all work goes there, and so does the end.

Rule 1: a transaction's next step is a row of ROWS; an event without a row can't come.
Rule 2: the owner is asked at most once to end it, and only when it has all of the work.
Rule 3: a commit is answered as done only where the owner has said so. If the owner was lost before
        it was asked, nothing is done; if it was lost later, the result isn't known.
Rule 4: a transaction of which a part failed can only be rolled back.
Rule 5: where other logs have work of the transaction, too, the owner prepares its part of it, which
        is never in doubt: the log that decides hasn't been asked yet. Or the owner's log is the one
        that decides, and the owner is told so before.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import InDoubt
from distributary.pipeline.transition_rows import row_of


class Owned(StrEnum):
    """The state of the transaction at the owner."""

    WAITING = "waiting"  #: no owner has been asked for it
    DECLARING = "declaring"  #: the owner is asked for it
    OPEN = "open"  #: the owner has it
    NAMING = "naming"  #: the owner is told that its commit decides for other logs, too
    COMMITTING = "committing"  #: the client commits; the owner hasn't answered all of the work yet
    COMMIT_ASKED = "commit_asked"
    ROLLING_BACK = "rolling_back"  #: the owner hasn't answered all work that it was sent
    ROLL_BACK_ASKED = "roll_back_asked"
    LOST = "lost"  #: no owner has it, or will: it can only be rolled back
    GONE = "gone"  #: the client has its answer


class Event(StrEnum):
    WORK = "work"  #: messages were sent in it, or deliveries settled
    DECLARE = "declare"  #: an owner can be asked
    DECLARED = "declared"  #: the owner has given it a number
    SPOIL = "spoil"  #: a part of the work failed
    LOSE = "lose"  #: the owner is lost, refuses it, or didn't answer in time
    NAME = "name"  #: the owner is to be told that its commit decides
    NAMED = "named"  #: the owner has confirmed or refused that
    COMMIT = "commit"
    ROLL_BACK = "roll_back"
    PASSED = "passed"  #: the owner has answered all work that it was sent
    ANSWERED = "answered"  #: the owner has ended it


class Step(StrEnum):
    """The action of a row."""

    KEEP = "keep"  #: nothing
    HOLD = "hold"  #: the new work waits
    SEND = "send"  #: new and waiting work goes to the owner
    DROP = "drop"  #: waiting work is never sent
    REFUSE = "refuse"  #: new work is refused
    DECLARE = "declare"  #: ask the owner
    NAME = "name"
    TELL = "tell"  #: tell the caller of `name` whether the owner has confirmed it
    COMMIT = "commit"
    ROLL_BACK = "roll_back"
    DONE = "done"  #: the client's answer is the owner's
    UNDONE = "undone"  #: tell the client that nothing of it is done
    IN_DOUBT = "in_doubt"  #: tell the client that the result isn't known


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
    # An owner that is lost, or finds its peer gone, rolls it back.
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
#: States in which work goes to the owner: it has the transaction, and wasn't asked for its end.
PASSING = frozenset({Owned.OPEN, Owned.NAMING, Owned.COMMITTING})
ENDS = frozenset({Step.DONE, Step.UNDONE, Step.IN_DOUBT})


class RelayedTransaction(msgspec.Struct, eq=False):
    """One relayed transaction. Callers do the steps that its methods return, in that order. `left`
    counts its messages that the owner hasn't answered, whether they wait here or were sent."""

    log: str
    state: Owned = Owned.WAITING
    left: int = 0
    there: int = 0  #: the owner's number for it
    reason: AmqpError | None = None  #: why it can only be rolled back
    wanted: Event | None = None  #: the end that the client wants; before that NAME, if it is wanted
    branch: bool = False  #: its commit prepares the owner's part of it
    answer: AmqpError | InDoubt | None = None  #: to that end, when it is GONE; None: it is done

    @property
    def passing(self) -> bool:
        """Whether its work is sent to the owner now."""
        return self.state in PASSING

    def work(self, messages: int) -> Step:
        """Take in `messages` new messages, or 0 for outcomes of deliveries; outcomes stay until the
        end, also in a transaction that can only be rolled back."""
        step = self._step(Event.WORK)
        if messages and self.reason is not None:
            return Step.REFUSE
        if step is not Step.REFUSE:
            self.left += messages
        return step

    def declare(self) -> list[Step]:
        """An owner can be asked."""
        return [self._step(Event.DECLARE)]

    def declared(self, there: int) -> list[Step]:
        """The owner has it, under the number `there`."""
        self.there = there
        return self._go_on([self._step(Event.DECLARED)])

    def answered(self, messages: int) -> list[Step]:
        """The owner has answered this many messages, or they will never be sent."""
        self.left -= messages
        return self._go_on([])

    def spoil(self, reason: AmqpError) -> list[Step]:
        """A part of the work failed. After the owner was asked for the end this does nothing: the
        owner has all of the work by then."""
        if (self.state, Event.SPOIL) not in ROWS:
            return []
        self.reason = self.reason or reason
        return self._go_on([self._step(Event.SPOIL)])

    def lose(self, reason: AmqpError) -> list[Step]:
        """No owner has it any more."""
        self.reason = self.reason or reason
        return self._go_on([self._step(Event.LOSE)])

    def name(self) -> list[Step]:
        """The owner is to be told that its commit decides. Sent work may still be unanswered; no
        new work comes."""
        self.wanted = Event.NAME
        return self._go_on([])

    def named(self, refusal: AmqpError | None) -> list[Step]:
        """The owner has confirmed that, or says why it refuses."""
        self.wanted = None
        self.reason = self.reason or refusal
        return [self._step(Event.NAMED)]

    def end(self, *, commit: bool, branch: bool = False) -> list[Step]:
        """The client ends it; if other logs have work of it, a commit prepares this `branch`."""
        self.branch = branch
        self.wanted = Event.COMMIT if commit else Event.ROLL_BACK
        return self._go_on([])

    def ended(self, refusal: AmqpError | None) -> list[Step]:
        """The owner has ended it, or says why it didn't commit."""
        self.reason = self.reason or refusal
        return [self._step(Event.ANSWERED)]

    def _go_on(self, steps: list[Step]) -> list[Step]:
        """Add the steps that are due now: the wanted end, and the request that waits for all of the
        work's answers."""
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
                f"the owner of the log '{self.log}' was lost while it committed: whether "
                "the transaction is done isn't known"
            )
        elif step in ENDS:
            refused = step is Step.DONE or self.wanted is Event.COMMIT
            self.answer = self.reason if refused else None
        return step
