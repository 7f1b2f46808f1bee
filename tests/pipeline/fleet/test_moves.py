"""An order to move a log: one at a time, completed by its owner, and not under way without end."""

from itertools import product

import pytest
from msgspec.structs import replace

from distributary.pipeline.fleet.members import Member
from distributary.pipeline.fleet.moves import (
    MOVES,
    OPERATOR,
    READY_SECONDS,
    Event,
    Give,
    Giving,
    Move,
    Name,
    Say,
    State,
    Stay,
    after,
    ask,
)

OWNER, HEIR, THIRD = 1, 2, 3
OWNERS = Member(OWNER, "a", "amqp://a:1", 1, log="orders")
STANDBY = Member(HEIR, "b", "amqp://b:1", 2, waits=("main", "orders"))
MOVE = Move(4, "orders", HEIR, "b", "amqp://b:1", OPERATOR)


def giving() -> Giving:
    """Of an owner that has looked before."""
    made = Giving(OWNER, "orders")
    assert made.look(None, (), 0.0) == ()
    return made


def test_an_order_that_is_under_way_is_replaced_only_when_it_is_old() -> None:
    for state, old, event in product(State, (False, True), Event):
        settled = state is not State.ASKED
        known = event is Event.ASK and (settled or old)
        known = known or (event is not Event.ASK and not settled)
        assert ((state, old, event) in MOVES) is known
    assert ask(None, "orders", STANDBY, OPERATOR, old=False) == replace(MOVE, number=1)
    assert ask(replace(MOVE, number=3), "orders", STANDBY, OPERATOR, old=False) is None
    assert ask(replace(MOVE, number=3), "orders", STANDBY, OPERATOR, old=True) == MOVE
    done = after(replace(MOVE, number=3), Event.TAKE)
    assert ask(done, "orders", STANDBY, OPERATOR, old=False) == MOVE
    with pytest.raises(KeyError):
        after(done, Event.TAKE)


def test_an_owner_gives_when_its_heir_is_ready() -> None:
    owner = giving()
    assert owner.look(MOVE, (OWNERS, STANDBY), 1.0) == (Name(HEIR),)
    assert owner.hurries
    assert owner.look(MOVE, (OWNERS, STANDBY), 2.0) == ()
    assert owner.look(MOVE, (OWNERS, replace(STANDBY, ready=True)), 3.0) == (Give(HEIR),)
    assert not owner.hurries
    assert owner.look(MOVE, (OWNERS, STANDBY), 4.0) == ()


def test_an_heir_that_is_not_ready_in_time_gets_nothing() -> None:
    owner = giving()
    assert owner.look(MOVE, (OWNERS, STANDBY), 1.0) == (Name(HEIR),)
    assert owner.look(MOVE, (OWNERS, STANDBY), 1.0 + READY_SECONDS) == ()
    stay, say = owner.look(MOVE, (OWNERS, STANDBY), 1.1 + READY_SECONDS)
    assert stay == Stay()
    assert isinstance(say, Say)
    assert (say.move.state, say.move.number) == (State.FAILED, MOVE.number)
    assert "wasn't ready within 10 s" in say.move.reason
    assert owner.look(say.move, (OWNERS, STANDBY), 2.0 + READY_SECONDS) == ()


def test_an_heir_that_dies_gets_nothing() -> None:
    """Nor one that doesn't stand by for this log."""
    owner = giving()
    assert owner.look(MOVE, (OWNERS, STANDBY), 1.0) == (Name(HEIR),)
    stay, say = owner.look(MOVE, (OWNERS,), 2.0)
    assert stay == Stay()
    assert isinstance(say, Say)
    [say] = giving().look(MOVE, (OWNERS, replace(STANDBY, waits=("main",))), 2.0)
    assert isinstance(say, Say)
    assert say.move.reason == "the gateway at amqp://b:1 doesn't stand by for the log orders"


def test_another_order_counts_at_once() -> None:
    """To another heir, of another log, or none any more."""
    third = Member(THIRD, "c", "amqp://c:1", 3, waits=("orders",))
    for move, then in (
        (replace(MOVE, number=5, heir=THIRD), (Stay(), Name(THIRD))),
        (replace(MOVE, number=5, log="main"), (Stay(),)),
        (replace(MOVE, state=State.FAILED), (Stay(),)),
    ):
        owner = giving()
        assert owner.look(MOVE, (OWNERS, STANDBY), 1.0) == (Name(HEIR),)
        assert owner.look(move, (OWNERS, STANDBY, third), 2.0) == then


def test_who_takes_a_log_over_says_how_its_move_ended() -> None:
    heir = Giving(HEIR, "orders")
    assert heir.look(MOVE, (), 0.0) == (Say(replace(MOVE, state=State.DONE)),)
    other = Giving(THIRD, "orders")
    [say] = other.look(MOVE, (STANDBY,), 0.0)
    assert isinstance(say, Say)
    assert "another gateway took the log orders over before b could" in say.move.reason
    assert Giving(THIRD, "main").look(MOVE, (STANDBY,), 0.0) == ()
