"""Values that are read from files which may change while the gateway runs."""

import asyncio
import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Seconds between two looks at the files.
LOOK_SECONDS = 1.0


class Watch:
    """Calls `renew` once a second from `start` to `close`, to read changed files again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, renew: Callable[[], None]) -> None:
        self._loop, self._renew = loop, renew
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._renew()
        self.start()


class Part(Generic[T]):
    """A value read from files, with the files' state at that time."""

    def __init__(self, name: str, files: tuple[str, ...], read: Callable[[], T]) -> None:
        self.name, self._files, self._read = name, tuple(filter(None, files)), read
        self._looks = self._look()
        self.value = read()

    def renew(self, *, anyway: bool = False) -> bool:
        """Read the files again if one has changed; return whether they were read. Raises
        InvalidRequest when their content is invalid; then `value` stays as it was."""
        # The state is taken before the content: a change in between is noticed the next time.
        looks = self._look()
        if not self._files or (looks == self._looks and not anyway):
            return False
        self._looks = looks
        self.value = self._read()
        return True

    def _look(self) -> list[tuple[int, ...]]:
        return [_look(file) for file in self._files]


def _look(file: str) -> tuple[int, ...]:
    """Return a state that changes when the file is written or replaced; of a link its target's."""
    try:
        found = os.stat(file)  # noqa: PTH116 (a text from the settings)
    except OSError as error:
        return (error.errno or 0,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
