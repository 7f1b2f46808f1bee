"""Looks at the table that somebody waits for, made by a thread of their own."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from distributary.ingest.runtime.workers import Failure, Worker

T = TypeVar("T")


class TableReads:
    """One look after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._worker: Worker[Any] = Worker("operations", loop)

    async def read(self, job: Callable[[], T]) -> T:
        """What the job gives. Raises what it raises, such as StoreError."""
        came: asyncio.Future[T | Failure] = self._loop.create_future()
        self._worker.submit(job, lambda result: None if came.done() else came.set_result(result))
        found = await came
        if isinstance(found, Failure):
            raise found.error
        return found

    def close(self) -> None:
        self._worker.leave()
