"""A table of a former format becomes one of ours: a commit that says the new schema, and nothing
else.

Columns are only added, at the end, and null in the rows that there are: no file is touched, and who
reads an older version reads it as before. The commit is one file that appears whole, so a process
that dies finds the table as it was or as it is to be.
"""

from typing import Final

from deltalake import DeltaTable, Schema

from distributary.pipeline.errors import ForeignCommit
from distributary.pipeline.tables.delta import commits, topic_log_schema
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_state import TableState
from distributary.pipeline.tables.delta.table_writer import TableWriter

OPERATION: Final = "ADD COLUMNS"


def evolve(store: Store, table: DeltaTable, now: int) -> None:
    """Make the version in which the table has all columns; durable on return.

    If somebody else made a version meanwhile nothing is done: the caller opens the table anew, and
    asks again. `now` is in microseconds. Raises StoreError when it can't be written.
    """
    text = encode(table, now)
    try:
        TableWriter(store, TableState.of(table)).make(lambda _added: text, lambda at, _: at)
    except ForeignCommit:
        return


def encode(table: DeltaTable, now: int) -> bytes:
    """The commit; of the table's own settings it changes what statistics are kept of."""
    found = table.metadata()
    metadata = {
        "id": str(found.id),
        "name": found.name,
        "description": found.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(topic_log_schema.SCHEMA).to_json(),
        "partitionColumns": found.partition_columns,
        "configuration": {
            **found.configuration,
            topic_log_schema.STATISTICS: topic_log_schema.CONFIGURATION[
                topic_log_schema.STATISTICS
            ],
        },
        "createdTime": found.created_time,
    }
    said = {name: value for name, value in metadata.items() if value is not None}
    return commits.encode(OPERATION, at=now) + commits.lines([{"metaData": said}])
