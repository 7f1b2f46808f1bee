"""Messages as the log has them, found by sequence or by group."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.console.log_rows.log_files import LogFiles, may_have
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile

#: Columns of a message that are read.
COLUMNS: Final = (
    "sequence",
    "topic",
    "group",
    "published_at",
    "durable",
    "priority",
    "expires_at",
    "deliver_at",
    "message",
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row of the log; times are microseconds, None where there is none. `data` is all of its
    sections as they came."""

    sequence: int
    topic: str
    group: int
    published_at: int
    durable: bool
    priority: int
    expires_at: int | None
    deliver_at: int | None
    data: bytes


def message_of(files: LogFiles, sequence: int) -> StoredMessage | None:
    """The message with this sequence; None if the log doesn't have it."""
    for file in files.view.of(topic_log_schema.MESSAGE):
        if file.low is None or file.high is None or not file.low <= sequence <= file.high:
            continue
        for one in files.row_groups(file):
            if not may_have(one.sequence, sequence):
                continue
            there = files.read(one, ("sequence",))["sequence"].to_numpy()
            at = np.flatnonzero(there == sequence)
            if len(at):
                [found] = stored(files.read(one, COLUMNS).take(at))
                return found
        files.close(file.path)
    return None


def messages_of_group(files: LogFiles, group: int) -> Iterator[StoredMessage]:
    """The messages that became durable together, in no order; no more when the files are full."""
    for file in _with_group(files, group):
        for one in files.row_groups(file):
            if files.full:
                return
            if not may_have(one.group, group):
                continue
            of = pc.equal(files.read(one, ("group",))["group"], pa.scalar(group, pa.int64()))
            if pc.any(of).as_py():
                yield from stored(files.read(one, COLUMNS).filter(of))
        files.close(file.path)


def _with_group(files: LogFiles, group: int) -> Iterator[AddedFile]:
    for file in files.view.of(topic_log_schema.MESSAGE):
        low, high = file.group_low, file.group_high
        if low is None or high is None or low <= group <= high:
            yield file


def stored(table: pa.Table) -> Iterator[StoredMessage]:
    """Rows with the columns COLUMNS."""
    times = {
        name: pc.cast(table[name], pa.int64()).to_pylist()
        for name in ("published_at", "expires_at", "deliver_at")
    }
    rest = (table[name].to_pylist() for name in ("durable", "priority", "message"))
    named = (table[name].to_pylist() for name in ("sequence", "topic", "group"))
    for sequence, topic, group, durable, priority, data, published, expires, deliver in zip(
        *named, *rest, *times.values(), strict=True
    ):
        yield StoredMessage(
            sequence, topic, group, published, durable, priority, expires, deliver, data
        )
