"""When all objects are looked at for cycles that nobody has, and when only what is new."""

import asyncio
import gc
import resource
import time
from collections.abc import Iterator
from pathlib import Path

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


def test_a_loop_that_comes_to_rest_gives_free_memory_back(collector: None) -> None:
    """Also what lies between pieces that are in use; and not before it has worked."""

    async def rests() -> None:
        loop = asyncio.get_running_loop()
        blocks = [(bytearray(40_000), bytearray(1_000)) for _ in range(1_500)]
        held = _resident_bytes()
        in_use = [small for _, small in blocks]
        del blocks
        Collecting(loop, Ends()).begin()
        end = time.thread_time() + 0.2
        while time.thread_time() < end:  # noqa: ASYNC110 (it works)
            await asyncio.sleep(0)
        assert _resident_bytes() > held - 20_000_000
        while _resident_bytes() > held - 40_000_000:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.05)
        assert len(in_use) == 1_500

    asyncio.run(asyncio.wait_for(rests(), 60))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


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
