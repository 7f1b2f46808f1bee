"""A checkpoint of a table: one Parquet file that stands for all entries of the log up to a version.

It is made from the state in memory, so its cost follows the files that the table has, not its
past. It also lists removed files as tombstones, which Delta's protocol asks for until they expire:
a vacuum of the table spares those files. They are copied from the checkpoint before, as a column,
so they cost next to nothing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline import topic_log_columns as columns
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import LOG
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import TableHead, checkpoint_name
from distributary.pipeline.tables.delta.table_state import TableState

#: The file that readers open first. Without it, or if it is torn, they list the log.
POINTER: Final = f"{LOG}/_last_checkpoint"

_TEXTS: Final = pa.map_(pa.string(), pa.string())
_NAMES: Final = pa.list_(pa.string())
#: The fields of each kind of action, as the Delta protocol lays them out.
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
_REMOVE: Final = pa.struct(list(_KINDS["remove"].items()))
#: An array of remove actions.
Tombstones: TypeAlias = "pa.StructArray"
#: Tombstones of a checkpoint, at most: older removed files have none. Each checkpoint has all of
#: them, and where no job materializes the log, a week may remove a million files.
TOMBSTONES_MAX: Final = 20_000
SCHEMA: Final = pa.schema([(kind, pa.struct(list(has.items()))) for kind, has in _KINDS.items()])


@dataclass(frozen=True, slots=True)
class Identity:
    """A table's description apart from its files; it never changes while we have the table open."""

    id: str
    schema_text: str
    configuration: tuple[tuple[str, str], ...]
    created_time: int | None

    @classmethod
    def of(cls, head: TableHead) -> "Identity":
        found = head.metadata
        configuration = tuple(sorted(found["configuration"].items()))
        return cls(str(found["id"]), found["schemaString"], configuration, found.get("createdTime"))


def pointed(store: Store) -> int:
    """Return the version of the checkpoint that readers look at first. Raises OSError, ValueError,
    KeyError or TypeError when no pointer says it."""
    return pointed_by(store.read(POINTER))


def pointed_by(pointer: bytes) -> int:
    """Return the version in a pointer's bytes. Raises as `pointed`, but for OSError."""
    return int(json.loads(pointer)["version"])


def tombstones(store: Store, version: int) -> Tombstones:
    """Return the tombstones in the checkpoint of `version`; none if it is absent or damaged."""
    try:
        with store.parquet(checkpoint_name(version)) as file:
            found = file.read(["remove"])["remove"].combine_chunks()
    except (OSError, pa.ArrowException):
        return tombstones_of(())
    return cast("Tombstones", found.filter(found.is_valid()).cast(_REMOVE))


def tombstones_of(removes: Iterable[Mapping[str, object]]) -> Tombstones:
    """Return remove actions of the log's entries as an array."""
    return cast("Tombstones", pa.array([_as_laid_out(one) for one in removes], _REMOVE))


def _as_laid_out(remove: Mapping[str, object]) -> dict[str, object]:
    values = remove.get("partitionValues")
    return {**remove, "partitionValues": list(values.items()) if isinstance(values, dict) else None}


def kept(found: Tombstones, since: int) -> Tombstones:
    """Return the newest TOMBSTONES_MAX of those tombstones (oldest first) whose files were removed
    at `since` (milliseconds) or later."""
    late = pc.greater_equal(pc.struct_field(found, "deletionTimestamp"), pa.scalar(since))
    return found.filter(late)[-TOMBSTONES_MAX:]


def write(store: Store, identity: Identity, state: TableState, removed: Tombstones) -> None:
    """Write a checkpoint of the table's state, durable before the pointer names it."""
    actions = _actions(identity, state)
    table = pa.concat_tables(
        [
            pa.Table.from_pylist(actions, SCHEMA),
            pa.table({"remove": removed}).cast(pa.schema([SCHEMA.field("remove")])),
        ],
        promote_options="default",
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue()
    store.replace(checkpoint_name(state.version), memoryview(data))
    pointer = {
        "version": state.version,
        "size": table.num_rows,
        "sizeInBytes": data.size,
        "numOfAddFiles": len(state.files),
    }
    store.replace(POINTER, json.dumps(pointer).encode())


def _actions(identity: Identity, state: TableState) -> list[dict[str, object]]:
    protocol = {
        "minReaderVersion": columns.READER_VERSION,
        "minWriterVersion": columns.WRITER_VERSION,
    }
    metadata = {
        "id": identity.id,
        "format": {"provider": "parquet", "options": []},
        "schemaString": identity.schema_text,
        "partitionColumns": columns.PARTITIONS,
        "configuration": list(identity.configuration),
        "createdTime": identity.created_time,
    }
    actions: list[dict[str, object]] = [{"protocol": protocol}, {"metaData": metadata}]
    actions += [
        {"txn": {"appId": app, "version": version}} for app, version in state.transactions.items()
    ]
    actions += [{"add": commits.add_action(file, data_change=False)} for file in state.files]
    return actions
