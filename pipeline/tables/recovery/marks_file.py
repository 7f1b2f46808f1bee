"""The place of dispatch marks: memory that the loop writes, and how it becomes durable.

`MarksFile` is the protocol of all places; `MappedFile` is a file on a disk, whose memory the kernel
keeps when the process is killed.
"""

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from distributary.pipeline.tables.journal.segment import sync_directory, write_all


class MarksFile(Protocol):
    """A file of marks. After an OSError nothing is certain."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def memory(self) -> mmap.mmap | bytearray:
        """Its bytes now; another object after each `make` and `grow`."""

    def make(self, header: bytes, size: int) -> None:
        """Begin a new file: the header, then zeros. Readers see the old one until `publish`."""

    def publish(self) -> None:
        """Replace the old file by the new one, durably."""

    def grow(self, size: int) -> Callable[[], None]:
        """Append zeros. The returned function releases the former memory; call it when no view of
        that memory is in use. After an error nothing has changed."""

    def sync(self) -> None:
        """Make all earlier writes durable. May be called on another thread."""

    def close(self) -> None:
        """Release the file."""


class MappedFile:
    """The file at `path`, mapped: a store into it outlives the process.

    A new file is written under a name of its own, then `owned` is asked, and the temporary files of
    other owners are removed before the new file is published. So a former owner that was paused
    before its rename finds nothing to rename when it wakes.
    """

    def __init__(self, path: Path, owned: Callable[[], None]) -> None:
        """`owned` raises HomeLost when the home is no longer ours."""
        self._path, self.name, self._owned = path, str(path), owned
        self._temporary = path.with_name(f".{path.name}.{token_hex(4)}.tmp")
        self._left: list[Path] = []
        self._fd = -1
        self._mapped: mmap.mmap | bytearray = bytearray()

    @property
    def memory(self) -> mmap.mmap | bytearray:
        return self._mapped

    def make(self, header: bytes, size: int) -> None:
        """Write a new file beside the old one, whole, so that no store meets a full disk."""
        self._left = list(self._path.parent.glob(f".{self._path.name}.*tmp"))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(self._temporary, flags, 0o644)
        write_all(self._fd, [header, bytes(size - len(header))], 0)
        self._mapped = mmap.mmap(self._fd, size)

    def publish(self) -> None:
        self._owned()
        for left in self._left:
            left.unlink(missing_ok=True)
        self._temporary.rename(self._path)
        sync_directory(self._path.parent)

    def grow(self, size: int) -> Callable[[], None]:
        """As `MarksFile.grow`. The zeros are written, not only reserved: a store into a hole of a
        full disk would kill the process."""
        old, before = self._mapped, len(self._mapped)
        try:
            write_all(self._fd, [bytes(size - before)], before)
        except OSError:
            os.ftruncate(self._fd, before)
            raise
        self._mapped = mmap.mmap(self._fd, size)
        return old.close if isinstance(old, mmap.mmap) else old.clear

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if isinstance(self._mapped, mmap.mmap):
            self._mapped.close()
        os.close(self._fd)
