"""The files and row groups of chosen messages of `topic_log`, cut into parts for parallel readers.

Parts follow each other in sequence and have whole row groups, so that nothing is read twice. The
table's statistics tell which files may have wanted messages, their footers which row groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    """Return parts that together have the messages `sequences` (ascending), about `messages` each.

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
        pieces = list(_pieces(uri, options, state, topic, wanted))
    except (DeltaError, OSError) as error:
        raise StoreError(f"{uri} can't be read: {error}") from error
    made: list[Part] = []
    done = 0
    for cluster in _gathered(_clusters(pieces), wanted, messages):
        low, high = cluster[0].low, max(piece.high for piece in cluster)
        begin, end = np.searchsorted(wanted, [low, high + 1])
        if exact and begin > done:
            raise _missing(uri, topic, int(wanted[done]), state)
        done = int(end)
        some = wanted[begin:end]
        units = tuple(piece.unit for piece in cluster)
        text = text_of_sequences(some.tolist())
        count = len(some) if exact else None
        made.append(Part(uri, options, topic, units, text, count, identity))
    if exact and done < len(wanted):
        raise _missing(uri, topic, int(wanted[done]), state)
    return made


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


def _clusters(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """Join overlapping pieces, so that the wanted messages of each cluster can be counted."""
    cluster: list[_Piece] = []
    high = -1
    for piece in sorted(pieces, key=lambda one: (one.low, one.unit.path, one.unit.row_groups)):
        if cluster and piece.low > high:
            yield cluster
            cluster = []
        cluster.append(piece)
        high = max(high, piece.high)
    if cluster:
        yield cluster


def _gathered(
    clusters: Iterator[list[_Piece]], wanted: Sequences, messages: int
) -> Iterator[list[_Piece]]:
    """Join neighbouring clusters until they have about `messages` wanted messages."""
    gathered: list[_Piece] = []
    count = 0
    for cluster in clusters:
        low, high = cluster[0].low, max(piece.high for piece in cluster)
        begin, end = np.searchsorted(wanted, [low, high + 1])
        if gathered and count + int(end - begin) > messages:
            yield gathered
            gathered, count = [], 0
        gathered += cluster
        count += int(end - begin)
    if gathered:
        yield gathered
