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


def test_who_leaves_finishes_what_is_under_way_alone() -> None:
    """Of jobs that wait none is begun: each might take as long as this one."""
    begun, go = threading.Event(), threading.Event()
    asked: list[int] = []

    def first() -> int:
        begun.set()
        go.wait()
        return 0

    async def play() -> None:
        worker: Worker[int] = Worker("test", asyncio.get_running_loop())
        worker.submit(first, lambda _result: None)
        worker.submit(lambda: asked.append(1) or 1, lambda _result: None)
        begun.wait()
        threading.Timer(0.05, go.set).start()
        worker.leave()

    asyncio.run(play())
    assert go.is_set()
    assert not asked


def test_who_abandons_waits_for_nothing() -> None:
    """Neither the loop nor its end waits for the job that is under way, and nobody is told."""
    begun, go = threading.Event(), threading.Event()
    told: list[int | Failure] = []
    threads: list[threading.Thread] = []
    failed: list[threading.ExceptHookArgs] = []

    def first() -> int:
        begun.set()
        go.wait()
        return 0

    async def play() -> None:
        worker: Worker[int] = Worker("abandoned", asyncio.get_running_loop())
        worker.submit(first, told.append)
        worker.submit(lambda: 1, told.append)
        begun.wait()
        threads.extend(one for one in threading.enumerate() if one.name == "abandoned")
        worker.abandon()

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
    assert not told
    assert not failed
