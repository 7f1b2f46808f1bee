"""What the gateway and the process that builds files for it say to each other.

Messages of MessagePack (`ingest.processes.child_process`), and behind an answer the bytes of its
files.
"""

import msgspec

from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.journal.segment import FrameRef


class BuildRequest(msgspec.Struct, frozen=True):
    """Encode these frames, each with the file in which it lies, behind the last group and the first
    free sequence that the table has. Frames that lie in no file come with it."""

    places: list[tuple[str, list[FrameRef]]]
    group: int
    sequence: int
    frames: list[memoryview] = []


class BuildAnswer(msgspec.Struct, frozen=True):
    """What a commit of them adds, `CommitFiles` without the bytes; or (`error`) why there is
    nothing."""

    group: int = 0
    sequence: int = 0
    added: list[AddedFile] = []
    error: str = ""
