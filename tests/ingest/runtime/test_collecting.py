"""Times at which the collector looks at all objects for dropped cycles, or only at new ones."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest
from gateway_process import PATIENCE

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

    assert asyncio.run(asyncio.wait_for(cycles(), PATIENCE)) == (True, True)


#: The bytes of a process's memory after each step: with blocks, without; when the loop has worked.
#: Then it waits until they are given back, or it is killed.
RESTS = """
import asyncio, resource, time
from pathlib import Path
from distributary.ingest.runtime.collecting import Collecting, Ends

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()

async def rests():
    blocks = [(bytearray(40_000), bytearray(1_000)) for _ in range(1_500)]
    held = resident()
    in_use = [small for _, small in blocks]
    del blocks
    Collecting(asyncio.get_running_loop(), Ends()).begin()
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        await asyncio.sleep(0)
    worked = resident()
    while resident() > held - 40_000_000:
        await asyncio.sleep(0.05)
    print(worked > held - 20_000_000, len(in_use))

asyncio.run(rests())
"""


def test_a_loop_that_comes_to_rest_gives_free_memory_back() -> None:
    """Also what lies between pieces that are in use; and not before it has worked. In a process of
    its own: here others' memory comes and goes."""
    done = subprocess.run(
        [sys.executable, "-c", RESTS], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "True 1500\n", done.stderr


async def collected() -> None:
    """The collector was at work once more."""
    before = collections()
    while collections() == before:  # noqa: ASYNC110 (there is no event for it)
        await asyncio.sleep(0.01)


def collections() -> int:
    return sum(one["collections"] for one in gc.get_stats())


def _all() -> list[object]:
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found
