"""Dispatch marks without a disk: memory, and an object of each owner.

A store can't be asked for every delivery. So an object's marks say what a power cut leaves on a
disk: whether a subscription had a consumer. All that it was owed then counts as possibly delivered
when its owner has died. Each owner has an object of its own, so a former one replaces nothing.
"""

from collections.abc import Callable

from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.object_home.object_home import marks_path


class ObjectMarks:
    """The marks of one owner. Implements `MarksFile`."""

    def __init__(self, store: ObjectStore, epoch: int) -> None:
        self._store, self._path = store, marks_path(epoch)
        self.name = f"{store.uri}/{self._path}"
        self._memory = bytearray()

    @property
    def memory(self) -> bytearray:
        return self._memory

    def make(self, header: bytes, size: int) -> None:
        self._memory = bytearray(header.ljust(size, b"\0"))

    def publish(self) -> None:
        """Nobody else reads this owner's object before its journal is the live one."""

    def grow(self, size: int) -> Callable[[], None]:
        self._memory = bytearray(bytes(self._memory).ljust(size, b"\0"))
        return _nothing

    def sync(self) -> None:
        self._store.replace(self._path, bytes(self._memory))

    def close(self) -> None:
        """Only memory."""


def _nothing() -> None:
    """There is no former memory to be let go of."""


def read_marks(store: ObjectStore, epoch: int) -> bytes | None:
    """What an owner left; None if it left nothing. Raises OSError."""
    try:
        return store.read(marks_path(epoch))
    except FileNotFoundError:
        return None
