"""Evolution: a commit with the new schema alone turns a table of a former format into one of ours.

Columns are only added, at the end, and null in the existing rows: no file is touched, and a reader
of an older version reads it as before. The commit is one file that appears whole: a process that
dies leaves the table with the former schema or with the new one.
"""

from typing import Final

from distributary.pipeline import topic_log_columns as columns
from distributary.pipeline.errors import ForeignCommit
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import TableHead, TableLog
from distributary.pipeline.tables.delta.table_state import TableState
from distributary.pipeline.tables.delta.table_writer import TableWriter

OPERATION: Final = "ADD COLUMNS"


def evolve(store: Store, log: TableLog, now: int) -> None:
    """Make the version in which the table has all columns; durable on return.

    Does nothing if another writer made a version meanwhile: the caller opens the table anew and
    asks again. `now` is in microseconds. Raises StoreError when it can't be written.
    """
    text = encode(log.head, now)
    try:
        TableWriter(store, TableState.of(log)).make(lambda _added: text, lambda at, _: at)
    except ForeignCommit:
        return


def encode(head: TableHead, now: int) -> bytes:
    """Encode the commit; it changes one of the table's settings: which statistics are kept."""
    statistics = {columns.STATISTICS: columns.CONFIGURATION[columns.STATISTICS]}
    metadata = {
        **head.metadata,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": columns.schema_text(),
        "configuration": {**head.metadata["configuration"], **statistics},
    }
    said = {name: value for name, value in metadata.items() if value is not None}
    return commits.encode(OPERATION, at=now) + commits.lines([{"metaData": said}])
