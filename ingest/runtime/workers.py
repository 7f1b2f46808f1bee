"""Work beside the loop: threads that only block in system calls or run inside native libraries, and
repeated work of the loop itself.

Other work on a thread would hold the interpreter while the engine needs it: every call into Proton
releases it and must get it back.
"""

import asyncio
import ctypes
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

_PR_SET_NAME = 15


class Failure(Exception):
    """Carries what a worker's job raised back to the loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


async def watched(
    work: Callable[[], Coroutine[None, None, None]], loop: asyncio.AbstractEventLoop, what: str
) -> None:
    """Do a task's work; `work` isn't called if the task is cancelled before its first turn. An
    exception is a bug and stops the service at once; but for a Failure, which the worker's callers
    handle."""
    try:
        await work()
    except Failure:
        raise
    except Exception as error:
        loop.call_exception_handler({"message": what, "exception": error})
        raise


def went_well(task: "asyncio.Task[None]") -> bool:
    """Whether a task has ended without an exception or a cancellation."""
    return not task.cancelled() and task.exception() is None


class Repeated:
    """Work of the loop that is repeated until `close`, each time `seconds` after its last end.
    After a failure (`watched`) it isn't repeated."""

    def __init__(
        self,
        work: Callable[[], Coroutine[None, None, None]],
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        what: str,
    ) -> None:
        """`what` names the work in the message of a bug."""
        self._work, self._loop, self._seconds, self._what = work, loop, seconds, what
        self._task: asyncio.Task[None] | None = None
        self._timer = loop.call_later(seconds, self._begin)

    def close(self) -> None:
        """Stop, and cancel work that is under way."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = self._loop.create_task(watched(self._work, self._loop, self._what))
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if went_well(task):
            self._timer = self._loop.call_later(self._seconds, self._begin)


class WhileWanted:
    """Work of the loop that one task does while there is any, and begins again when there is more.
    Work that is added between the end of the task's work and the end of the task isn't forgotten:
    `wanted` is asked again then. After a failure (`watched`) nothing is begun."""

    def __init__(
        self,
        work: Callable[[], Coroutine[None, None, None]],
        wanted: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
        what: str,
    ) -> None:
        """`work` does all waiting work, `wanted` says whether there is any; `what` names it in the
        message of a bug."""
        self._work, self._wanted, self._loop, self._what = work, wanted, loop, what
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin the task if there is work and it doesn't run."""
        if self._task is None and self._wanted():
            self._task = self._loop.create_task(watched(self._work, self._loop, self._what))
            self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if went_well(task):
            self.begin()

    async def finish(self, seconds: float) -> None:
        """Wait for work that is under way, at most `seconds`."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    def close(self) -> None:
        """Cancel work that is under way."""
        if self._task is not None:
            self._task.cancel()


class Worker(Generic[T]):
    """One named thread that does jobs in order and tells the loop about each.

    `done` is called on the loop with the job's result, or with its exception. An exception that is
    neither this project's nor the system's is a bug: it is handed over, too, and the service stops.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._name, self._loop = name, loop
        self._jobs: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        #: The callbacks of unfinished jobs. The thread never holds one: objects that it refers to,
        #: also Proton's, may only be freed on the loop's thread.
        self._told: deque[Callable[[T | Failure], None]] = deque()
        self._left = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T], done: Callable[[T | Failure], None]) -> None:
        self._told.append(done)
        self._jobs.put(job)

    async def ask(self, job: Callable[[], T]) -> T:
        """Do a job on the thread, and return its result. Raises the job's exception."""
        answer: asyncio.Future[T] = self._loop.create_future()

        def done(result: T | Failure) -> None:
            if answer.done():
                return  # the caller doesn't wait any more
            if isinstance(result, Failure):
                answer.set_exception(result.error)
            else:
                answer.set_result(result)

        self.submit(job, done)
        return await answer

    def leave(self) -> None:
        """End the thread after its current job, without waiting for it: the job may take long where
        a store doesn't answer. Waiting jobs are dropped, and no results are reported any more. Only
        for jobs that read, or write what may be lost. The loop may end meanwhile."""
        self._left = True
        self._told.clear()
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        self._jobs.put(None)

    def stop(self) -> None:
        """Finish the waiting jobs, then end the thread. Blocks."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        # Name the thread in the kernel, for `top -H` and the benches' budget by stage.
        ctypes.CDLL(None).prctl(_PR_SET_NAME, self._name.encode(), 0, 0, 0)
        while (job := self._jobs.get()) is not None:
            result: T | Failure
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 (handed to the loop, which stops)
                result = Failure(error)
            try:
                self._loop.call_soon_threadsafe(self._tell, result)
            except RuntimeError:  # the loop has ended
                if not self._left:
                    raise

    def _tell(self, result: T | Failure) -> None:
        if self._left:
            return
        self._told.popleft()(result)
