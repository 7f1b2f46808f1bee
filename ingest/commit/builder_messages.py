"""Messages between the gateway and the process that builds files for it.

They are MessagePack (`ingest.processes.child_process`); an answer is followed by its files' bytes.
"""

import msgspec

from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.journal.segment import FrameRef


class BuildRequest(msgspec.Struct, frozen=True):
    """A request to encode frames, which follow the table's last group and have sequences from its
    first free one on. `places` has frames by the file in which they are; `frames` has the bytes of
    frames that are in no file."""

    places: list[tuple[str, list[FrameRef]]]
    group: int
    sequence: int
    frames: list[memoryview] = []


class BuildAnswer(msgspec.Struct, frozen=True):
    """The files that a commit of the frames adds (`CommitFiles` without the bytes), or (`error`)
    why there are none."""

    group: int = 0
    sequence: int = 0
    added: list[AddedFile] = []
    error: str = ""
