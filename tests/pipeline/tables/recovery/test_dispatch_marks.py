"""Marks as a process leaves them, whatever way it ends, and what the next one makes of them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_files import open_below

from distributary.pipeline.errors import HomeLost, StoreError
from distributary.pipeline.log.failures import (
    POSSIBLY_DELIVERED_STEPS_MAX,
    Failures,
    PossiblyDelivered,
)
from distributary.pipeline.tables.recovery import dispatch_marks as module
from distributary.pipeline.tables.recovery.dispatch_marks import (
    SLOT_BYTES,
    SLOTS_MIN,
    DispatchMarks,
    Standpoint,
)

HEAD = 100


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the boot's id: another text in it is another start of the machine."""
    path = tmp_path / "boot_id"
    path.write_text("one boot\n")
    monkeypatch.setattr(module, "BOOT_ID_PATH", path)
    return path


class Lives:
    """Processes one after the other on one file, with the subscriptions a, b and c."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.floors = dict.fromkeys("abc", 0)
        self.began: dict[str, int] = {}
        self.group = 0
        self.lost = False
        self.before_publish: Callable[[], None] = lambda: None

    def owned(self) -> None:
        """The moment between a new file of marks and its name."""
        if self.lost:
            raise HomeLost("it is another's")
        self.before_publish()

    def start(self, head: int = HEAD) -> tuple[DispatchMarks, dict[str, PossiblyDelivered]]:
        self.group += 10
        points = [
            Standpoint(name, floor, self.began.get(name, 0)) for name, floor in self.floors.items()
        ]
        return DispatchMarks.open(
            self.path, points, head=head, next_group=self.group, owned=self.owned
        )

    def below(self, head: int = HEAD) -> dict[str, int]:
        """Return the possibly delivered messages that the next process finds; it ends without a
        delivery."""
        marks, uncertain = self.start(head)
        marks.close()
        return {name: possible.below for name, possible in uncertain.items()}


@pytest.fixture
def lives(tmp_path: Path, boot: Path) -> Lives:
    """A home whose first process has no predecessor and no subscriptions."""
    assert boot.exists()
    found = Lives(tmp_path / "dispatch")
    floors, found.floors = found.floors, {}
    found.start()[0].close()
    found.floors = floors
    return found


def test_a_mark_is_exact_after_a_kill(lives: Lives) -> None:
    """Each subscription's own; one without a consumer has none, one that got nothing neither."""
    marks, _ = lives.start()
    a, b = marks.attach("a"), marks.attach("b")
    marks.deliver(a, 5)
    marks.deliver(a, 7)
    assert (marks.delivering(a), marks.delivering(b)) == (True, False)
    assert lives.below() == {"a": 7, "b": 0, "c": 0}


def test_the_slot_of_nobody_takes_every_mark(lives: Lives) -> None:
    """Subscriptions that aren't durable have slot 0; it changes nothing of the header."""
    marks, _ = lives.start()
    marks.deliver(0, 99)
    assert lives.below() == {"a": 0, "b": 0, "c": 0}
    assert lives.start()[0].found == "marks of this boot"


def test_what_is_quiet_is_in_no_doubt(lives: Lives) -> None:
    """And a subscription that was deleted gives its slot to the next one, clean."""
    marks, _ = lives.start()
    a, b = marks.attach("a"), marks.attach("b")
    marks.deliver(a, 5)
    marks.deliver(b, 6)
    marks.quiet(a)
    marks.free("b")
    assert marks.attach("c") == b
    assert lives.below() == {"a": 0, "b": 0, "c": 0}


def test_after_a_power_cut_who_had_a_consumer_is_in_doubt_up_to_the_head(
    lives: Lives, boot: Path
) -> None:
    """It is in doubt with any mark; subscriptions that had no consumer, or were quiet, aren't."""
    marks, _ = lives.start()
    marks.deliver(marks.attach("a"), 5)
    b = marks.attach("b")
    marks.quiet(b)
    marks.deliver(b, 9)  # a store without its flag, as the disk may have it
    boot.write_text("another boot\n")
    assert lives.below() == {"a": HEAD, "b": 0, "c": 0}


def test_where_the_boot_is_not_known_no_mark_is_trusted(lives: Lives, boot: Path) -> None:
    """Two boots without an id aren't the same."""
    boot.unlink()
    marks, _ = lives.start()
    marks.deliver(marks.attach("a"), 5)
    assert lives.below() == {"a": HEAD, "b": 0, "c": 0}


def test_without_the_file_everything_is_in_doubt(lives: Lives) -> None:
    """Except for later messages."""
    lives.path.unlink()
    assert lives.below() == dict.fromkeys("abc", HEAD)
    assert lives.below(HEAD + 50) == dict.fromkeys("abc", HEAD)


@pytest.mark.parametrize("at", [0, 9, 20, 47])
def test_a_damaged_header_puts_everything_in_doubt(lives: Lives, at: int) -> None:
    """Any byte of it: the owner of the file can't be told."""
    data = bytearray(lives.path.read_bytes())
    data[at] ^= 1
    lives.path.write_bytes(data)
    assert lives.below() == dict.fromkeys("abc", HEAD)


@pytest.mark.parametrize("at", [0, 17, 19, 20, 100, 102])
def test_a_damaged_slot_puts_those_in_doubt_that_have_no_other(lives: Lives, at: int) -> None:
    """The subscription of the damaged slot is unknown; those with a sound slot are known."""
    marks, _ = lives.start()
    marks.deliver(marks.attach("a"), 5)
    slot = marks.attach("b")
    marks.close()
    data = bytearray(lives.path.read_bytes())
    data[slot * SLOT_BYTES + at] ^= 1
    lives.path.write_bytes(data)
    assert lives.below() == {"a": 5, "b": HEAD, "c": HEAD}


@pytest.mark.parametrize("size", [0, 30, SLOT_BYTES, 2 * SLOT_BYTES + 5])
def test_a_file_cut_short_is_damaged(lives: Lives, size: int) -> None:
    """The slots behind the end are unknown."""
    marks, _ = lives.start()
    marks.attach("a")
    marks.close()
    lives.path.write_bytes(lives.path.read_bytes()[:size])
    assert lives.below()["b"] == HEAD


def test_another_version_is_refused(lives: Lives) -> None:
    """With what to do, and the file as it was."""
    header = module.HEADER.pack(module.MAGIC, 2, SLOTS_MIN, bytes(32))
    lives.path.write_bytes(module.checked(header))
    with pytest.raises(StoreError, match="version 2, ours is 1"):
        lives.start()
    assert lives.path.read_bytes() == module.checked(header)


def test_doubt_outlives_ends_in_which_nothing_was_learned(lives: Lives) -> None:
    """Orderly or not; it goes when the floor has passed it."""
    marks, _ = lives.start()
    marks.deliver(marks.attach("a"), 50)
    assert lives.below()["a"] == 50
    marks, _ = lives.start()
    a = marks.attach("a")
    marks.deliver(a, 20)
    assert lives.below()["a"] == 50
    lives.floors["a"] = 30
    assert lives.below()["a"] == 50
    lives.floors["a"] = 50
    assert lives.below()["a"] == 0


def test_who_died_before_a_rewind_puts_nothing_in_doubt_that_comes_after(lives: Lives) -> None:
    """Its deliveries were to the incarnation before; a process that died after the rewind may have
    delivered to this one."""
    marks, _ = lives.start()  # group 20
    marks.deliver(marks.attach("a"), 50)
    assert lives.below()["a"] == 50  # it wrote no group from 30 on
    lives.began["a"] = 29
    assert lives.below()["a"] == 50
    lives.began["a"] = 30
    assert lives.below()["a"] == 0
    marks, _ = lives.start()
    marks.deliver(marks.attach("a"), 20)
    assert lives.below()["a"] == 20


def test_a_mark_falls_with_a_rewind_alone(lives: Lives) -> None:
    """A message out of turn was delivered, whatever comes after it; one that was delivered before
    the subscription began anew was not delivered to it."""
    marks, _ = lives.start()
    a = marks.attach("a")
    marks.deliver(a, 80)
    marks.deliver(a, 5)
    assert lives.below()["a"] == 80
    lives.floors["a"], lives.began["a"] = 10, 31
    marks, _ = lives.start()
    a = marks.attach("a")
    marks.deliver(a, 80)
    marks.renew(a)
    assert not marks.delivering(a)
    marks.deliver(a, 15)
    assert lives.below()["a"] == 15


def test_a_growing_file_keeps_what_it_has(lives: Lives) -> None:
    """Slots and marks of before and after; a store goes where a restart finds it."""
    marks, _ = lives.start()
    names = [f"s{n}" for n in range(3 * SLOTS_MIN)]
    slots = [marks.attach(name) for name in names]
    for slot in slots:
        marks.deliver(slot, slot)
    assert len(set(slots)) == len(slots)
    assert 0 not in slots
    lives.floors = dict.fromkeys(names, 0)
    assert lives.below(10**6) == dict(zip(names, slots, strict=True))
    assert lives.below(10**6) == dict(zip(names, slots, strict=True))


def test_a_sync_that_failed_is_not_tried_again(lives: Lives) -> None:
    """Although the disk would now report success, perhaps for stores that it has lost."""
    marks, _ = lives.start()
    fd, _of_its_map = open_below(lives.path)
    kept = os.dup(fd)
    os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        marks.sync()
    os.dup2(kept, fd)
    os.close(kept)
    os.fdatasync(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        marks.sync()
    marks.close()


def test_a_former_owner_stores_into_nothing(lives: Lives) -> None:
    """Each start has a file of its own."""
    old, _ = lives.start()
    slot = old.attach("a")
    new, _ = lives.start()
    old.deliver(slot, 60)
    old.sync()
    new.close()
    assert lives.below() == {"a": 0, "b": 0, "c": 0}


crashes = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


@given(crashes, st.integers(0, 59), st.integers(0, 130))
def test_a_count_is_never_too_low(ends: list[tuple[int, int]], one: int, known: int) -> None:
    """Of a message that the log knows as of some group: one more if a process died since that
    delivered it. As long as no more deaths are told apart than fit, it is exact."""
    possible, deaths, floors = PossiblyDelivered(), [], [0]
    for nth, (position, floor) in enumerate(ends, start=1):
        floors.append(max(floors[-1], min(floor, one)))
        possible = possible.after_crash(position, 10 * nth, floor=floors[-1])
        if position > one:
            deaths.append(10 * nth)
        assert len(possible.steps) <= POSSIBLY_DELIVERED_STEPS_MAX
        assert list(possible.steps) == sorted(possible.steps, key=lambda step: (-step[0], step[1]))
    exact = 2 + any(group > known for group in deaths)
    found = possible.failures({one: Failures(2, known)})[one]
    assert found >= exact
    if len({position for position, _ in ends}) <= POSSIBLY_DELIVERED_STEPS_MAX:
        assert found == exact
    assert (one < possible.below) == bool(deaths)


def test_an_owner_that_is_paused_in_its_start_replaces_nothing(lives: Lives) -> None:
    """Its marks are written, and it was the owner when it looked; then it sleeps until the next one
    serves: the next one's marks stay, and outlive it."""
    marks: list[DispatchMarks] = []

    def taken_over() -> None:
        lives.before_publish = lambda: None
        marks.append(lives.start()[0])
        marks[0].deliver(marks[0].attach("a"), 7)
        marks[0].sync()

    lives.before_publish = taken_over
    with pytest.raises(StoreError):
        lives.start()
    marks[0].deliver(marks[0].attach("a"), 9)
    marks[0].close()
    assert lives.below() == {"a": 9, "b": 0, "c": 0}
    assert not list(lives.path.parent.glob("*.tmp"))


def test_marks_are_made_by_the_owner_alone(lives: Lives) -> None:
    """A process that has lost the home leaves the marks as they are, and its next owner's
    unfinished file, too."""
    other = lives.path.with_name(".dispatch.beef.tmp")
    other.write_bytes(b"the next owner's")
    before = lives.path.read_bytes()
    lives.lost = True
    with pytest.raises(HomeLost):
        lives.start()
    assert (lives.path.read_bytes(), other.read_bytes()) == (before, b"the next owner's")
