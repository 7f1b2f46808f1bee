"""Dispatch marks as an object: what the next owner reads, and which puts replace nothing."""

from collections.abc import Iterator

import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3

from distributary.pipeline.tables.object_home.object_home import ObjectHome, marks_path
from distributary.pipeline.tables.object_home.object_marks import ObjectMarks, read_marks
from distributary.pipeline.tables.recovery.dispatch_marks import (
    SLOTS_MIN,
    DispatchMarks,
    Standpoint,
    left_in,
)

HEAD = 50


@pytest.fixture
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        yield found


@pytest.fixture
def home(s3: FaultyS3) -> ObjectHome:
    return ObjectHome("s3://lake/home", s3.options())


class Lives:
    """Owners one after the other, each reading what the one before left."""

    def __init__(self, home: ObjectHome) -> None:
        self.store, self.epoch = home.store(1.0), 0

    def start(self, *names: str) -> tuple[DispatchMarks, dict[str, int]]:
        left = left_in(read_marks(self.store, self.epoch), b"", "home")
        self.epoch += 1
        points = [Standpoint(name, 0) for name in names]
        file = ObjectMarks(self.store, self.epoch)
        marks, possible = DispatchMarks.begin(file, b"", left, points, HEAD, self.epoch * 10)
        return marks, {name: one.below for name, one in possible.items()}


def test_all_that_a_consumer_was_owed_may_have_been_delivered(home: ObjectHome) -> None:
    """Of subscriptions that had one when their owner died; of others nothing."""
    lives = Lives(home)
    marks, _ = lives.start()
    for name in "abc":
        marks.attach(name)
    marks.deliver(marks.attach("a"), 7)
    marks.quiet(marks.attach("c"))
    marks.sync()
    marks.deliver(marks.attach("a"), 9)  # never durable
    _, below = lives.start("a", "b", "c", "d")
    assert below == {"a": HEAD, "b": HEAD, "c": 0, "d": 0}


def test_without_marks_all_may_have_been_delivered(home: ObjectHome) -> None:
    _, below = Lives(home).start("a")
    assert below == {"a": HEAD}


def test_many_subscriptions_have_slots(home: ObjectHome) -> None:
    lives = Lives(home)
    marks, _ = lives.start()
    names = [f"s{n}" for n in range(SLOTS_MIN + 20)]
    for name in names:
        marks.attach(name)
    marks.sync()
    _, below = lives.start(*names)
    assert set(below.values()) == {HEAD}


def test_lost_answers_and_late_puts_replace_nothing(home: ObjectHome, s3: FaultyS3) -> None:
    """A state takes the place of the one before it alone."""
    lives = Lives(home)
    marks, _ = lives.start()
    first = read_marks(lives.store, 1)
    assert first is not None
    tag = lives.store.tagged(marks_path(1))[1]
    marks.attach("a")
    s3.plan(Plan(lost=0.5, errors=0.2, hang_seconds=0.1))
    for _ in range(5):
        marks.sync()
    s3.plan(Plan())
    assert lives.store.exchange(marks_path(1), first, tag) is None
    _, below = lives.start("a")
    assert below == {"a": HEAD}
