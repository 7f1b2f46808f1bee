"""A checkpoint of a table: one Parquet file that stands for all entries of the log up to a version.

It is made from the state in memory, so its cost follows the files that the table has, not its
past. Files that were removed aren't in it: only who vacuums the table would need them, and that is
its owner's upkeep, which goes by the entries.
"""

import json
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from distributary.pipeline.tables.delta import commits, topic_log_schema
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_state import TableState

#: Where readers look first. Without it, or if it is torn, they list the log.
POINTER: Final = f"{LOG}/_last_checkpoint"
SUFFIX: Final = ".checkpoint.parquet"

_TEXTS: Final = pa.map_(pa.string(), pa.string())
_NAMES: Final = pa.list_(pa.string())
#: What an action of each kind has, as the Delta protocol lays it out.
_KINDS: Final[dict[str, dict[str, pa.DataType]]] = {
    "txn": {"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()},
    "add": {
        "path": pa.string(),
        "partitionValues": _TEXTS,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats": pa.string(),
        "tags": _TEXTS,
    },
    "remove": {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": _TEXTS,
        "size": pa.int64(),
        "tags": _TEXTS,
    },
    "metaData": {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct([("provider", pa.string()), ("options", _TEXTS)]),
        "schemaString": pa.string(),
        "partitionColumns": _NAMES,
        "configuration": _TEXTS,
        "createdTime": pa.int64(),
    },
    "protocol": {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": _NAMES,
        "writerFeatures": _NAMES,
    },
}
SCHEMA: Final = pa.schema([(kind, pa.struct(list(has.items()))) for kind, has in _KINDS.items()])


@dataclass(frozen=True, slots=True)
class Identity:
    """What a table is apart from its files; it never changes while we have it open."""

    id: str
    schema_text: str
    configuration: tuple[tuple[str, str], ...]
    created_time: int | None

    @classmethod
    def of(cls, table: DeltaTable) -> "Identity":
        found = table.metadata()
        configuration = tuple(sorted(found.configuration.items()))
        return cls(str(found.id), table.schema().to_json(), configuration, found.created_time)


def name(version: int) -> str:
    return f"{LOG}/{version:020d}{SUFFIX}"


def write(store: Store, identity: Identity, state: TableState) -> None:
    """Write down the table as it is, durable before anything points to it."""
    actions = _actions(identity, state)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(actions, SCHEMA), sink, compression="zstd")
    data = sink.getvalue()
    store.replace(name(state.version), memoryview(data))
    pointer = {
        "version": state.version,
        "size": len(actions),
        "sizeInBytes": data.size,
        "numOfAddFiles": len(state.files),
    }
    store.replace(POINTER, json.dumps(pointer).encode())


def _actions(identity: Identity, state: TableState) -> list[dict[str, object]]:
    protocol = {
        "minReaderVersion": topic_log_schema.READER_VERSION,
        "minWriterVersion": topic_log_schema.WRITER_VERSION,
    }
    metadata = {
        "id": identity.id,
        "format": {"provider": "parquet", "options": []},
        "schemaString": identity.schema_text,
        "partitionColumns": topic_log_schema.PARTITIONS,
        "configuration": list(identity.configuration),
        "createdTime": identity.created_time,
    }
    actions: list[dict[str, object]] = [{"protocol": protocol}, {"metaData": metadata}]
    actions += [
        {"txn": {"appId": app, "version": version}} for app, version in state.transactions.items()
    ]
    actions += [{"add": commits.add_action(file, data_change=False)} for file in state.files]
    return actions
