"""A part of a reading: chosen messages of `topic_log`, read in the process that got the part.

A part is a value: it names files and row groups, and the wanted messages in them. It is made by a
process that knows the table (`pipeline.tables.reading.parts`) and read in any other, such as an
executor of Spark, which needs pyarrow and, for a table on an object store, deltalake.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.sequences.range_text import sequences_of
from distributary.pipeline.tables.arrow.topic_rows import rows_of
from distributary.pipeline.tables.delta.commits import json_name

Sequences = npt.NDArray[np.int64]

#: Columns of each message, in this order; `day` comes from the folder's name.
COLUMNS = (*COPIED, "message")
#: Columns that tables of earlier versions lack.
_LATER = {"deliver_at": pa.timestamp("us", "UTC")}
#: Advice in errors for a table that isn't found.
_WHERE = "say with the option 'log' where the gateway's lies, as it is seen from here"


@dataclass(frozen=True, slots=True)
class Unit:
    """Row groups of one data file, all of them if none are named; `day` is that of its messages."""

    path: str
    day: str
    row_groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """The messages `wanted` (runs as text) of one topic or pattern. They lie in `units`, in this
    order. `count` is their number; None if some wanted sequences may not be messages of the topic.

    `uri` and `options` are the table's; `identity` tells which table it must be.
    """

    uri: str
    options: dict[str, str]
    topic: str
    units: tuple[Unit, ...]
    wanted: str
    count: int | None
    identity: LogIdentity


def read(part: Part) -> Iterator[pa.RecordBatch]:
    """Read the messages with the columns COLUMNS, a row group at a time.

    Raises StoreError when another table lies there, a file is gone or a message isn't in its unit.
    """
    there = entry(part.uri, part.options, part.identity.version)
    if there is not None:  # after a clean-up the files' names tell: no other table has them
        part.identity.require(part.uri, there)
    wanted = np.frombuffer(sequences_of(part.wanted), np.int64)
    found = 0
    for unit in part.units:
        for batch in _read(part, unit, wanted):
            found += batch.num_rows
            yield batch
    if part.count is not None and found != part.count:
        raise StoreError(
            f"{part.uri}: of {part.count} messages of topic '{part.topic}' among {part.wanted[:80]}"
            f" {found} are there. Nothing was skipped: look at the table with `distributary verify`"
        )


def _read(part: Part, unit: Unit, wanted: Sequences) -> Iterator[pa.RecordBatch]:
    try:
        file = parquet(part.uri, part.options, unit.path)
        with file:
            there = set(file.schema_arrow.names)
            names = [name for name in COLUMNS if name in there]
            for group in unit.row_groups or range(file.num_row_groups):
                table = file.read_row_group(group, columns=names, use_threads=False)
                yield from _chosen(table, part.topic, wanted, dt.date.fromisoformat(unit.day))
    except FileNotFoundError:
        require_same(part.uri, part.options, part.identity)
        raise StoreError(
            f"{part.uri}: {unit.path} was merged away while it was to be read; start the query "
            "again, and it reads the same messages where they lie now"
        ) from None
    except OSError as error:
        raise StoreError(f"{part.uri}: {unit.path} can't be read: {error}") from error


def require_same(uri: str, options: dict[str, str], identity: LogIdentity) -> None:
    """Raise StoreError unless the table at `uri` can be reached and has this identity."""
    identity.require(uri, entry(uri, options, identity.version))


def entry(uri: str, options: dict[str, str], version: int) -> bytes | None:
    """Read the log's entry of a version; None if the table has none. Raises StoreError when no
    table can be reached there."""
    folder, name = folder_of(uri), json_name(version)
    try:
        if folder is None:
            return bytes(_places(uri, options).open_input_file(name).read())
        if not (folder / name).parent.is_dir():
            raise StoreError(f"no topic_log can be reached in {uri} from here: {_WHERE}")
        return (folder / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"no topic_log can be reached in {uri}: {error}; {_WHERE}") from error


def parquet(uri: str, options: dict[str, str], path: str) -> pq.ParquetFile:
    """Open a data file of the table. Raises OSError."""
    folder = folder_of(uri)
    if folder is not None:
        return pq.ParquetFile(folder / path, page_checksum_verification=True)
    return pq.ParquetFile(
        _places(uri, options).open_input_file(path), page_checksum_verification=True
    )


def _places(uri: str, options: dict[str, str]) -> Any:
    """Return the file system of a table on an object store."""
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 (only object stores need it)
    from pyarrow.fs import PyFileSystem  # noqa: PLC0415

    return PyFileSystem(DeltaStorageHandler(uri, options))


def folder_of(uri: str) -> Path | None:
    """Return the folder of a table on a disk; None for one on an object store."""
    if uri.startswith("file://"):
        return Path(unquote(urlsplit(uri).path))
    return None if "://" in uri else Path(uri)


def _chosen(
    table: pa.Table, topic: str, wanted: Sequences, day: dt.date
) -> Iterator[pa.RecordBatch]:
    """Return the wanted rows of a row group."""
    sequences = table["sequence"].to_numpy()
    at = np.searchsorted(wanted, sequences)
    at[at == len(wanted)] = 0
    chosen = wanted[at] == sequences if len(wanted) else np.zeros(len(sequences), np.bool_)
    ours = rows_of(topic, table["topic"])
    mask = cast("Any", pc).and_(pa.chunked_array([chosen]), ours)
    if not cast("Any", pc.all(mask)).as_py():
        table = table.filter(mask)
    for batch in table.combine_chunks().to_batches():
        yield _completed(batch, day)


def _completed(batch: pa.RecordBatch, day: dt.date) -> pa.RecordBatch:
    columns: list[pa.Array[Any]] = []
    for name in COLUMNS:
        if name == "day":
            columns.append(pa.array([day] * batch.num_rows, pa.date32()))
        elif name in batch.schema.names:
            columns.append(batch.column(name))
        else:
            columns.append(pa.nulls(batch.num_rows, _LATER[name]))
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
