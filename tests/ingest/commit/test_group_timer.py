"""When a group that waits is due, on a real loop whose clock goes on when the loop waits."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable

import pytest

from distributary.ingest.commit.group_timer import GroupTimer

SECONDS = 20.0


class Skipping(selectors.SelectSelector):
    """Waits for nothing; `now` is what the time would be."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.skipping = Skipping()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.now


def due_after(steps: Callable[[GroupTimer], Awaitable[None]]) -> list[float]:
    """When the timer said that the group is due, in seconds since the steps began."""

    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        began, times = loop.time(), list[float]()
        timer: GroupTimer

        def begin() -> None:
            times.append(loop.time() - began)
            timer.clear()

        timer = GroupTimer(loop, begin)
        await steps(timer)
        await asyncio.sleep(4 * SECONDS)  # the stimulus: by the loop's own clock
        return times

    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(run())


def test_a_group_is_due_once_and_not_before_its_time() -> None:
    async def steps(timer: GroupTimer) -> None:
        timer.set(SECONDS)
        timer.set(2 * SECONDS)  # what came first has waited longest

    [at] = due_after(steps)
    assert at == pytest.approx(SECONDS)


def test_who_waits_for_less_makes_it_sooner() -> None:
    async def steps(timer: GroupTimer) -> None:
        timer.set(60.0)
        timer.set(SECONDS)

    assert due_after(steps) == [pytest.approx(SECONDS)]


def test_a_group_has_its_own_time_though_one_before_it_went_early() -> None:
    """The timer of the one that went rings for it, and waits on."""

    async def steps(timer: GroupTimer) -> None:
        timer.set(SECONDS)
        await asyncio.sleep(SECONDS / 2)  # the stimulus: by the loop's own clock
        timer.clear()
        timer.set(SECONDS)

    [at] = due_after(steps)
    assert at == pytest.approx(1.5 * SECONDS)


def test_a_group_that_went_is_not_due_any_more() -> None:
    async def steps(timer: GroupTimer) -> None:
        timer.set(0)
        timer.set(SECONDS)
        timer.clear()

    assert due_after(steps) == []


def test_without_waiting_it_is_due_when_the_loop_has_turned() -> None:
    async def steps(timer: GroupTimer) -> None:
        timer.set(60.0)
        timer.set(0)
        timer.set(0)

    assert due_after(steps) == [0.0]
