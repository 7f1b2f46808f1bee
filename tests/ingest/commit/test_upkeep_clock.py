"""Times of upkeep, and the messages that it may regard as owed to no subscription: the clock of the
real gateway over a real table, with this thread as its thread."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from table_groups import DAY_US, framed, group, run

from distributary.ingest.commit.upkeep_clock import Floors, Result, UpkeepClock
from distributary.ingest.runtime.host import Halt, Host
from distributary.ingest.runtime.load_settings import load
from distributary.ingest.runtime.workers import Failure
from distributary.pipeline.errors import HomeLost, StoreError
from distributary.pipeline.log.message_counts import MessageCounts, Stalls
from distributary.pipeline.tables.topic_log.topic_log import Commit, TopicLog
from distributary.pipeline.tables.upkeep.table_upkeep import Upkeep


def now() -> int:
    """A day that retention wouldn't take, in us: asked when it is needed, as midnight may come."""
    return time.time_ns() // 1_000


#: A day that it would.
OLD = now() - 30 * DAY_US


class StoppedLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes when `now` is changed, in seconds."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Clock:
    """A clock whose steps are done at once; `results` are what they brought."""

    def __init__(self, log: TopicLog) -> None:
        self.loop = StoppedLoop()
        self.log = log
        self.results: list[Result] = []
        self.host = Host(self.loop, load(None, {}), Halt(self.loop), MessageCounts(1, Stalls()))
        self.floors = Floors(0, 0)
        self.lost = False
        self.upkeep = UpkeepClock(
            self.host, log, self._owned, self._submit, lambda: self.floors, lambda: False
        )

    def _owned(self) -> None:
        if self.lost:
            raise HomeLost("taken over")

    @property
    def reason(self) -> str | None:
        """Why all stops, if it does."""
        halt = self.host.halt
        return self.loop.run_until_complete(halt.ended(0)) if halt.on else None

    def _submit(
        self, job: Callable[[], Commit | Upkeep | None], done: Callable[[Result], None]
    ) -> None:
        result: Result
        try:
            result = job()
        except (StoreError, OSError) as error:  # as a worker hands it over
            result = Failure(error)
        self.results.append(result)
        done(result)

    def tick(self) -> list[str]:
        """One look at what is due, whatever pause is left; the kinds of steps that were done."""
        self.results.clear()
        self.loop.now += 3_600
        self.upkeep.tick()
        return [one.kind for one in self.results if isinstance(one, Upkeep)]


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[Clock]:
    """Over a table with ten messages of a month ago."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"] * 10), at=OLD))])
    made = Clock(log)
    yield made
    made.upkeep.end()
    made.loop.close()


def test_a_floor_counts_when_the_table_has_what_it_rests_on(clock: Clock) -> None:
    """The outcomes behind a floor may lie in the group that waits: until that is in the table the
    messages below the floor stay."""
    clock.floors = Floors(2, 10)
    assert clock.tick() == []
    assert clock.tick() == []
    assert clock.log.first_sequence == 0
    clock.log.commit([framed(group(2, 10, run("t", [b"y"]), at=now()))])
    assert clock.tick() == ["retention"]
    assert clock.log.first_sequence == 10


def test_without_a_word_of_the_subscriptions_nothing_goes(clock: Clock) -> None:
    """A gateway that doesn't know its subscriptions yet takes everything for owed."""
    for n in range(3):
        clock.log.commit([framed(group(2 + n, 10 + n, run("t", [b"y"]), at=now()))])
        assert clock.tick() == []
    assert clock.log.first_sequence == 0


def test_a_step_waits_for_its_pause(clock: Clock) -> None:
    """Upkeep has half of the thread's time at most: a second look right after a step does none."""
    clock.floors = Floors(1, 10)
    clock.tick()
    assert clock.tick() == ["retention"]
    clock.results.clear()
    clock.upkeep.tick()
    assert clock.results == []


def test_who_has_lost_the_home_touches_nothing(clock: Clock) -> None:
    """Each step asks first whether the home is still ours; the answer stops the gateway."""
    clock.floors = Floors(1, 10)
    clock.tick()
    clock.lost = True
    clock.tick()
    assert clock.reason == "HomeLost: taken over"
    assert clock.log.first_sequence == 0


def test_a_step_that_fails_is_tried_again(clock: Clock) -> None:
    """Without room nothing is lost: commits go on, and the step is done when there is room."""
    clock.floors = Floors(1, 10)
    clock.tick()
    folder = clock.log.path / "_delta_log"
    moved = folder.rename(folder.with_name("away"))
    folder.write_bytes(b"")
    assert clock.tick() == []
    assert isinstance(clock.results[0], Failure)
    assert clock.reason is None
    folder.unlink()
    moved.rename(folder)
    assert clock.tick() == ["retention"]
