"""A Delta table at the version that it has now, whoever writes it: which files it is made of."""

from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_state import JOURNAL_APP, SEQUENCE_APP


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table at `version`: Delta's id, its data files with their bytes. `group` and `sequence` are
    the positions that a `topic_log` records: its last group and its next sequence; 0 elsewhere."""

    id: str
    version: int
    files: tuple[tuple[str, int], ...]
    group: int
    sequence: int


def pin(store: Store) -> PinnedTable:
    """The table as it is now. Raises StoreError when it can't be read."""
    try:
        table = DeltaTable(store.uri, storage_options=store.options)
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
        paths, sizes = (actions[name].to_pylist() for name in ("path", "size_bytes"))
        return PinnedTable(
            str(table.metadata().id),
            table.version(),
            tuple((str(path), int(size or 0)) for path, size in zip(paths, sizes, strict=True)),
            table.transaction_version(JOURNAL_APP) or 0,
            table.transaction_version(SEQUENCE_APP) or 0,
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"{store.uri} can't be opened as a Delta table: {error}") from error
