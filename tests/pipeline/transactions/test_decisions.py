"""Decisions of one log for several, and their ends in all of them."""

import random
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_transaction_model import World

from distributary.pipeline.errors import IllegalTransition
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.transactions import shared_end
from distributary.pipeline.transactions.decisions import (
    OUTCOMES,
    ROWS,
    Decision,
    Decisions,
    Event,
    Outcome,
    Questions,
    State,
    Step,
)
from distributary.pipeline.transactions.global_id import (
    GlobalId,
    branch_id,
    decision_id,
    decision_of,
    is_of_lake,
)
from distributary.pipeline.transactions.shared_end import SharedEnd
from distributary.pipeline.transactions.transaction import InDoubt

ID = decision_id(b"unique")
LOST = AmqpError("amqp:transaction:unknown-id", "the owner was lost")
DOUBT = InDoubt("nobody knows")


def test_only_what_is_decided_durably_is_committed() -> None:
    assert set(OUTCOMES) == set(State)
    assert [one for one in State if OUTCOMES[one] is Outcome.COMMITTED] == [State.DECIDED]
    [before] = [at for (at, _), (to, _) in ROWS.items() if to is State.DECIDED]
    assert (before, ROWS[before, Event.DURABLE][1]) == (State.DECIDING, Step.TELL)
    for event in (Event.UNDO, Event.GIVE_UP):
        with pytest.raises(IllegalTransition):
            Decision(ID, ("b",), State.DECIDING).step(event)  # it may be on the disk


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_who_waits_is_asked_for_in_turn(count: int) -> None:
    """A few at a time, however many they are, and all of them before any once more."""
    questions, waiting = Questions(3), list(range(count))
    rounds = [questions.of(waiting) for _ in range(0, count, 3)]
    assert [one for part in rounds for one in part] == waiting
    assert max(map(len, rounds)) <= 3
    assert questions.of(waiting) == waiting[:3]
    assert questions.of(waiting[:1]) == waiting[:1]  # the others have ended
    assert questions.of([]) == []


def test_a_decision_is_known_until_all_have_it() -> None:
    decisions = Decisions(1)
    assert decisions.name(ID, ("b", "c")) is None
    for id_, condition in ((ID, PRECONDITION_FAILED), (decision_id(b"other"), LIMIT_EXCEEDED)):
        refusal = decisions.name(id_, ("b",))
        assert refusal is not None
        assert refusal.condition == condition
    one = decisions.get(ID)
    assert one is not None
    assert decisions.outcome(ID) is Outcome.OPEN
    assert one.step(Event.COMMIT) is Step.RECORD
    assert decisions.outcome(ID) is Outcome.OPEN
    assert decisions.telling() == []
    assert one.step(Event.DURABLE) is Step.TELL
    assert decisions.outcome(ID) is Outcome.COMMITTED
    assert decisions.telling() == [one]
    assert decisions.told(ID, "c") is None
    assert decisions.told(ID, "c") is None
    assert decisions.told(ID, "b") is Step.COMPLETE
    assert decisions.outcome(ID) is Outcome.ROLLED_BACK
    assert decisions.name(ID, ("b",)) is None


def test_what_is_decided_is_known_until_its_logs_are_given_up() -> None:
    """An answer that comes later changes nothing."""
    decisions = Decisions(1)
    decisions.restore(ID, ("b", "c"), "worker", 7)
    assert decisions.told(ID, "b") is None
    decisions.give_up(ID)
    assert decisions.get(ID) is None
    assert decisions.outcome(ID) is Outcome.ROLLED_BACK
    assert decisions.told(ID, "c") is None
    assert decisions.name(decision_id(b"next"), ("b",)) is None  # its place is free


def test_an_id_says_who_decides() -> None:
    branch = branch_id(ID, "orders")
    parsed = GlobalId.parse(branch)
    assert (parsed.decider, decision_of(parsed)) == ("orders", ID)
    assert is_of_lake(branch)
    assert is_of_lake(ID)
    assert not is_of_lake("1:00:")
    assert branch_id(decision_id(bytes(16)), "x" * 63)  # the longest name of a log


# The gateway's side.


def test_all_prepare_before_one_decides() -> None:
    one = SharedEnd(2)
    assert one.answered(None) is shared_end.Step.PREPARE
    assert one.answered(None) is shared_end.Step.WAIT
    assert one.answered(None) is shared_end.Step.DECIDE
    assert one.answered(None) is shared_end.Step.ANSWER
    assert one.answer is None


def test_one_that_can_not_prepare_has_all_rolled_back() -> None:
    """When all have answered: what comes after the word of the log that decides would wait."""
    for answers in ([LOST, None], [None, LOST], [LOST, LOST]):
        one = SharedEnd(2)
        one.answered(None)
        assert one.answered(answers[0]) is shared_end.Step.WAIT
        assert one.answered(answers[1]) is shared_end.Step.UNDO
        assert one.answered(DOUBT) is shared_end.Step.ANSWER
        assert one.answer == LOST


def test_who_can_not_decide_has_all_rolled_back() -> None:
    one = SharedEnd(2)
    assert one.answered(LOST) is shared_end.Step.UNDO_ALL
    steps = [one.answered(None) for _ in range(3)]
    assert steps == [shared_end.Step.WAIT, shared_end.Step.WAIT, shared_end.Step.ANSWER]
    assert one.answer == LOST


@pytest.mark.parametrize("answer", [None, LOST, DOUBT])
def test_the_answer_of_the_log_that_decides_is_the_clients(answer: AmqpError | InDoubt) -> None:
    one = SharedEnd(1)
    one.answered(None)
    one.answered(None)
    assert one.answered(answer) is shared_end.Step.ANSWER
    assert one.answer == answer


@pytest.mark.parametrize("reason", [None, LOST])
def test_a_rollback_is_one_whoever_is_lost(reason: AmqpError | None) -> None:
    one = SharedEnd(1)
    assert one.roll_back(reason) is shared_end.Step.UNDO_ALL
    assert one.answered(LOST) is shared_end.Step.WAIT
    assert one.answered(None) is shared_end.Step.ANSWER
    assert one.answer == reason


def test_every_state_of_an_end_has_a_row_for_every_answer() -> None:
    live = set(product(set(shared_end.State) - {shared_end.State.GONE}, shared_end.Event))
    assert set(shared_end.ROWS) == live


# All of it together: the world that `shared_transaction_model` plays.


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_is_done_in_all_logs_or_in_none(data: st.DataObject) -> None:
    """Whichever gateways are lost, paused, or go on when others have taken over."""
    World(lambda things: data.draw(st.sampled_from(things))).live(40)


@pytest.mark.parametrize("seed", range(4))
def test_and_so_in_many_histories(seed: int) -> None:
    lot = random.Random(seed)
    ends = Counter(World(lot.choice).live(lot.randint(1, 80)) for _ in range(500))
    assert {"committed", "rolled back", "nobody knows"} <= ends.keys(), ends
