"""Dispatch marks without a disk: memory, and an object of each owner.

A store is too slow to be asked for every delivery. So an object's marks say only whether a
subscription had a consumer, as those on a disk do after a power cut. All that the subscription was
owed then counts as possibly delivered when its owner has died. Each owner has an object of its own,
so a former owner replaces nothing of a later one. Each state of the object has a number, and
replaces only the state before it: a late request replaces nothing either.
"""

import time
from collections.abc import Callable

from distributary.pipeline.tables.delta.object_store import ObjectStore, Tag
from distributary.pipeline.tables.object_home.object_home import marks_path

#: Seconds for which a state's put is repeated while the store doesn't answer; between two attempts.
PATIENCE_SECONDS, AGAIN_SECONDS = 20.0, 0.05


class ObjectMarks:
    """The marks of one owner. Implements `MarksFile`."""

    def __init__(self, store: ObjectStore, epoch: int) -> None:
        self._store, self._path = store, marks_path(epoch)
        self.name = f"{store.uri}/{self._path}"
        self._memory = bytearray()
        self._number = 0
        self._tag: Tag | None = None
        self._said: bytes | None = None  #: the object's last known content

    @property
    def memory(self) -> bytearray:
        return self._memory

    def make(self, header: bytes, size: int) -> None:
        self._memory = bytearray(header.ljust(size, b"\0"))

    def publish(self) -> None:
        """Do nothing: no other process reads this object before this owner's journal is live."""

    def grow(self, size: int) -> Callable[[], None]:
        self._memory = bytearray(bytes(self._memory).ljust(size, b"\0"))
        return _nothing

    def sync(self) -> None:
        memory = bytes(self._memory)
        if memory == self._said:
            return
        self._number += 1
        data = memory + self._number.to_bytes(8, "little")
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._replaced(data):
                    self._said = memory
                    return
            except FileNotFoundError:
                raise  # another owner has removed it
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(AGAIN_SECONDS)

    def _replaced(self, data: bytes) -> bool:
        """Whether this state is stored; if not, the tag that it must replace is known now."""
        tag = self._store.exchange(self._path, data, self._tag)
        if tag is not None:
            self._tag = tag
            return True
        there, self._tag = self._store.tagged(self._path)
        return there == data

    def close(self) -> None:
        """Do nothing: there is only memory."""


def _nothing() -> None:
    """Do nothing: there is no former memory to release."""


def read_marks(store: ObjectStore, epoch: int) -> bytes | None:
    """Read an owner's marks; None if it left none. Raises OSError."""
    try:
        return store.read(marks_path(epoch))
    except FileNotFoundError:
        return None
