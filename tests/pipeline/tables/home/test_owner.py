"""A home has one owner, which notices without delay when it has lost the home."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from said_time import at

from distributary.pipeline.errors import HomeLocked, HomeLost
from distributary.pipeline.fleet.heirs import HEIR_SECONDS, NUMBERS
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import (
    CLAIM_BYTES,
    LEAVING_SECONDS,
    STANDBY_SECONDS,
    Standby,
    acquire,
    lock,
)

LEASE = 3.0
OWNER = """
import sys
from pathlib import Path
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import lock
with lock(Home(Path(sys.argv[1]))):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "new" / "home")


def test_a_second_owner_is_refused_with_the_pid_of_the_first(home: Home) -> None:
    """Two processes can't own one home; a killed one leaves it free for a standby, without a
    wait."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, home.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    standby = Standby(home, LEASE)
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "mine\n"
        with pytest.raises(HomeLocked, match=f"pid {owner.pid}"), lock(home):
            pass
        assert standby.attempt(at(0.0)) is None
        assert standby.owner_pid == owner.pid
        owner.kill()
        owner.wait()
        taken = standby.attempt(at(0.1))
        assert taken is not None
        taken.check()
        taken.release()
    with lock(home):
        assert home.lock_path.exists()


def test_a_home_is_free_after_its_block(home: Home) -> None:
    """The lock ends with the block that holds it, and each owner's epoch is one higher."""
    epochs = []
    for _ in range(3):
        with lock(home) as owner:
            epochs.append(owner.epoch)
    assert epochs == [1, 2, 3]


def test_a_lock_file_of_an_older_version_is_understood(home: Home) -> None:
    """It held the pid alone."""
    home.root.mkdir(parents=True)
    home.lock_path.write_text("4711\n")
    with lock(home) as owner:
        assert owner.epoch == 1


def test_a_standby_waits_while_the_heart_beats(home: Home) -> None:
    """However long the owner lives, and a lease longer after its last sign of life."""
    owner = acquire(home)
    standby = Standby(home, LEASE)
    now = 0.0
    for _ in range(10):
        owner.beat()
        assert standby.attempt(at(now)) is None
        now += LEASE - 0.1
        assert standby.attempt(at(now)) is None
        now += 0.05
    owner.check()
    now += LEASE
    assert standby.attempt(at(now)) is not None


def test_a_standby_that_is_paused_amid_its_look_takes_nothing(home: Home) -> None:
    """The claim that it reads may have been written until the read's end, whenever the look
    began."""
    owner = acquire(home)
    standby = Standby(home, LEASE)
    paused_until = LEASE + 1.0
    assert standby.attempt(at(0.0, paused_until)) is None
    assert standby.attempt(at(paused_until + STANDBY_SECONDS)) is None
    assert standby.attempt(at(paused_until + LEASE - 0.1)) is None
    owner.check()
    assert standby.attempt(at(paused_until + LEASE)) is not None


def test_a_silent_owner_loses_the_home_and_knows(home: Home) -> None:
    """Its next check fails, and all later ones; its heartbeats go into a file without readers."""
    owner = acquire(home)
    standby = Standby(home, LEASE)
    assert standby.attempt(at(0.0)) is None
    taken = standby.attempt(at(LEASE))
    assert taken is not None
    assert taken.taken
    assert taken.epoch == owner.epoch + 1
    text = home.lock_path.read_text()
    owner.beat()
    assert home.lock_path.read_text() == text
    with pytest.raises(HomeLost, match=r"another owner now.*owner\.lease_ms"):
        owner.check()
    taken.release()
    with pytest.raises(HomeLost):
        owner.check()
    taken.check()


def test_of_two_standbys_one_wins_and_the_other_waits_for_it(home: Home) -> None:
    """A whole lease anew: the new owner has just shown that it lives."""
    acquire(home)
    first, second = Standby(home, LEASE), Standby(home, LEASE)
    assert first.attempt(at(0.0)) is None
    assert second.attempt(at(0.0)) is None
    winner = first.attempt(at(LEASE))
    assert winner is not None
    assert second.attempt(at(LEASE)) is None
    assert second.owner_pid == os.getpid()
    assert second.attempt(at(2 * LEASE - 0.1)) is None
    winner.check()
    winner.release()
    assert second.attempt(at(2 * LEASE - 0.05)) is not None


def test_a_lock_file_that_is_gone_is_a_lost_home(home: Home) -> None:
    """Another gateway could start by now."""
    owner = acquire(home)
    home.lock_path.unlink()
    with pytest.raises(HomeLost, match="can't be read"):
        owner.check()


def test_the_owner_of_a_moved_home_has_lost_it(home: Home, tmp_path: Path) -> None:
    """The file under the old name now belongs to another home."""
    owner = acquire(home)
    home.root.rename(tmp_path / "elsewhere")
    with lock(home), pytest.raises(HomeLost):
        owner.check()


def test_an_owner_that_leaves_is_looked_at_often(home: Home) -> None:
    """Until it has given the home back. Its heartbeats repeat that; the next owner's don't."""
    owner, standby = acquire(home), Standby(home, LEASE)
    assert standby.attempt(at(0.0)) is None
    assert (standby.leaving, standby.seconds) == (False, STANDBY_SECONDS)
    assert owner.leave() >= STANDBY_SECONDS
    for _ in range(2):
        assert standby.attempt(at(0.1)) is None
        assert (standby.leaving, standby.seconds) == (True, LEAVING_SECONDS)
        owner.beat()
    owner.check()
    owner.release()
    taken = standby.attempt(at(0.2))
    assert taken is not None
    other = Standby(home, LEASE)
    assert other.attempt(at(0.0)) is None
    assert not other.leaving


def test_an_owner_that_leaves_knows_whether_somebody_waits(home: Home) -> None:
    """Without a standby it has no reason to wait; and one standby doesn't hide another."""
    owner = acquire(home)
    text = home.lock_path.read_text()
    assert owner.leave() == 0
    first, second = Standby(home, LEASE), Standby(home, LEASE)
    first.close()
    assert owner.leave() > 0
    second.close()
    second.close()
    assert owner.leave() == 0
    assert text.split()[:2] == home.lock_path.read_text().split()[:2]


def test_an_owner_that_leaves_and_hangs_loses_the_home(home: Home) -> None:
    """As ever: a lease after its last sign of life."""
    owner, standby = acquire(home), Standby(home, LEASE)
    owner.leave()
    assert standby.attempt(at(0.0)) is None
    assert standby.attempt(at(LEASE - 0.1)) is None
    assert standby.attempt(at(LEASE)) is not None
    with pytest.raises(HomeLost):
        owner.check()


def test_a_named_heir_takes_the_home_first(home: Home) -> None:
    """Others look no more often than ever, and leave it alone until the heir has had its time."""
    owner = acquire(home)
    heir, other = Standby(home, LEASE, 7), Standby(home, LEASE, 8)
    assert owner.leave(7) > 0
    for standby in (heir, other):
        assert standby.attempt(at(0.0)) is None
    assert (heir.named, heir.leaving, heir.seconds) == (True, True, LEAVING_SECONDS)
    assert (other.named, other.leaving, other.seconds) == (False, False, STANDBY_SECONDS)
    owner.beat()
    assert other.attempt(at(0.1)) is None
    owner.release()
    assert other.attempt(at(0.2)) is None
    assert other.attempt(at(0.2 + HEIR_SECONDS - 0.1)) is None
    taken = heir.attempt(at(0.2 + HEIR_SECONDS - 0.1))
    assert taken is not None
    assert other.attempt(at(0.2 + HEIR_SECONDS)) is None
    assert taken.epoch == 2
    taken.check()
    taken.release()
    assert other.attempt(at(0.3 + HEIR_SECONDS)) is not None, "the next owner has named no heir"


def test_an_heir_that_does_not_come_leaves_the_home_to_anybody(home: Home) -> None:
    """A standby, or a start; an owner that stays after all names no heir any more."""
    owner = acquire(home)
    other = Standby(home, LEASE, 8)
    owner.leave(7)
    owner.stay()
    assert other.attempt(at(0.0)) is None
    owner.leave(7)
    owner.release()
    assert other.attempt(at(1.0)) is None
    taken = other.attempt(at(1.0 + HEIR_SECONDS))
    assert taken is not None
    taken.leave(7)
    taken.release()
    again = acquire(home)
    assert again.epoch == taken.epoch + 1
    again.leave(7)
    again.stay()
    again.release()
    assert other.attempt(at(100.0)) is not None, "at once"


def test_a_lock_file_has_room_for_all_that_it_says(home: Home) -> None:
    """Older versions read the fields that they know."""
    owner = acquire(home)
    present = Standby(home, LEASE)
    for _ in range(1_000):
        owner.beat()
    owner.leave(NUMBERS - 1)
    text = home.lock_path.read_text()
    assert len(text) == CLAIM_BYTES
    assert text.split()[3:] == ["1", str(NUMBERS - 1)]
    assert len(f"{2**22} {10**8} {10**11} 1 {NUMBERS - 1}") < CLAIM_BYTES
    for heir in (-5, 10**CLAIM_BYTES):  # the next owner would read nothing, and begin at epoch 1
        with pytest.raises(ValueError, match="a lock file can't say"):
            owner.leave(heir)
    assert home.lock_path.read_text() == text
    present.close()


class SlowlySaid(int):
    """A number that is written out when `go` is set."""

    begun, go = threading.Event(), threading.Event()

    def __str__(self) -> str:
        self.begun.set()
        self.go.wait()
        return int.__repr__(self)


def test_who_speaks_while_the_home_is_given_back_writes_into_no_other_file(
    home: Home, tmp_path: Path
) -> None:
    """The next file that is opened has the number of the lock file."""
    owner, present = acquire(home), Standby(home, LEASE)
    heir, other = SlowlySaid(7), tmp_path / "other"

    def given_back() -> None:
        owner.release()
        with other.open("wb"):
            speaks.join()

    speaks = threading.Thread(target=owner.leave, args=(heir,))
    gives = threading.Thread(target=given_back)
    speaks.start()
    heir.begun.wait()
    gives.start()
    gives.join(0.5)  # the stimulus: if it waits for no word, it is further by now
    heir.go.set()
    gives.join()
    assert other.read_bytes() == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        owner.beat()
    present.close()
