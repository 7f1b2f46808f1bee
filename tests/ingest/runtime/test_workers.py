"""Threads beside the loop: what becomes of jobs that wait when the gateway ends."""

import asyncio
import threading

from distributary.ingest.runtime.workers import Failure, Worker


def test_who_stops_finishes_what_waits() -> None:
    done: list[int | Failure] = []

    async def play() -> None:
        worker: Worker[int] = Worker("test", asyncio.get_running_loop())
        for number in range(3):
            worker.submit(lambda number=number: number, done.append)
        worker.stop()
        await asyncio.sleep(0)

    asyncio.run(play())
    assert done == [0, 1, 2]


def test_who_leaves_waits_for_nothing() -> None:
    """Neither the loop nor its end waits for the job under way, no waiting job is begun, and no
    result is reported."""
    begun, go = threading.Event(), threading.Event()
    begun_late: list[int] = []
    told: list[int | Failure] = []
    threads: list[threading.Thread] = []
    failed: list[threading.ExceptHookArgs] = []

    def first() -> int:
        begun.set()
        go.wait()
        return 0

    async def play() -> None:
        worker: Worker[int] = Worker("leaving", asyncio.get_running_loop())
        worker.submit(first, told.append)
        worker.submit(lambda: begun_late.append(1) or 1, told.append)
        begun.wait()
        threads.extend(one for one in threading.enumerate() if one.name == "leaving")
        worker.leave()

    hook, threading.excepthook = threading.excepthook, failed.append
    try:
        asyncio.run(play())
        assert not go.is_set()
        go.set()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = hook
        go.set()
    assert len(threads) == 1
    assert not begun_late
    assert not told
    assert not failed
