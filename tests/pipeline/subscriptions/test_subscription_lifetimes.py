"""When subscriptions end by themselves: each lifetime against what ends, and a random life."""

import random

import pytest

from distributary.pipeline.model.policy import Expiry, Lifetime
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.subscription_lifetimes import (
    POSTPONED_SECONDS,
    STOPPED_LEAST,
    Lifetimes,
)

LINK, SESSION, CONNECTION, NEVER = Lifetime
KEY = SubscriptionKey("c", "s", durable=True)


def of(name: object) -> SubscriptionKey:
    return SubscriptionKey("c", str(name), durable=True)


def watched(lifetime: Lifetime, seconds: int = 10) -> Lifetimes[str]:
    """The lifetimes with a subscription that a consumer has made and is on, at time 0."""
    clocks: Lifetimes[str] = Lifetimes()
    clocks.apply(KEY, Expiry(lifetime, seconds), 0, idle=True)
    clocks.joined(KEY)
    return clocks


#: (lifetime, what ends at 1, 2 and 3 in this order) -> when the clock begins.
BEGINS = {
    (LINK, ("link",)): 1,
    (LINK, ("link", "session", "connection")): 1,
    (SESSION, ("link",)): None,
    (SESSION, ("link", "other session")): None,
    (SESSION, ("link", "session")): 2,
    (SESSION, ("link", "session", "connection")): 2,
    (SESSION, ("link", "connection")): 2,
    (CONNECTION, ("link", "session")): None,
    (CONNECTION, ("link", "other connection")): None,
    (CONNECTION, ("link", "session", "connection")): 3,
    (CONNECTION, ("link", "connection")): 2,
    (NEVER, ("link", "session", "connection")): None,
}


@pytest.mark.parametrize(("lifetime", "ends"), BEGINS)
def test_each_lifetime_begins_with_its_end(lifetime: Lifetime, ends: tuple[str, ...]) -> None:
    clocks, begins = watched(lifetime), BEGINS[lifetime, ends]
    for now, end in enumerate(ends, 1):
        match end:
            case "link":
                clocks.left(KEY, "A", 7, now, others=False)
            case "session" | "other session":
                clocks.session_ended("A", 7 if end == "session" else 8, now)
            case _:
                clocks.connection_ended("A" if end == "connection" else "B", now)
    assert not clocks.due(9.9 + (begins or 1_000), 5)
    if begins is None:
        assert clocks.due(1e9, 5) == []
    else:
        assert clocks.is_over(KEY, begins + 10.0)
        assert clocks.due(begins + 10.0, 5) == [KEY]
        assert clocks.due(1e9, 5) == []


def test_who_comes_in_time_stops_the_clock() -> None:
    clocks = watched(LINK)
    clocks.left(KEY, "A", 1, 1, others=False)
    clocks.joined(KEY)
    assert clocks.due(1e9, 5) == []
    clocks.left(KEY, "B", 1, 100, others=False)
    assert clocks.due(109, 5) == []
    assert clocks.due(110, 5) == [KEY]


@pytest.mark.parametrize("lifetime", [LINK, SESSION, CONNECTION])
def test_the_last_of_a_shared_one_counts(lifetime: Lifetime) -> None:
    clocks = watched(lifetime)
    clocks.joined(KEY)
    clocks.left(KEY, "A", 1, 1, others=True)
    clocks.left(KEY, "B", 2, 2, others=False)
    clocks.connection_ended("B", 3)
    begins = 2 if lifetime is LINK else 4
    clocks.session_ended("A", 1, 4 if lifetime is SESSION else 3)
    clocks.connection_ended("A", 4)
    assert clocks.due(begins + 9.5, 5) == []
    assert clocks.due(begins + 10, 5) == [KEY]


def test_a_changed_lifetime_begins_anew_and_the_same_one_does_not() -> None:
    clocks = watched(LINK)
    clocks.left(KEY, "A", 1, 0, others=False)
    clocks.apply(KEY, Expiry(LINK, 10), 5, idle=True)
    assert clocks.is_over(KEY, 10)
    clocks.apply(KEY, Expiry(SESSION, 20), 5, idle=True)
    assert clocks.due(24, 5) == []
    assert clocks.due(25, 5) == [KEY]
    clocks.apply(KEY, Expiry(), 30, idle=True)
    assert (len(clocks), clocks.due(1e9, 5)) == (0, [])


def test_what_can_not_end_now_is_due_again() -> None:
    clocks = watched(LINK, 0)
    clocks.left(KEY, "A", 1, 0, others=False)
    assert clocks.due(0, 5) == [KEY]
    clocks.postpone(KEY, 0)
    assert clocks.due(POSTPONED_SECONDS - 0.1, 5) == []
    assert clocks.due(POSTPONED_SECONDS, 5) == [KEY]


def test_many_are_due_in_their_order_so_many_at_a_time() -> None:
    clocks: Lifetimes[str] = Lifetimes()
    for number in range(10_000):
        clocks.apply(of(number), Expiry(LINK, 10_000 - number), 0, idle=True)
    assert clocks.due(100, 60) == [of(number) for number in range(9_999, 9_939, -1)]
    assert clocks.due(100, 60) == [of(number) for number in range(9_939, 9_899, -1)]
    assert clocks.due(100, 60) == []


def test_clocks_that_are_stopped_are_bounded() -> None:
    """A client that comes and goes all the time leaves nothing behind."""
    clocks = watched(LINK, 1_000_000)
    for now in range(5_000):
        clocks.joined(KEY)
        clocks.left(KEY, "A", now, now, others=False)
    assert clocks.remembered <= 2 + STOPPED_LEAST + 1


class Model:
    """The same rules as lists that are looked through from the beginning at each question."""

    def __init__(self, keys: list[SubscriptionKey]) -> None:
        self.expiries = dict.fromkeys(keys, Expiry())
        self.links: dict[SubscriptionKey, list[tuple[str, int]]] = {key: [] for key in keys}
        self.waits: dict[SubscriptionKey, set[tuple[str, int]]] = {key: set() for key in keys}
        self.begun: dict[SubscriptionKey, int | None] = dict.fromkeys(keys)

    def apply(self, key: SubscriptionKey, expiry: Expiry, now: int) -> None:
        self.expiries[key], self.begun[key], self.waits[key] = expiry, now, set()

    def join(self, key: SubscriptionKey, place: tuple[str, int]) -> None:
        self.links[key].append(place)
        self.begun[key] = None

    def leave(self, key: SubscriptionKey, place: tuple[str, int], now: int) -> None:
        self.links[key].remove(place)
        if self.expiries[key].lifetime in (SESSION, CONNECTION):
            self.waits[key].add(place)
        self.begun[key] = None if self.links[key] or self.waits[key] else now

    def ended(self, connection: str, session: int | None, now: int) -> None:
        """A session after its links; None: the connection."""
        for key in self.waits:
            if session is not None and self.expiries[key].lifetime is not SESSION:
                continue
            waits = self.waits[key]
            gone = {one for one in waits if one[0] == connection and session in (None, one[1])}
            self.waits[key] = waits - gone
            if gone == waits and gone and not self.links[key]:
                self.begun[key] = now

    def over(self, now: int) -> set[SubscriptionKey]:
        return {
            key
            for key, since in self.begun.items()
            if since is not None
            if self.expiries[key].lifetime is not NEVER
            if since + self.expiries[key].seconds <= now
        }


class Life:
    """A model and the clocks, told the same."""

    def __init__(self, seed: int) -> None:
        self.chance, self.keys = random.Random(seed), [of(number) for number in range(4)]
        self.clocks: Lifetimes[str] = Lifetimes()
        self.model = Model(self.keys)
        for key in self.keys:
            self.anew(key, 0)

    def anew(self, key: SubscriptionKey, now: int) -> None:
        expiry = Expiry(self.chance.choice(list(Lifetime)), self.chance.randrange(1, 6))
        self.model.apply(key, expiry, now)
        self.clocks.forget(key)
        self.clocks.apply(key, expiry, now, idle=True)

    def leave(self, key: SubscriptionKey, place: tuple[str, int], now: int) -> None:
        self.model.leave(key, place, now)
        self.clocks.left(key, *place, now, others=bool(self.model.links[key]))

    def end(self, connection: str, session: int | None, now: int) -> None:
        """The links that are there, then what has them."""
        for key in self.keys:
            for place in list(self.model.links[key]):
                if place[0] == connection and session in (None, place[1]):
                    self.leave(key, place, now)
        self.model.ended(connection, session, now)
        if session is None:
            self.clocks.connection_ended(connection, now)
        else:
            self.clocks.session_ended(connection, session, now)

    def step(self, now: int) -> None:
        key, connection = self.chance.choice(self.keys), self.chance.choice("AB")
        session, links = self.chance.choice((1, 2)), self.model.links[key]
        match self.chance.randrange(6):
            case 0 | 1:
                self.model.join(key, (connection, session))
                self.clocks.joined(key)
            case 2 | 3 if links:
                self.leave(key, self.chance.choice(links), now)
            case 4:
                self.end(connection, session, now)
            case 5:
                self.end(connection, None, now)


@pytest.mark.parametrize("seed", range(20))
def test_a_random_life_is_as_the_rules_say(seed: int) -> None:
    """Due subscriptions are those of the model; one that still has consumers is postponed."""
    life, ends = Life(seed), 0
    for now in range(1, 300):
        life.step(now)
        due = life.clocks.due(now, 10)
        idle = {key for key in due if not life.model.links[key]}
        assert idle == life.model.over(now), now
        for key in due:
            if key in idle:
                life.anew(key, now)
            else:
                life.clocks.postpone(key, now)
        ends += len(idle)
    assert ends
