"""A relayed transaction, against an owner that receives the sent work and may be lost at any
moment."""

from itertools import product

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distributary.pipeline.lake.relayed_transaction import (
    ENDS,
    PASSING,
    ROWS,
    Event,
    Owned,
    RelayedTransaction,
    Step,
)
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import InDoubt

BAD = AmqpError("amqp:illegal-state", "a part can't be done")
LOST = AmqpError("amqp:transaction:unknown-id", "the owner was lost")
FULL = AmqpError("amqp:resource-limit-exceeded", "the backlog is full")
#: What the owner calls it.
THERE = 77


def test_an_owner_may_be_lost_in_every_state_but_at_the_end() -> None:
    """And only a commit that was asked for is in doubt then."""
    assert {state for state, event in ROWS if event is Event.LOSE} == set(Owned) - {Owned.GONE}
    doubts = [row for row, (_, step) in ROWS.items() if step is Step.IN_DOUBT]
    assert doubts == [(Owned.COMMIT_ASKED, Event.LOSE)]


def test_only_the_owner_says_that_it_is_done() -> None:
    done = [row for row, (_, step) in ROWS.items() if step is Step.DONE]
    assert done == [(Owned.COMMIT_ASKED, Event.ANSWERED)]
    assert all((to is Owned.GONE) == (step in ENDS) for to, step in ROWS.values())


def test_the_client_can_end_it_in_every_state_until_it_has() -> None:
    alive = (Owned.WAITING, Owned.DECLARING, Owned.OPEN, Owned.LOST)
    ends = {row for row in ROWS if row[1] in (Event.COMMIT, Event.ROLL_BACK)}
    assert ends == set(product(alive, (Event.COMMIT, Event.ROLL_BACK)))
    assert {state for state, event in ROWS if event is Event.WORK} == set(alive)


def opened() -> RelayedTransaction:
    one = RelayedTransaction("orders")
    assert one.work(2) is Step.HOLD
    assert one.declare() == [Step.DECLARE]
    assert one.declared(THERE) == [Step.SEND]
    return one


def test_a_commit_waits_for_all_of_the_work() -> None:
    one = opened()
    assert one.work(0) is Step.SEND
    assert one.end(commit=True) == [Step.KEEP]
    assert one.answered(1) == []
    assert one.answered(1) == [Step.COMMIT]
    assert one.ended(None) == [Step.DONE]
    assert (one.state, one.answer) == (Owned.GONE, None)


def test_a_commit_that_came_before_the_owner_had_it_waits_for_that() -> None:
    one = RelayedTransaction("orders")
    one.work(1)
    assert one.end(commit=True) == [Step.HOLD]
    assert one.declare() == [Step.DECLARE]
    assert one.declared(THERE) == [Step.SEND, Step.KEEP]
    assert one.answered(1) == [Step.COMMIT]


def test_the_owners_refusal_is_the_clients() -> None:
    one = opened()
    one.end(commit=True)
    one.answered(2)
    assert one.ended(FULL) == [Step.DONE]
    assert one.answer == FULL


def test_what_failed_in_part_is_rolled_back_and_its_commit_refused() -> None:
    one = opened()
    assert one.spoil(BAD) == [Step.KEEP]
    assert one.work(1) is Step.REFUSE
    assert one.end(commit=True) == [Step.DROP]
    assert one.answered(2) == [Step.ROLL_BACK]
    assert one.ended(None) == [Step.UNDONE]
    assert one.answer == BAD


def test_a_rollback_succeeds_whatever_has_become_of_the_owner() -> None:
    for lost in (False, True):
        one = opened()
        if lost:
            assert one.lose(LOST) == [Step.DROP]
            assert one.work(1) is Step.REFUSE
            assert one.end(commit=False) == [Step.UNDONE]
        else:
            assert one.end(commit=False) == [Step.DROP]
            one.answered(2)
            assert one.lose(LOST) == [Step.UNDONE]
        assert one.answer is None


def test_a_branch_is_never_in_doubt() -> None:
    """The log that decides hasn't been asked when its owner is lost."""
    one = opened()
    one.end(commit=True, branch=True)
    one.answered(2)
    assert one.lose(LOST) == [Step.IN_DOUBT]
    assert one.answer == LOST


def test_the_owner_hears_what_it_decides_before_it_is_asked() -> None:
    """The caller is told once whether the owner has confirmed it, also where the owner was lost
    before."""
    for lost in (False, True):
        one = RelayedTransaction("orders")
        one.work(2)
        assert one.name() == [Step.HOLD]
        assert one.declare() == [Step.DECLARE]
        assert one.declared(THERE) == [Step.SEND, Step.NAME]
        assert one.passing
        assert one.answered(1) == []
        if lost:
            assert one.lose(LOST) == [Step.DROP, Step.TELL]
            assert one.end(commit=True) == [Step.UNDONE]
            assert one.answer == LOST
        else:
            assert one.named(None) == [Step.TELL]
            assert one.end(commit=True) == [Step.KEEP]
            assert one.answered(1) == [Step.COMMIT]


def test_an_owner_that_was_waited_for_in_vain_decides_nothing() -> None:
    one = RelayedTransaction("orders")
    one.work(1)
    one.name()
    assert one.lose(LOST) == [Step.DROP, Step.TELL]
    assert one.reason == LOST


def test_who_does_not_want_to_decide_commits_nothing() -> None:
    one = opened()
    one.name()
    assert one.named(FULL) == [Step.TELL]
    one.end(commit=True)
    one.answered(2)
    assert one.state is Owned.ROLL_BACK_ASKED


class RelayedMachine(RuleBasedStateMachine):
    """The gateway, the wire and the owner. What the gateway has sent the owner gets in its order,
    all of it or up to some point."""

    def __init__(self) -> None:
        super().__init__()
        self.one = RelayedTransaction("orders")
        self.taken = self.waiting = self.number = 0
        self.wire: list[str] = []  #: what the owner has yet to get
        self.replies: list[str] = []  #: what the gateway has yet to get
        self.there = False  #: there is an owner, connected
        self.received: list[str] | None = None  #: by the owner, in the transaction
        self.committed: list[str] | None = None
        self.spoiled = self.lost = self.asked = False
        self.naming = self.told = self.ends = False

    def do(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Step.SEND:
                    if self.one.passing:  # else it is rolled back, and they are dropped
                        self.send(self.waiting)
                        self.waiting = 0
                case Step.DROP:
                    dropped, self.waiting = self.waiting, 0
                    if dropped:
                        self.do(self.one.answered(dropped))
                case Step.DECLARE | Step.NAME | Step.COMMIT | Step.ROLL_BACK:
                    assert self.there
                    if step in (Step.COMMIT, Step.ROLL_BACK):
                        assert not self.asked  # once at most
                        assert not self.wire  # and the owner has all of the work
                        self.asked = True
                    self.wire.append(step)
                case Step.DONE | Step.UNDONE | Step.IN_DOUBT:
                    self.waiting = 0
                case _:
                    assert step in (Step.TELL, Step.KEEP, Step.HOLD)
                    self.told |= step is Step.TELL

    def send(self, messages: int) -> None:
        assert self.one.passing
        for _ in range(messages):
            self.number += 1
            self.wire.append(f"message {self.number}")

    @property
    def open(self) -> bool:
        """The client hasn't ended it."""
        return self.one.wanted is None and not self.naming

    @precondition(lambda self: self.open)
    @rule(messages=st.integers(1, 3))
    def work(self, messages: int) -> None:
        step = self.one.work(messages)
        if step is Step.REFUSE:
            assert self.spoiled or self.lost
            return
        self.taken += messages
        if step is Step.SEND:
            self.send(messages)
        else:
            self.waiting += messages

    @precondition(lambda self: not self.there)
    @rule()
    def connect(self) -> None:
        self.there = True
        if self.one.state is Owned.WAITING:
            self.do(self.one.declare())

    @precondition(lambda self: self.wire)
    @rule()
    def owner_reads(self) -> None:
        said = self.wire.pop(0)
        match said:
            case Step.DECLARE:
                self.received = []
                self.replies.append("declared")
            case Step.NAME:
                self.replies.append("named")
            case Step.COMMIT:
                assert self.committed is None
                self.committed, self.received = self.received, None
                self.replies.append("ended")
            case Step.ROLL_BACK:
                self.received = None
                self.replies.append("ended")
            case _:
                assert self.received is not None
                self.received.append(said)
                self.replies.append("answered")

    @precondition(lambda self: self.wire[:1] == [Step.DECLARE])
    @rule()
    def owner_declines(self) -> None:
        self.wire.pop(0)
        self.replies.append("declined")

    @precondition(lambda self: self.replies)
    @rule()
    def owner_answers(self) -> None:
        match self.replies.pop(0):
            case "declined":
                self.lost = True
                self.do(self.one.lose(FULL))
            case "declared":
                self.do(self.one.declared(THERE))
            case "named":
                self.do(self.one.named(None))
            case "answered":
                self.do(self.one.answered(1))
            case _:
                self.do(self.one.ended(None))

    @precondition(lambda self: self.there)
    @rule(hears=st.integers(0, 9))
    def lose(self, hears: int) -> None:
        """The owner gets some of the sent work, and none of its answers arrive; uncommitted work
        then never is committed."""
        for _ in range(min(hears, len(self.wire))):
            self.owner_reads()
        self.there, self.wire, self.replies = False, [], []
        self.received = None
        if self.one.state not in (Owned.WAITING, Owned.GONE):
            self.lost = True
            self.do(self.one.lose(LOST))

    @precondition(lambda self: self.one.state is Owned.WAITING)
    @rule()
    def wait_too_long(self) -> None:
        self.lost = True
        self.do(self.one.lose(LOST))

    @rule()
    def spoil(self) -> None:
        self.spoiled = True
        self.do(self.one.spoil(BAD))

    @precondition(lambda self: self.open)
    @rule()
    def name(self) -> None:
        self.naming = True
        self.do(self.one.name())

    @precondition(lambda self: self.open or (self.told and not self.ends))
    @rule(commit=st.booleans(), branch=st.booleans())
    def end(self, commit: bool, branch: bool) -> None:
        self.ends = True
        self.do(self.one.end(commit=commit, branch=branch and not self.naming))

    @invariant()
    def what_the_client_hears_is_so(self) -> None:
        one = self.one
        assert self.waiting == 0 or one.state in (Owned.WAITING, Owned.DECLARING)
        if one.state is not Owned.GONE:
            assert self.committed is None or one.state is Owned.COMMIT_ASKED
            return
        if isinstance(one.answer, InDoubt):
            assert one.wanted is Event.COMMIT
            assert not one.branch
        elif one.wanted is Event.COMMIT and one.answer is None:
            assert self.committed is not None
            assert len(self.committed) == self.taken  # all of it
        else:
            assert self.committed is None or one.branch  # prepared, and not decided here

    @invariant()
    def a_client_that_waits_has_somebody_to_wait_for(self) -> None:
        one = self.one
        if one.wanted is not None and one.state is not Owned.GONE and self.there:
            assert self.wire or self.replies
        assert one.passing == (one.state in PASSING)


TestRelayedMachine = RelayedMachine.TestCase
TestRelayedMachine.settings = settings(max_examples=300, stateful_step_count=30)
