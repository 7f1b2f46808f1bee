"""`topic_log` as of one version, read without owning it: nothing is written.

While a gateway runs, its table changes under a reader: files that a later version no longer names
are deleted some day. A reader that misses a file of its view asks `replaced`: if the table no
longer names the file, the reader raises `Replaced` and begins again with a new view.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.pinned_table import head_of, state_of
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import check_ours
from distributary.pipeline.tables.delta.table_state import TableState

T = TypeVar("T")

#: Attempts to read something from its beginning; then the error says that files change too often.
TRIES = 5


class Replaced(StoreError):
    """A file was replaced while it was read; read again when the gateway has less to do."""


@dataclass(frozen=True, slots=True)
class TableView:
    """The table in `store` at one version."""

    store: Store
    state: TableState

    @property
    def uri(self) -> str:
        return self.store.uri

    def of(self, record: str) -> tuple[AddedFile, ...]:
        """Return the data files of that record, by group."""
        return tuple(file for file in self.state.files if file.record == record)

    def replaced(self, file: AddedFile) -> bool:
        """Whether the table has left this file behind since the view was opened."""
        try:
            return file.path not in {other.path for other in open_view(self.store).state.files}
        except StoreError:
            return False


def again_if_replaced(store: Store, read: Callable[[], T]) -> T:
    """Return the result of `read`; call it again when a file was replaced under it.

    Raises Replaced after TRIES attempts, StoreError when the disk or the table's `store` can't be
    read.
    """
    try:
        for _ in range(TRIES - 1):
            with suppress(Replaced):
                return read()
        return read()
    except OSError as error:
        why = " ".join(str(error).split())
        raise StoreError(f"what belongs to {store.uri} can't be read: {why}") from error


def open_view(store: Store) -> TableView:
    """Open the table as it is now. Raises StoreError if it can't be read or isn't a `topic_log`."""
    try:
        table = DeltaTable(store.uri, storage_options=store.options)
        check_ours(store.uri, head_of(table))
        return TableView(store, state_of(table))
    except (DeltaError, OSError) as error:
        raise StoreError(f"{store.uri} can't be opened as a Delta table: {error}") from error
