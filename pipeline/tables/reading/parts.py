"""The files and row groups of chosen messages of `topic_log`, cut into parts for parallel readers.

Rule: the wanted messages and the size of a part alone say where it ends, not the files: a batch
      that runs again after a merge has the same parts. A row group on a border is read by both.

The table's statistics tell which files may have wanted messages, their footers which row groups.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from msgspec import structs

from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.sequences.range_text import text_of_sequences
from distributary.pipeline.tables.delta.message_file import MessageFile
from distributary.pipeline.tables.delta.pinned_table import head_of, state_of
from distributary.pipeline.tables.delta.table_log import check_ours
from distributary.pipeline.tables.delta.table_state import TableState
from distributary.pipeline.tables.reading.part_reading import (
    Part,
    Sequences,
    Unit,
    parquet,
    require_same,
)

#: A file with at most this many rows is one unit: its footer isn't read to cut it.
ROWS_UNCUT = 8_192


@dataclass(frozen=True, slots=True)
class _Piece:
    """A unit, and the lowest and the highest sequence in it."""

    low: int
    high: int
    unit: Unit


def parts(
    uri: str,
    options: dict[str, str],
    identity: LogIdentity,
    topic: str,
    sequences: Iterable[int],
    *,
    messages: int,
    exact: bool = True,
) -> list[Part]:
    """Return parts that together have the messages `sequences` (ascending), `messages` each.

    `exact`: all of them are messages of the topic; else some may not be. Raises StoreError when the
    table can't be read, isn't the one of `identity`, or lacks one of them.
    """
    require_same(uri, options, identity)
    wanted = np.fromiter(sequences, np.int64)
    if not len(wanted):
        return []
    try:
        table = DeltaTable(uri, storage_options=options or None)
        check_ours(uri, head_of(table))
        state = state_of(table)
        found = _pieces(uri, options, state, topic, wanted)
        pieces = sorted(found, key=lambda one: (one.low, one.unit.path, one.unit.row_groups))
    except (DeltaError, OSError) as error:
        raise StoreError(f"{uri} can't be read: {error}") from error
    if exact and (lost := _uncovered(pieces, wanted)) is not None:
        raise _missing(uri, topic, lost, state)
    return [
        Part(
            uri,
            options,
            topic,
            units,
            text_of_sequences(some.tolist()),
            len(some) if exact else None,
            identity,
        )
        for some, units in _cut(pieces, wanted, messages)
    ]


def _uncovered(pieces: Sequence[_Piece], wanted: Sequences) -> int | None:
    """Return the first wanted sequence that lies between no piece's bounds; None if all do."""
    done = 0
    for piece in pieces:
        begin, end = np.searchsorted(wanted, [piece.low, piece.high + 1])
        if begin > done:
            break
        done = max(done, int(end))
    return int(wanted[done]) if done < len(wanted) else None


def _cut(
    pieces: Sequence[_Piece], wanted: Sequences, messages: int
) -> Iterator[tuple[Sequences, tuple[Unit, ...]]]:
    """Return the messages of each part with the units that may have them. `pieces` rise by their
    lows."""
    reach = list(accumulate((one.high for one in pieces), max))
    for at in range(0, len(wanted), messages):
        some = wanted[at : at + messages]
        start = bisect_left(reach, int(some[0]))
        stop = bisect_right(pieces, int(some[-1]), key=lambda one: one.low)
        units = tuple(one.unit for one in pieces[start:stop] if _any(some, one.low, one.high))
        if units:
            yield some, units


def _missing(uri: str, topic: str, sequence: int, state: TableState) -> StoreError:
    if sequence < state.first_sequence:
        return StoreError(
            f"{uri}: message {sequence} of topic '{topic}' was removed by retention; the first one "
            f"that is kept is {state.first_sequence}. The batch can't be made again: begin with "
            "another checkpoint"
        )
    return StoreError(f"{uri}: message {sequence} of topic '{topic}' is in no file")


def _pieces(
    uri: str, options: dict[str, str], state: TableState, topic: str, wanted: Sequences
) -> Iterator[_Piece]:
    """Return the units that may have any wanted message, file by file."""
    facts = {file.path: (file.day, file.rows) for file in state.files}
    for file in state.messages:
        if not file.may_hold(topic) or not _any(wanted, file.low, file.high):
            continue
        day, rows = facts[file.path]
        if rows <= ROWS_UNCUT:
            yield _Piece(file.low, file.high, Unit(file.path, day))
            continue
        with parquet(uri, options, file.path) as opened:
            yield from _row_groups(file, day, opened.metadata, topic, wanted)


def _row_groups(
    file: MessageFile, day: str, metadata: pq.FileMetaData, topic: str, wanted: Sequences
) -> Iterator[_Piece]:
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    at = names.index("sequence"), names.index("topic")
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        low, high = _bounds(group.column(at[0])) or (file.low, file.high)
        topics = _bounds(group.column(at[1])) or (file.topic_low, file.topic_high)
        here = structs.replace(
            file, low=int(low), high=int(high), topic_low=topics[0], topic_high=topics[1]
        )
        if here.may_hold(topic) and _any(wanted, here.low, here.high):
            yield _Piece(here.low, here.high, Unit(file.path, day, (i,)))


def _bounds(column: pq.ColumnChunkMetaData) -> tuple[Any, Any] | None:
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return statistics.min, statistics.max


def _any(wanted: Sequences, low: int, high: int) -> bool:
    begin, end = np.searchsorted(wanted, [low, high + 1])
    return bool(end > begin)
