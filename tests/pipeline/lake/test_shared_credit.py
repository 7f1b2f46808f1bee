"""A consumer's credit over several logs: a model of the owners, drawn orders of what happens."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributary.pipeline.lake.shared_credit import (
    Drained,
    Grant,
    SharedCredit,
    TakeBack,
    Wait,
)


class Owner:
    """One part's owner, behind a network: its commands and its answers come in order, later."""

    def __init__(self) -> None:
        self.ready, self.backlog, self.credit, self.draining = True, 0, 0, False
        self.told: deque[Grant | TakeBack] = deque()
        self.said: deque[int | str] = deque()  #: so many messages, or "returned"

    def hears(self) -> None:
        match self.told.popleft():
            case Grant(credit=credit):
                self.credit += credit
            case TakeBack():
                self.draining = True
        self.serve()

    def serve(self) -> None:
        count = min(self.backlog, self.credit)
        if count:
            self.backlog -= count
            self.credit -= count
            self.said.append(count)
        if self.draining and self.credit:
            self.credit = 0
            self.said.append("returned")
        self.draining = False

    def die(self) -> None:
        self.ready = self.draining = False
        self.credit = 0
        self.told.clear()
        self.said.clear()


class World(RuleBasedStateMachine):
    """The client, the gateway with its shared credit, and the owners."""

    @initialize(parts=st.integers(1, 4))
    def begin(self, parts: int) -> None:
        self.owners = [Owner() for _ in range(parts)]
        self.shared = SharedCredit(parts)
        self.credit = self.most = 0  #: the client's, and what it was when it took some back
        self.draining = self.timer = False
        for part in range(parts):
            self.shared.ready(part)
        self.decide()

    def decide(self) -> None:
        self.timer = False
        for effect in self.shared.decide():
            match effect:
                case Grant(part=part) | TakeBack(part=part):
                    assert self.owners[part].ready
                    self.owners[part].told.append(effect)
                case Drained():
                    assert self.draining
                    assert all(not owner.credit and not owner.said for owner in self.owners)
                    self.draining, self.credit = False, 0
                    self.shared.given(0, draining=False)
                case Wait():
                    self.timer = True

    def step(self, part: int) -> None:
        """One thing comes from or to an owner."""
        owner = self.owners[part]
        if owner.said:
            match owner.said.popleft():
                case int(count):
                    to_client = min(count, self.credit)  # the rest goes back: it was taken back
                    owner.backlog += count - to_client
                    self.credit -= to_client
                    self.draining = self.draining and self.credit > 0
                    self.shared.sent(part, to_client)
                    if to_client < count:
                        self.shared.lost(part, 0)
                        owner.die()
                        owner.ready = True
                        self.shared.ready(part)
                case _:
                    self.shared.returned(part)
            self.decide()
        elif owner.told:
            owner.hears()

    @rule(credit=st.integers(1, 8))
    def client_gives(self, credit: int) -> None:
        self.credit += credit
        self.shared.given(self.credit, draining=self.draining)
        self.decide()

    @precondition(lambda self: self.credit)
    @rule()
    def client_drains(self) -> None:
        self.draining = True
        self.shared.given(self.credit, draining=True)
        self.decide()

    @rule(part=st.integers(0, 3), count=st.integers(1, 5))
    def published(self, part: int, count: int) -> None:
        owner = self.owners[part % len(self.owners)]
        owner.backlog += count
        owner.serve()

    @rule(part=st.integers(0, 3))
    def moves(self, part: int) -> None:
        self.step(part % len(self.owners))

    @rule(part=st.integers(0, 3))
    def owner_is_lost(self, part: int) -> None:
        part %= len(self.owners)
        if self.owners[part].ready:
            self.owners[part].die()
            self.shared.lost(part, 0)
            self.decide()

    @rule(part=st.integers(0, 3))
    def owner_is_back(self, part: int) -> None:
        part %= len(self.owners)
        if not self.owners[part].ready:
            self.owners[part].ready = True
            self.shared.ready(part)
            self.decide()

    @precondition(lambda self: self.timer)
    @rule()
    def a_while_passes(self) -> None:
        self.shared.waited()
        self.decide()

    @rule()
    def all_comes_to_rest(self) -> None:
        """No owner that lives starves, and each drain ends."""
        waits = 0
        while True:
            moving = [p for p, one in enumerate(self.owners) if one.told or one.said]
            if moving:
                for part in moving:
                    self.step(part)
            elif self.timer and self.credit and waits < 2 * len(self.owners):
                waits += 1
                self.a_while_passes()
            else:
                break
        assert not self.draining
        if self.credit:
            assert not any(one.backlog for one in self.owners if one.ready)

    @invariant()
    def no_more_is_under_way_than_was_given(self) -> None:
        if not hasattr(self, "owners"):
            return
        under_way = sum(
            one.credit
            + sum(told.credit for told in one.told if isinstance(told, Grant))
            + sum(said for said in one.said if isinstance(said, int))
            for one in self.owners
        )
        assert under_way <= self.credit
        assert sum(self.shared.of(part) for part in range(len(self.owners))) <= self.credit


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=400, stateful_step_count=60, deadline=None)


def decided(shared: SharedCredit) -> list[object]:
    return list(shared.decide())


def ready(parts: int) -> SharedCredit:
    shared = SharedCredit(parts)
    for part in range(parts):
        shared.ready(part)
    return shared


def test_credit_is_shared_evenly_and_again_when_it_is_given_anew() -> None:
    shared = ready(3)
    shared.given(10, draining=False)
    assert decided(shared) == [Grant(0, 4), Grant(1, 3), Grant(2, 3)]
    assert decided(shared) == []
    shared.sent(1, 3)
    assert decided(shared) == [TakeBack(0)]
    shared.given(10, draining=False)
    assert decided(shared) == [Grant(1, 3)]


def test_one_credit_goes_round_and_rests_where_nobody_has_anything() -> None:
    shared = ready(3)
    shared.given(1, draining=False)
    assert decided(shared) == [Grant(0, 1), TakeBack(0)]
    shared.returned(0)
    assert decided(shared) == [Grant(1, 1), TakeBack(1)]
    shared.returned(1)
    assert decided(shared) == [Grant(2, 1), Wait()]
    assert decided(shared) == [Wait()]
    shared.waited()
    assert decided(shared) == [TakeBack(2)]


def test_credit_that_the_client_takes_back_is_taken_back() -> None:
    shared = ready(2)
    shared.given(10, draining=False)
    decided(shared)
    shared.given(4, draining=False)
    assert decided(shared) == [TakeBack(0), TakeBack(1)]
    shared.returned(0)
    shared.returned(1)
    assert decided(shared) == [Grant(0, 2), Grant(1, 2)]


def test_a_part_without_an_owner_holds_nobody_up() -> None:
    shared = ready(2)
    shared.given(4, draining=False)
    decided(shared)
    shared.lost(1, 0)
    assert decided(shared) == [Grant(0, 2)]
    shared.given(4, draining=True)
    assert decided(shared) == [TakeBack(0)]
    shared.returned(0)
    assert decided(shared) == [Drained()]
