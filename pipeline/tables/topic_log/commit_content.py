"""The content of one commit: its files, in memory."""

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.tables.delta.commits import AddedFile


class CommitFiles(msgspec.Struct, frozen=True, eq=False):
    """The files that a commit of some frames adds. `group` is the last group, `sequence` the first
    sequence after it; `added` are its files and `data`, one for each, their bytes."""

    group: int
    sequence: int
    added: list[AddedFile]
    data: list[Bytes]
