"""When all objects are looked at for cycles that nobody has, and when only what is new."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from distributary.ingest.runtime.collecting import ENDED_MIN, Collecting, Ends


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[None]:
    """Python's own, as it was."""
    yield
    gc.unfreeze()
    gc.enable()


def test_all_is_looked_at_when_enough_has_ended() -> None:
    """When it is as much as there is still; a few are nothing, and nothing counts twice."""
    loop = asyncio.new_event_loop()
    loop.close()
    ends = Ends()
    collecting = Collecting(loop, ends)
    ends.begun = ends.ended = ENDED_MIN - 1
    assert not collecting.due()
    ends.begun, ends.ended = 3 * ENDED_MIN + 1, ENDED_MIN
    assert not collecting.due()
    ends.begun, ends.ended = 5 * ENDED_MIN, 3 * ENDED_MIN
    assert collecting.due()


def test_what_lived_once_is_collected_when_enough_has_ended(collector: None) -> None:
    """Not before: it is left alone."""

    async def cycles() -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        ends = Ends()
        Collecting(loop, ends).begin()
        old, new = Cycle(), 0
        mark = id(old)
        await collected()
        del old
        await collected()
        gc.unfreeze()
        left = any(id(one) == mark for one in gc.get_objects() if isinstance(one, Cycle))
        gc.freeze()
        ends.begun = ends.ended = ENDED_MIN
        while any(isinstance(one, Cycle) for one in _all()):
            new += 1
            await asyncio.sleep(0.05)
        return left, new > 0

    assert asyncio.run(asyncio.wait_for(cycles(), 20)) == (True, True)


async def collected() -> None:
    """The collector was at work once more."""
    before = collections()
    while collections() == before:  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)


def collections() -> int:
    return sum(one["collections"] for one in gc.get_stats())


def _all() -> list[object]:
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found
