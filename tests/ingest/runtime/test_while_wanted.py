"""Work that one task does while there is any: none is forgotten, whenever it comes."""

import asyncio
import gc
import warnings

from distributary.ingest.runtime.workers import WhileWanted


class Work:
    """Numbers that wait, and those that were done."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.waiting: list[int] = []
        self.done: list[int] = []
        self.tasks = 0
        self.work = WhileWanted(self._run, lambda: bool(self.waiting), self.loop, "numbers")

    async def _run(self) -> None:
        self.tasks += 1
        while self.waiting:
            self.done.append(self.waiting.pop(0))

    def add(self, number: int) -> None:
        self.waiting.append(number)
        self.work.begin()

    def turn(self) -> None:
        """Let the loop turn once."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()


def test_what_comes_as_the_task_ends_is_done() -> None:
    """In the turn in which the task has done its work, it isn't over yet."""
    work = Work()
    work.add(1)
    work.loop.call_soon(work.add, 2)  # behind the task's last step, before it is known to be over
    for _ in range(5):
        work.turn()
    assert (work.done, work.waiting) == ([1, 2], [])
    work.loop.close()


def test_one_task_does_it_at_a_time() -> None:
    work = Work()
    work.work.begin()  # there is nothing
    for number in range(3):
        work.add(number)
    for _ in range(5):
        work.turn()
    assert (work.done, work.tasks) == ([0, 1, 2], 1)
    work.loop.close()


def test_nothing_is_begun_after_a_bug() -> None:
    """It is told to the loop, whose service ends; what waits is left."""
    loop, told = asyncio.new_event_loop(), []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))
    begun = []

    async def wrong() -> None:
        begun.append(1)
        raise ValueError("a bug")

    work = WhileWanted(wrong, lambda: True, loop, "numbers")
    work.begin()
    for _ in range(5):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert (begun, told) == ([1], ["numbers"])
    loop.close()


def test_what_is_closed_is_cancelled() -> None:
    loop = asyncio.new_event_loop()
    endless = loop.create_future()
    work = WhileWanted(lambda: asyncio.wait([endless]), lambda: True, loop, "numbers")
    work.begin()
    loop.run_until_complete(asyncio.sleep(0))
    work.close()
    loop.run_until_complete(work.finish(60))
    loop.run_until_complete(asyncio.sleep(0))
    assert not asyncio.all_tasks(loop)
    loop.close()


def test_what_is_closed_before_its_first_turn_never_was() -> None:
    """No coroutine is left without an await: Python would warn of it on standard error."""
    loop = asyncio.new_event_loop()
    begun: list[int] = []

    async def numbers() -> None:
        begun.append(1)

    work = WhileWanted(numbers, lambda: True, loop, "numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work.begin()
        work.close()
        loop.run_until_complete(asyncio.sleep(0))
        gc.collect()
    assert not begun
    loop.close()
