"""A home without a disk has one owner: accepted groups stay, once, whatever the order in which
requests are carried out, answered, repeated and lost."""

import random
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from take_over_model import Faults, Model

from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.object_journal.take_over import (
    Appoint,
    Claim,
    Look,
    Overtaken,
    Replay,
    Seal,
    Serve,
    Standing,
    TakeOver,
    last_standing,
)

#: Moves of one history: a few take-overs, some of them at the same time.
MOVES = 250
#: Histories by lot, with which a planted fault must be found.
HISTORIES = 3_000


@given(st.data())
def test_any_order_of_two_and_three_owners_loses_nothing(data: st.DataObject) -> None:
    """Each next event is drawn from all possible ones: owners start, put, commit, remove and die;
    requests are carried out without delay, late, again, or never, and answered or not."""
    model = Model()
    model.start()
    for _ in range(data.draw(st.integers(10, MOVES), "moves")):
        if not (moves := model.moves()):
            break
        moves[data.draw(st.integers(0, len(moves) - 1), "move")]()
        model.check()


def drawn(draw: random.Random, faults: Faults | None = None) -> Model:
    """A history by lot, checked after each move."""
    model = Model(faults)
    model.start()
    for _ in range(MOVES):
        if not (moves := model.moves()):
            break
        draw.choice(moves)()
        model.check()
    return model


def many(draw: random.Random, faults: Faults) -> None:
    for _ in range(HISTORIES):
        drawn(draw, faults)


@pytest.mark.parametrize("seed", range(8))
def test_histories_by_lot_lose_nothing(seed: int) -> None:
    """Longer ones than Hypothesis draws; and enough happens in them."""
    draw = random.Random(seed)
    models = [drawn(draw) for _ in range(40)]
    assert sum(model.served for model in models) > 40
    assert sum(len(model.accepted) for model in models) > 120


@pytest.mark.parametrize("fault", [one.name for one in fields(Faults)])
def test_a_broken_rule_is_found(fault: str) -> None:
    """Without any of them something is lost, or accepted twice."""
    draw = random.Random(fault)
    with pytest.raises((AssertionError, KeyError)):
        many(draw, replace(Faults(), **{fault: True}))


def test_the_first_owner_has_nothing_to_close() -> None:
    taking = TakeOver(Standing(0, 0, 0, 0))
    assert taking.step == Claim(Standing(0, 0, 0, 0), 1)
    taking.claimed()
    assert taking.step == Appoint(1)
    taking.appointed()
    assert taking.step == Serve(1, 1)


def test_what_stands_is_taken_in_and_what_wins_the_seals_name_too() -> None:
    """The table has groups up to 7, the journal 8 and 9; 10 is put before the seal is."""
    taking = TakeOver(Standing(20, 7, 3, 3))
    taking.claimed()
    assert taking.step == Seal(3, 8)
    taking.stands(Kind.GROUP)
    assert taking.step == Look(3)
    taking.listed({6: Kind.GROUP, 8: Kind.GROUP, 9: Kind.GROUP, 12: Kind.GROUP})
    assert taking.step == Seal(3, 10)
    taking.stands(Kind.GROUP)
    assert taking.step == Seal(3, 11)
    taking.stands(Kind.SEAL)
    assert taking.step == Replay(3, range(8, 11))
    taking.replayed()
    assert taking.step == Appoint(4)
    taking.overtaken()
    assert taking.step == Overtaken()


def test_a_journal_that_the_table_has_all_of_is_closed_without_a_look() -> None:
    taking = TakeOver(Standing(20, 7, 3, 3))
    taking.claimed()
    assert taking.step == Seal(3, 8)
    taking.stands(Kind.SEAL)
    assert taking.step == Appoint(4)


def test_a_claim_is_tried_again_behind_anothers() -> None:
    """With an epoch above all that were claimed."""
    taking = TakeOver(Standing(4, 2, 1, 1))
    taking.overtaken(Standing(5, 2, 2, 1))
    assert taking.step == Claim(Standing(5, 2, 2, 1), 3)


def test_nothing_stands_behind_a_gap_or_a_seal() -> None:
    group, seal = Kind.GROUP, Kind.SEAL
    assert last_standing(4, {}) == 4
    assert last_standing(4, {5: group, 6: group, 8: group}) == 6
    assert last_standing(4, {5: group, 6: seal, 7: group}) == 5
    assert last_standing(4, {3: seal, 4: group, 5: group}) == 5
