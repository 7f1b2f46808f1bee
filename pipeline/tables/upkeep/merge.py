"""Merges of data files: the same rows in one file, sorted so that one topic can be read alone.

The work of a prepared transaction is left out if the transaction's end is in one of the files:
after the end it isn't read any more. The long computations run inside of Arrow and numpy, without
the interpreter.
"""

from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.model.subscription import ENDS_OF_TRANSACTIONS, SubscriptionEvent
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.upkeep import tiers
from distributary.pipeline.tables.upkeep.tiers import Run

_PREPARED: Final = pa.scalar(SubscriptionEvent.PREPARED.value, pa.string())
_ENDS: Final = pa.array(sorted(event.value for event in ENDS_OF_TRANSACTIONS), pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The part of a run that one step can take: files, their rows, and the rows' bytes. `full` is a
    file that turned out to be full: then the run has to be chosen anew."""

    files: tuple[AddedFile, ...]
    tables: tuple[pa.Table, ...]
    size: int
    full: str | None = None


def load(store: Store, run: Run) -> Loaded:
    """Read a run's files, as many as one step may hold in memory."""
    files: list[AddedFile] = []
    tables: list[pa.Table] = []
    total = rows = 0
    for file in run.files:
        with store.parquet(file.path) as parquet:
            size = row_bytes(parquet.metadata)
            if size >= tiers.FULL_BYTES:
                return Loaded((), (), 0, file.path)
            too_much = total + size > tiers.MERGE_BYTES_MAX
            if files and (too_much or rows + file.rows > tiers.MERGE_ROWS_MAX):
                break
            tables.append(_read(parquet, file.record))
        files.append(file)
        total, rows = total + size, rows + file.rows
    return Loaded(tuple(files), tuple(tables), total)


def row_bytes(metadata: pq.FileMetaData) -> int:
    groups = range(metadata.num_row_groups)
    return sum(metadata.row_group(i).total_byte_size for i in groups)


def _read(parquet: pq.ParquetFile, record: str) -> pa.Table:
    kind = topic_log_schema.FILES[record]
    return data_file.completed(parquet.read(columns=kind.names, use_threads=False), kind)


def merge(store: Store, loaded: Loaded, tier: int) -> AddedFile:
    """Write one new file of that tier with the rows of these files, all of one partition."""
    record, day = loaded.files[0].record, loaded.files[0].day
    table = pa.concat_tables(loaded.tables).combine_chunks()
    if record == topic_log_schema.MESSAGE:
        table = sorted_messages(table)
    elif record == topic_log_schema.SUBSCRIPTION:
        table = without_ended_work(table)
    return data_file.write(store, table, record=record, day=day, tier=tier)


def sorted_messages(table: pa.Table) -> pa.Table:
    """Return the rows by topic and sequence; without a copy if they are in that order already."""
    order = _order(table)
    return table.take(order) if (np.diff(order) != 1).any() else table


def without_ended_work(table: pa.Table) -> pa.Table:
    """Return the events without the work of prepared transactions whose end is in a later group of
    the same rows. A transaction's id may be used again after its end."""
    ends = pc.is_in(table["event"], value_set=_ENDS).to_numpy()
    if not ends.any():
        return table
    group = table["group"].to_numpy()
    names = table["subscription"].combine_chunks().dictionary_encode()
    of = names.indices.to_numpy().astype(np.int64)
    ended = np.full(len(names.dictionary), -1, np.int64)
    np.maximum.at(ended, of[ends], group[ends])
    done = pc.equal(table["event"], _PREPARED).to_numpy() & (group < ended[of])
    at = table.schema.get_field_index("message")
    work = pc.if_else(pa.array(done), pa.scalar(None, pa.binary()), table.column(at))
    return table.set_column(at, table.schema.field(at), work)


def _order(table: pa.Table) -> Int64s:
    """Return the order of the rows by topic and sequence."""
    return np.lexsort((table["sequence"].to_numpy(), _ranks(table["topic"])))


def _ranks(topic: Chunked) -> Int64s:
    """Return the rank of each row's topic by name."""
    encoded = topic.combine_chunks().dictionary_encode()
    names = cast("list[str]", encoded.dictionary.to_pylist())
    rank = {name: nth for nth, name in enumerate(sorted(names))}
    ranks = np.array([rank[name] for name in names], np.int64)
    return cast("Int64s", ranks[encoded.indices.to_numpy()])
