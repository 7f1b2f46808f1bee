"""The committer's interface to a journal, on a disk or a store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from distributary.pipeline.tables.journal.segment import FrameRef


class GroupJournal(Protocol):
    """Groups that are durable, and not in the table yet."""

    @property
    def backlog_bytes(self) -> int:
        """Bytes of frames that the committer hasn't taken in yet."""

    @property
    def dead(self) -> str | None:
        """The reason why nothing works until a restart; None while it works."""

    def read(self, refs: Sequence[FrameRef]) -> list[memoryview]:
        """Return the frames' bytes. Raises StoreError for a recycled one."""

    def places(self, refs: Sequence[FrameRef], /) -> list[tuple[Path, Sequence[FrameRef]]]:
        """Return the files that contain these frames; none for a journal without files."""

    def recycle(self, through_group: int) -> None:
        """Give back the groups up to this one, which the table holds durably."""

    def prepare(self) -> None:
        """Prepare the files that the next groups need."""

    def leave(self) -> None:
        """Skip work from now on that the next owner can do: this owner is about to end."""

    def close(self) -> None:
        """Release all files and memory. Durable groups stay."""
