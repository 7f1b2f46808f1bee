"""Logs are spread over machines by single moves that come to an end, whatever the fleet."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from distributary.pipeline.fleet.members import Member
from distributary.pipeline.fleet.moves import (
    OLD_SECONDS,
    OPERATOR,
    SPREADING,
    Event,
    Move,
    State,
    after,
)
from distributary.pipeline.fleet.spreading import AGAIN_SECONDS, Spreading, choose

REST = 30.0
LOGS = ("main", "orders", "prices", "trades")


def fleet(said: str, **weights: float) -> list[Member]:
    """`a:main a:orders b:-`: gateways with a log, or waiting for all of them; pinned with `!`."""
    members = []
    for number, word in enumerate(said.split(), 1):
        machine, _, log = word.partition(":")
        waits = LOGS if log.startswith("-") else ()
        members.append(
            Member(
                number,
                machine,
                f"amqp://{number}",
                number,
                log=log.strip("-!"),
                waits=waits,
                spreads=not log.endswith("!"),
                weight=weights.get(machine, 1.0),
            )
        )
    return members


def chosen(members: list[Member], logs: tuple[str, ...]) -> tuple[str, str] | None:
    choice = choose(members, logs)
    return None if choice is None else (choice.log, choice.heir.machine)


@pytest.mark.parametrize(
    ("said", "weights", "move"),
    [
        ("a:main a:orders b:-", {}, ("main", "b")),
        ("a:main a:orders b:- c:-", {}, ("main", "b")),
        ("a:main b:orders a:- b:-", {}, None),  # one each
        ("a:main a:orders b:prices b:-", {}, None),  # one fewer isn't two
        ("a:main a:orders a:-", {}, None),  # nowhere to go
        ("a:main a:orders b:-!", {}, None),  # who waits isn't to be given any
        ("a:main! a:orders b:-", {}, ("orders", "b")),
        ("a:main! a:orders! b:-", {}, None),
        ("a:main a:orders b:-", {"a": 3.0}, None),  # 2/3 beside 1
        ("a:main a:orders a:prices b:-", {"a": 3.0}, None),  # 1 beside 1
        ("a:main a:orders b:prices b:-", {"b": 4.0}, ("main", "b")),
        ("a:main b:-", {"a": 0.0}, ("main", "b")),  # a gives all that it has
        ("a:main a:orders b:-", {"b": 0.0}, None),  # b is given nothing
        ("a:main a:main b:-", {}, None),  # two say that they own it
    ],
)
def test_which_log_moves(
    said: str, weights: dict[str, float], move: tuple[str, str] | None
) -> None:
    members = fleet(said, **weights)
    assert chosen(members, tuple({one.log for one in members if one.log})) == move


def test_nothing_moves_while_a_log_has_no_owner() -> None:
    """Its next owner isn't known."""
    members = fleet("a:main a:orders b:-")
    assert chosen(members, ("main", "orders")) == ("main", "b")
    assert chosen(members, ("main", "orders", "prices")) is None
    assert chosen(members, ("main",)) is None


def loads(members: Iterable[Member]) -> list[float]:
    owned = Counter(one.machine for one in members if one.log)
    weights = {one.machine: one.weight for one in members}
    return sorted((owned[one] / weight for one, weight in weights.items()), reverse=True)


def moved(members: list[Member], log: str, heir: int) -> list[Member]:
    """As it is when the move is done: the heir has the log, the former owner waits."""
    found = []
    for one in members:
        if one.number == heir:
            found.append(replace(one, log=log, waits=()))
        elif one.log == log:
            found.append(replace(one, log="", waits=LOGS))
        else:
            found.append(one)
    return found


@st.composite
def fleets(draw: st.DrawFn) -> list[Member]:
    """Any machines with any weights and gateways; each log has an owner somewhere."""
    machines = draw(st.lists(st.sampled_from("abcd"), min_size=4, max_size=12))
    weights = {one: draw(st.sampled_from((0.5, 1.0, 1.0, 2.0, 3.0))) for one in "abcd"}
    owners = draw(st.permutations(range(len(machines))))[: len(LOGS)]
    logs = dict(zip(owners, LOGS, strict=True))
    return [
        Member(
            nth + 1,
            machine,
            f"amqp://{nth}",
            nth,
            log=logs.get(nth, ""),
            waits=() if nth in logs else LOGS,
            spreads=True,
            weight=weights[machine],
        )
        for nth, machine in enumerate(machines)
    ]


@settings(max_examples=200, deadline=None)
@given(fleets())
def test_every_fleet_comes_to_rest(members: list[Member]) -> None:
    """Each move makes the list of loads smaller; at rest no machine that could be given a log has
    two fewer, weights considered."""
    for _ in range(30):
        choice = choose(members, LOGS)
        if choice is None:
            break
        before = loads(members)
        members = moved(members, choice.log, choice.heir.number)
        assert loads(members) < before
    else:
        raise AssertionError("it goes on for ever")
    owned = Counter(one.machine for one in members if one.log)
    weight = {one.machine: one.weight for one in members}
    takers = {one.machine for one in members if not one.log}
    for giver in owned:
        for taker in takers - {giver}:
            assert (owned[taker] + 1) / weight[taker] >= owned[giver] / weight[giver]


class Lake:
    """The current order, and each owner's view of the lake."""

    def __init__(self) -> None:
        self.move: Move | None = None

    def replace(self, seen: Move | None, new: Move) -> bool:
        if seen != self.move:
            return False
        self.move = new
        return True


@settings(max_examples=60, deadline=None)
@given(fleets(), st.data())
def test_owners_with_views_of_any_age_move_one_log_at_a_time_and_come_to_rest(
    members: list[Member], data: st.DataObject
) -> None:
    """Each owner sees the fleet and the order as they were some looks ago, and looks at random
    times. While views change no owner asks; of two orders at the same time one wins."""
    lake, now = Lake(), 0.0
    history: list[list[Member]] = [members]
    spreadings = {one.number: Spreading(one.number, REST) for one in members}
    for turn in range(160):
        drawn = turn < 40  # and from then on all see what is so, and nothing fails
        now += REST / 3 if drawn else AGAIN_SECONDS / 4
        numbers = [one.number for one in history[-1] if one.log]
        for number in data.draw(st.permutations(numbers)) if drawn else numbers:
            age = data.draw(st.integers(0, 2), label="age") if drawn else 0
            view = history[max(0, len(history) - 1 - age)]
            order = spreadings[number].look(view, LOGS, lake.move, now)
            if order is None:
                continue
            assert lake.move is None or lake.move.state is not State.ASKED
            assert view == history[-1], "by a view that isn't so any more"
            assert order.by == SPREADING
            assert lake.replace(lake.move, order)
        if lake.move is not None and lake.move.state is State.ASKED:
            if drawn and data.draw(st.booleans(), label="fails"):
                lake.move = after(lake.move, Event.FAIL)
            else:
                history.append(moved(history[-1], lake.move.log, lake.move.heir))
                lake.move = after(lake.move, Event.TAKE)
        else:
            history.append(history[-1])
    assert choose(history[-1], LOGS) is None


def test_all_must_be_as_it_is_for_a_while() -> None:
    """The members, their logs, and the current order."""
    members = fleet("a:main a:orders b:-")
    spreading = Spreading(1, REST)
    done = Move(7, "main", 3, "b", "amqp://3", OPERATOR, State.DONE)
    assert spreading.look(members, LOGS[:2], None, 0.0) is None
    assert spreading.look(members, LOGS[:2], done, REST) is None
    beaten = [replace(one, beat=one.beat + 1) for one in members]
    assert spreading.look(beaten, LOGS[:2], done, 2 * REST - 0.1) is None
    joined = [*members, Member(9, "c", "amqp://9", 9, waits=LOGS, spreads=True)]
    assert spreading.look(joined, LOGS[:2], done, 2 * REST) is None
    assert spreading.look(joined, LOGS[:2], done, 3 * REST - 0.1) is None
    order = spreading.look(joined, LOGS[:2], done, 3 * REST)
    assert order == Move(8, "main", 3, "b", "amqp://3", SPREADING)


def test_an_order_that_nobody_sees_to_does_not_stand_for_ever() -> None:
    members = fleet("a:main a:orders b:-")
    spreading = Spreading(1, REST)
    asked = Move(7, "prices", 9, "c", "amqp://9", OPERATOR)
    assert spreading.look(members, LOGS[:2], asked, 0.0) is None
    assert spreading.look(members, LOGS[:2], asked, OLD_SECONDS - 0.1) is None
    order = spreading.look(members, LOGS[:2], asked, OLD_SECONDS)
    assert order is not None
    assert order.number == 8


def test_what_failed_is_left_alone_for_a_while() -> None:
    """Another heir is asked meanwhile. When members change it may be another matter."""
    members = fleet("a:main a:orders b:- c:-")
    spreading, now, number = Spreading(1, REST), 0.0, 7

    def failed(heir: int) -> int:
        """The heir that is asked after this one wasn't ready; 0: none."""
        nonlocal now, number
        number += 1
        move = Move(number, "main", heir, "b", "amqp://b", SPREADING, State.FAILED, "not ready")
        assert spreading.look(members, LOGS[:2], move, now) is None
        now += REST
        order = spreading.look(members, LOGS[:2], move, now)
        return 0 if order is None else order.heir

    assert [failed(3), failed(4), failed(3)] == [4, 0, 0]
    now += AGAIN_SECONDS - REST
    assert failed(4) == 3
    assert failed(3) == 0
    members = [*members, Member(9, "d", "amqp://9", 9, spreads=True)]
    assert failed(4) == 3


def test_only_the_owner_of_the_log_asks() -> None:
    members = fleet("a:main a:orders b:-")
    for number in (2, 3):
        spreading = Spreading(number, REST)
        assert spreading.look(members, LOGS[:2], None, 0.0) is None
        assert spreading.look(members, LOGS[:2], None, REST) is None
