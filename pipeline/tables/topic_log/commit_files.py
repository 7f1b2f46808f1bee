"""The files of one commit, in memory: from frames of the journal to Parquet.

Pure computation: nothing is written, and the frames are the only input, so it may run anywhere,
also in another process (`ingest.commit.file_builder`).
"""

import datetime as dt
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.frame import DecodedFrame
from distributary.pipeline.tables.topic_log import group_rows as rows
from distributary.pipeline.tables.topic_log.commit_content import CommitFiles


def encode(views: Sequence[memoryview], *, group: int, sequence: int) -> CommitFiles | None:
    """Make the files of a commit of these frames of the journal, in order. `group` is the table's
    last group, `sequence` its first free sequence; None if the table has all of the frames.

    Raises StoreError for frames that don't follow each other, or the table.
    """
    frames = [one for one in map(frame.decode, views) if one.group > group]
    if not frames:
        return None
    _check_dense(frames, group, sequence)
    added: list[AddedFile] = []
    data: list[Bytes] = []
    for record, table in rows.build(frames).items():
        for day, part in _days(table):
            file, encoded = data_file.described(part, record=record, day=day, tier=0)
            added.append(file)
            data.append(memoryview(encoded))
    return CommitFiles(frames[-1].group, sequence + sum(f.count for f in frames), added, data)


def _days(table: pa.Table) -> list[tuple[str, pa.Table]]:
    """Split the rows by their day, in the same order."""
    days = cast("list[dt.date]", pc.unique(table["day"]).to_pylist())
    if len(days) == 1:
        return [(days[0].isoformat(), table)]
    return [(day.isoformat(), table.filter(pc.field("day") == day)) for day in sorted(days)]


def _check_dense(frames: Sequence[DecodedFrame], group: int, sequence: int) -> None:
    for f in frames:
        if f.group != group + 1 or (f.count and f.first_sequence != sequence):
            raise StoreError(
                f"group {group + 1} with sequence {sequence} should be committed next, not "
                f"group {f.group} with {f.first_sequence}"
            )
        group, sequence = f.group, sequence + f.count
