"""Messages that a thread reads, while the connection that sends them goes on."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

#: Items that may be read ahead of the one that is asked for.
_AHEAD = 1_000


class InputAhead(Generic[T]):
    """The items of an iterator that may block, for one task of a loop.

    The thread ends with the iterator, or with the process: no read of a terminal or pipe can be
    called back. `next` raises what the iterator raised.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items, self._loop = items, asyncio.get_running_loop()
        self._room = threading.Semaphore(_AHEAD)
        self._read: asyncio.Queue[T | BaseException | None] = asyncio.Queue()
        self._thread = threading.Thread(target=self._run, name="input", daemon=True)
        self._thread.start()

    @property
    def reads(self) -> bool:
        """Whether the thread still reads."""
        return self._thread.is_alive()

    async def next(self) -> T | None:
        """Return the next item; None at the end."""
        found = await self._read.get()
        self._room.release()
        if isinstance(found, BaseException):
            raise found
        return found

    def end(self) -> None:
        """Wake the task that waits in `next`: None follows what was read already."""
        self._read.put_nowait(None)

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._items:
                self._room.acquire()
                self._put(item)
        except BaseException as error:  # noqa: BLE001 (it is raised where the items are asked for)
            last = error
        self._put(last)

    def _put(self, item: T | BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: no task asks any more
            self._loop.call_soon_threadsafe(self._read.put_nowait, item)
