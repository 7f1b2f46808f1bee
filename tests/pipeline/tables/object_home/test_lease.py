"""The lease of a home without a disk: its owner, its next owner, and the effect of lost answers."""

import time
from collections.abc import Iterator

import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3
from said_time import at

from distributary.pipeline.errors import BeatFailed, HomeLocked, HomeLost, StopAsked, StoreError
from distributary.pipeline.fleet.heirs import HEIR_SECONDS
from distributary.pipeline.tables.object_home.lease import (
    LEAVING_SECONDS,
    LOOKS,
    LeaseOwner,
    LeaseStandby,
    acquire_lease,
    acquired,
    lease_of,
)
from distributary.pipeline.tables.object_home.object_home import ObjectHome

LEASE = 0.6
#: A process that waits for it is too late for its test.
LONG = 600.0


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        yield found


@pytest.fixture
def home(s3: FaultyS3, request: pytest.FixtureRequest) -> Iterator[ObjectHome]:
    yield ObjectHome(f"s3://lake/{request.node.name}", s3.options())
    s3.plan(Plan())


def taken(standby: LeaseStandby) -> LeaseOwner:
    """By a standby, by its own clock: the seconds of this one don't pass."""
    assert standby.attempt(at(10.0)) is None
    assert standby.attempt(at(10.0 + LEASE / 2)) is None
    owner = standby.attempt(at(10.01 + LEASE))
    assert owner is not None
    return owner


def test_a_free_home_is_taken_at_once_and_given_back(home: ObjectHome) -> None:
    owner = acquire_lease(home, LONG)
    owner.beat()
    owner.check()
    owner.release()
    acquire_lease(home, LONG).release()


def test_an_owner_that_lives_is_not_disturbed(home: ObjectHome) -> None:
    """A start is refused when it has seen a sign of life; a standby goes on waiting."""
    owner, standby = acquire_lease(home, LEASE), LeaseStandby(lease_of(home, LEASE))
    for nth in range(5):
        assert standby.attempt(at(nth * LEASE)) is None
        owner.beat()
    assert standby.owner_pid > 0


def test_a_standby_looks_when_the_lease_is_over(home: ObjectHome, s3: FaultyS3) -> None:
    """Not a look later; and a look without an answer is soon repeated."""
    lease = 10 * LEASE
    acquire_lease(home, lease)
    standby = LeaseStandby(lease_of(home, lease))
    assert standby.attempt(at(0.0)) is None
    assert standby.attempt(at(lease - 0.01)) is None
    assert standby.seconds == pytest.approx(0.01)
    s3.plan(Plan(errors=1.0))
    assert standby.attempt(at(lease)) is None
    assert standby.seconds < lease / LOOKS
    s3.plan(Plan())
    assert standby.attempt(at(lease)) is not None


def test_a_standby_that_is_paused_amid_its_look_takes_nothing(home: ObjectHome) -> None:
    """The claim that it read may be as young as the answer, whenever the request began."""
    owner = acquire_lease(home, LEASE)
    standby = LeaseStandby(lease_of(home, LEASE))
    paused_until = LEASE + 1.0
    assert standby.attempt(at(0.0, paused_until)) is None
    assert standby.attempt(at(paused_until + LEASE / LOOKS)) is None
    assert standby.attempt(at(paused_until + LEASE - 0.01)) is None
    owner.check()
    assert standby.attempt(at(paused_until + LEASE)) is not None


def test_a_start_is_refused_while_its_owner_beats(home: ObjectHome, s3: FaultyS3) -> None:
    owner = acquire_lease(home, 5.0)
    other = LeaseStandby(lease_of(home, LEASE))
    assert other.attempt(at(0.0)) is None
    owner.beat()
    s3.plan(Plan())
    assert other.attempt(at(LEASE)) is None  # what it sees now it sees for the first time


def test_who_waits_for_a_lease_hears_that_nobody_wants_it(home: ObjectHome) -> None:
    """It would be waited for as long as its former owner may live."""
    former = acquire_lease(home, 3_600)
    lease = lease_of(home, 3_600)
    with pytest.raises(StopAsked):
        acquired(LeaseStandby(lease), lease, lambda: True)
    former.beat()


def test_a_silent_owner_loses_its_home_and_knows_it(home: ObjectHome) -> None:
    former = acquire_lease(home, LEASE)
    owner = taken(LeaseStandby(lease_of(home, LEASE)))
    with pytest.raises(HomeLost, match="has another owner now"):
        former.beat()
    with pytest.raises(HomeLost):
        former.check()
    former.release()  # says nothing into another's lease
    owner.beat()


def test_of_two_that_want_it_one_gets_it(home: ObjectHome) -> None:
    acquire_lease(home, LEASE)
    one, other = LeaseStandby(lease_of(home, LEASE)), LeaseStandby(lease_of(home, LEASE))
    assert other.attempt(at(10.0)) is None
    owner = taken(one)
    assert other.attempt(at(10.01 + LEASE)) is None
    owner.beat()


def test_a_lost_answer_loses_no_home(home: ObjectHome, s3: FaultyS3) -> None:
    """The claim is stored although the answer was lost: the lease is ours."""
    owner = acquire_lease(home, LEASE)
    s3.plan(Plan(lost=1.0, hang_seconds=0.2))
    for _ in range(3):
        with pytest.raises(BeatFailed):
            owner.beat()
    s3.plan(Plan())
    owner.beat()
    s3.plan(Plan(errors=1.0))
    with pytest.raises(BeatFailed):
        owner.beat()
    s3.plan(Plan())
    owner.beat()
    owner.release()


def test_whoever_took_it_without_hearing_so_has_it(home: ObjectHome, s3: FaultyS3) -> None:
    standby = LeaseStandby(lease_of(home, LEASE))
    s3.plan(Plan(lost=1.0, hang_seconds=0.2))
    assert standby.attempt(at(0.0)) is None
    s3.plan(Plan())
    owner = standby.attempt(at(0.1)) or standby.attempt(at(0.2))
    assert owner is not None
    owner.beat()


def test_a_store_that_is_not_there_is_one_sentence() -> None:
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    home = ObjectHome("s3://lake/nowhere", options | keys)
    with pytest.raises(StoreError, match="s3://lake/nowhere can't be taken") as caught:
        acquire_lease(home, 0.2)
    assert not isinstance(caught.value, HomeLocked)


def test_an_owner_that_leaves_is_looked_at_often(home: ObjectHome) -> None:
    """It says so once, and with each sign of life, until its farewell."""
    owner, standby = acquire_lease(home, LEASE), LeaseStandby(lease_of(home, LEASE))
    assert standby.attempt(at(10.0)) is None
    assert (standby.leaving, standby.seconds) == (False, LEASE / LOOKS)
    assert owner.leave() > LEASE / LOOKS
    for _ in range(2):
        assert standby.attempt(at(10.1)) is None
        assert (standby.leaving, standby.seconds) == (True, LEAVING_SECONDS)
        owner.beat()
    owner.release()
    after = standby.attempt(at(10.2))
    assert after is not None
    owner.release()  # a second time it says nothing
    after.beat()
    other = LeaseStandby(lease_of(home, LEASE))
    assert other.attempt(at(0.0)) is None
    assert not other.leaving


def test_a_named_heir_takes_the_home_first(home: ObjectHome) -> None:
    """Others leave it alone until the heir has had its time; also a start, which waits."""
    owner = acquire_lease(home, LEASE)
    heir, other = LeaseStandby(lease_of(home, LEASE), 7), LeaseStandby(lease_of(home, LEASE), 8)
    assert owner.leave(7) > 0
    for standby in (heir, other):
        assert standby.attempt(at(0.0)) is None
    assert (heir.named, heir.leaving) == (True, True)
    assert (other.named, other.leaving) == (False, False)
    owner.release()
    assert other.attempt(at(0.2)) is None
    assert other.attempt(at(0.2 + HEIR_SECONDS - 0.1)) is None
    taken = heir.attempt(at(0.2))
    assert taken is not None
    assert other.attempt(at(0.2 + HEIR_SECONDS)) is None
    taken.leave(99)
    taken.stay()
    taken.release()
    again = other.attempt(at(0.3 + HEIR_SECONDS))
    assert again is not None, "the next owner has named no heir"
    again.leave(99)
    again.release()
    before = time.monotonic()
    acquire_lease(home, LEASE).release()
    assert time.monotonic() - before >= HEIR_SECONDS, "an heir might have come"
