"""A named heir has the first claim to a free home, and never the last word."""

from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distributary.pipeline.fleet.heirs import (
    HEIR_SECONDS,
    NOBODY,
    RULES,
    Heir,
    May,
    Patience,
)

ME, OTHER = 7, 8
#: Seconds between two looks of one that waits.
LOOK = 0.1
WAITERS = (1, 2, 3)


def test_the_table_is_whole() -> None:
    """A home with an owner isn't taken; a free home is waited for only if another standby is its
    heir."""
    assert set(RULES) == set(product((False, True), Heir))
    for (free, heir), may in RULES.items():
        wanted = May.NOT if not free else May.LATER if heir is Heir.ANOTHER else May.NOW
        assert may is wanted


@pytest.mark.parametrize(("heir", "at_once"), [(NOBODY, True), (ME, True), (OTHER, False)])
def test_who_may_take_a_free_home(heir: int, at_once: bool) -> None:
    waits = Patience(ME)
    assert not waits.may_take(heir, free=False, now=0.0)
    assert waits.may_take(heir, free=True, now=100.0) is at_once
    assert waits.may_take(heir, free=True, now=100.0 + HEIR_SECONDS - 0.01) is at_once
    assert waits.may_take(heir, free=True, now=100.0 + HEIR_SECONDS)


def test_each_heir_and_each_owner_has_the_whole_time() -> None:
    """The clock begins anew when another one is named, and when the home had an owner meanwhile."""
    waits = Patience(ME)
    assert not waits.may_take(OTHER, free=True, now=0.0)
    assert not waits.may_take(OTHER + 1, free=True, now=HEIR_SECONDS)
    assert not waits.may_take(OTHER + 1, free=False, now=HEIR_SECONDS + 0.5)
    assert not waits.may_take(OTHER + 1, free=True, now=2 * HEIR_SECONDS + 0.4)
    assert waits.may_take(OTHER + 1, free=True, now=3 * HEIR_SECONDS + 0.4)


class HandOvers(RuleBasedStateMachine):
    """One home, standbys that die and come back, and owners that name any heir, also an absent one.
    A lock lets one standby take a free home; clocks measure equal intervals."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.owner = NOBODY
        self.heir = NOBODY  #: as it stands in the lock file
        self.waiting = {number: Patience(number) for number in WAITERS}
        self.free_since: float | None = 0.0  #: and a standby waits since then

    @rule(heir=st.sampled_from((NOBODY, *WAITERS, 99)))
    def name(self, heir: int) -> None:
        if self.owner:
            self.heir = heir

    @precondition(lambda self: self.owner)
    @rule(dies=st.booleans())
    def end(self, dies: bool) -> None:
        """It gives the home back, and waits; or dies."""
        former, self.owner = self.owner, NOBODY
        self.free_since = self.now
        if not dies:
            self.waiting[former] = Patience(former)

    @rule(number=st.sampled_from(WAITERS))
    def waiter_dies(self, number: int) -> None:
        self.waiting.pop(number, None)

    @rule(number=st.sampled_from(WAITERS))
    def comes(self, number: int) -> None:
        if number not in self.waiting and number != self.owner:
            self.waiting[number] = Patience(number)
            if self.free_since is not None:
                self.free_since = self.now  # one that has just come needs its time, too

    @rule(order=st.permutations(WAITERS), looks=st.integers(1, 40))
    def time_passes(self, order: list[int], looks: int) -> None:
        """All waiting standbys look in this order, again and again."""
        for _ in range(looks):
            self.now += LOOK
            for number in order:
                self.look(number)

    def look(self, number: int) -> None:
        patience = self.waiting.get(number)
        if patience is None:
            return
        if patience.may_take(self.heir, free=not self.owner, now=self.now):
            assert not self.owner, "two owners"
            waited = self.now - (self.free_since or 0.0)
            heir_waits = self.heir in self.waiting and self.heir != number
            assert not heir_waits or waited >= HEIR_SECONDS - LOOK, "the heir was overtaken"
            del self.waiting[number]
            self.owner, self.heir, self.free_since = number, NOBODY, None

    @invariant()
    def is_not_without_an_owner_for_long(self) -> None:
        if not self.waiting:
            self.free_since = None if self.owner else self.now
        if self.free_since is not None:
            assert self.now - self.free_since <= HEIR_SECONDS + 2 * LOOK


TestHandOvers = HandOvers.TestCase
TestHandOvers.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
