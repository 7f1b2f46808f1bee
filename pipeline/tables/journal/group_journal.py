"""What the committer asks of a journal, wherever its groups lie."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from distributary.pipeline.tables.journal.segment import FrameRef


class GroupJournal(Protocol):
    """Groups that are durable, and not in the table yet."""

    @property
    def backlog_bytes(self) -> int:
        """Bytes of frames that the committer has yet to take in."""

    @property
    def dead(self) -> str | None:
        """Why nothing works until a restart; None while it does."""

    def read(self, refs: Sequence[FrameRef]) -> list[memoryview]:
        """The frames' bytes. Raises StoreError for one that was recycled."""

    def places(self, refs: Sequence[FrameRef], /) -> list[tuple[Path, Sequence[FrameRef]]]:
        """The files in which these frames lie; none where they aren't in files."""

    def recycle(self, through_group: int) -> None:
        """The table holds durably every group up to this one."""

    def prepare(self) -> None:
        """See to it that the next groups find what they need."""

    def leave(self) -> None:
        """The owner is about to end: what the next one can do while it serves isn't done."""

    def close(self) -> None:
        """Let go of everything. What is durable stays."""
