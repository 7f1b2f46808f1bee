"""The journal of an owner without a disk: its groups that aren't in the table yet.

Frames stay in memory until they are committed, as reading them back would cost a request each.
Threads: `keep` on the loop; `read`, `recycle` on the committer's thread; all else on any.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects, PutAnswer

#: Entries that couldn't be removed and are tried again; the next owner removes the others.
LEFT_MAX = 10_000


class ObjectJournal:
    """The journal of one epoch, which begins empty. Implements `GroupJournal`."""

    def __init__(self, objects: JournalObjects, epoch: int) -> None:
        self._objects, self._epoch = objects, epoch
        self._lock = threading.Lock()  # guards the fields below; never held during I/O
        self._frames: dict[int, memoryview] = {}
        self._left: list[int] = []  # groups whose entries are still to be removed
        self._leaving = False
        self.backlog_bytes = 0
        self.dead: str | None = None

    @property
    def epoch(self) -> int:
        return self._epoch

    def keep(self, group: int, frame: memoryview) -> FrameRef:
        """Keep the frame of a group whose put is under way."""
        with self._lock:
            self._frames[group] = frame
            self.backlog_bytes += len(frame)
        return FrameRef(group, 0, 0, len(frame))

    def put(self, group: int, data: bytes) -> PutAnswer:
        """Put the entry of a group. Blocks."""
        return self._objects.put(self._epoch, group, data)

    def read(self, refs: Sequence[FrameRef]) -> list[memoryview]:
        with self._lock:
            found = [self._frames.get(ref.group) for ref in refs]
        views = [frame for frame in found if frame is not None]
        if len(views) < len(refs):
            raise StoreError(f"group {refs[0].group} was recycled, it can't be read")
        return views

    def places(self, _refs: Sequence[FrameRef]) -> list[tuple[Path, Sequence[FrameRef]]]:
        """Return none: the frames aren't in files."""
        return []

    def recycle(self, through_group: int) -> None:
        """Remove the entries of all groups up to this one, which the table has durably. Removals
        that fail are repeated by the next call."""
        with self._lock:
            done = [group for group in self._frames if group <= through_group]
            for group in done:
                self.backlog_bytes -= len(self._frames.pop(group))
        left = (self._left + done)[-LEFT_MAX:]
        self._left = left if self._leaving else []
        if self._leaving:
            return
        try:
            self._objects.remove(self._epoch, left)
        except OSError:
            self._left = left

    def prepare(self) -> None:
        """Do nothing: no file is made beforehand."""

    def leave(self) -> None:
        """Leave entries from now on to the next owner, which removes them while it serves."""
        self._leaving = True

    def close(self) -> None:
        with self._lock:
            self._frames.clear()
