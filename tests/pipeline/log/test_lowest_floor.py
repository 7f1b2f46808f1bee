"""The lowest of many floors: as if all were looked at, and without that."""

import random
from dataclasses import dataclass, field
from weakref import ReferenceType, ref

import pytest

from distributary.pipeline.log.lowest_floor import LowestFloor


@dataclass(eq=False)
class Member:
    """A floor, and how often it was looked at."""

    at: int = 0
    looks: int = field(default=0)

    @property
    def floor(self) -> int:
        self.looks += 1
        return self.at


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_a_scan_of_all_finds(seed: int) -> None:
    """Members come, go, come again, rise, and fall when that is said."""
    rng, floors, there, gone = random.Random(seed), LowestFloor(), list[Member](), list[Member]()
    for _ in range(3_000):
        what = rng.random()
        if what < 0.2 or not there:
            member = gone.pop() if gone and rng.random() < 0.5 else Member(rng.randint(0, 100))
            there.append(member)
            floors.add(member)
        elif what < 0.35:
            member = there.pop(rng.randrange(len(there)))
            floors.discard(member)
            floors.discard(member)
            gone.append(member)
        elif what < 0.75:
            rng.choice(there).at += rng.randint(0, 40)
        elif what < 0.85:
            member = rng.choice(there)
            member.at = rng.randint(0, member.at)
            floors.fell(member)
        elif gone and what < 0.88:
            gone[-1].at = 0
            floors.fell(gone[-1])
        lowest = min((one.at for one in there), default=-1)
        if rng.random() < 0.3:
            assert floors.bound(-1) == lowest  # they are few
        if rng.random() < 0.3:
            assert floors.lowest(-1) == lowest
            assert len(floors) == len(there)


def test_those_that_stay_behind_or_ahead_cost_nothing() -> None:
    floors, members = LowestFloor(), [Member(nth) for nth in range(10_000)]
    for member in members:
        floors.add(member)
        member.looks = 0
    for at in range(0, 1_000, 10):
        members[-1].at = 20_000 + at  # busy, and never the lowest one
        assert floors.lowest(-1) == 0
    assert sum(member.looks for member in members) == 100
    members[0].at = 5_000
    assert floors.lowest(-1) == 1
    assert sum(member.looks for member in members) == 102


def test_a_bound_is_found_in_bounded_time_and_comes_nearer() -> None:
    floors, members = LowestFloor(), [Member() for _ in range(3_500)]
    for member in members:
        floors.add(member)
        member.at, member.looks = 7, 0
    bounds, looks = [], []
    for _ in range(4):
        bounds.append(floors.bound(-1))
        looks.append(sum(member.looks for member in members))
    assert bounds == [0, 0, 0, 7]
    assert looks == [1_000, 2_000, 3_000, 3_501]
    assert LowestFloor().bound(5) == 5


def test_what_has_gone_is_forgotten_behind_one_that_stays() -> None:
    floors, gone = LowestFloor(), list[ReferenceType[Member]]()
    floors.add(Member(0))
    for _ in range(10_000):
        other = Member(1)
        floors.add(other)
        floors.fell(other)
        floors.discard(other)
        gone.append(ref(other))
    del other
    assert floors.lowest(-1) == 0
    assert sum(one() is not None for one in gone) < 100
