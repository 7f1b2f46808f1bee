"""The one way in which a table gets a new version: files, then the commit, then the new state."""

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from pipeline.errors import StoreError, TableMoved
from pipeline.tables import commits
from pipeline.tables.commits import AddedFile
from pipeline.tables.store import Store, SyncFailed
from pipeline.tables.table_state import TableState

T = TypeVar("T")


class TableWriter:
    """Makes versions on the committer's thread. `state` is replaced as a whole, for all threads.

    `dead` says why no version will ever be made again: an fsync failed. None while alive.
    """

    def __init__(self, store: Store, state: TableState) -> None:
        self.store = store
        self.state = state
        self.dead: str | None = None

    def make(self, job: Callable[[list[AddedFile]], bytes]) -> list[AddedFile]:
        """The next version: `job` writes files, naming each in the list, and gives the commit.

        Durable on return; the caller replaces the state. After a StoreError the version isn't
        there and its files are gone again; after TableMoved nothing is touched any more, as the
        table may be somebody else's.
        """
        self.refuse_dead()
        added: list[AddedFile] = []
        version = self.state.version + 1
        try:
            text = job(added)
            self.refuse_moved()
            if not self.store.create(commits.json_name(version), text):
                self.refuse_moved()
        except SyncFailed as error:
            self.dead = str(error)
            raise
        except TableMoved:
            raise
        except (StoreError, OSError, pa.ArrowException) as error:
            self.store.delete(file.path for file in added)
            raise StoreError(
                f"version {version} of {self.store.uri} can't be written: {error}"
            ) from error
        return added

    def durably(self, job: Callable[[], T]) -> T:
        """Do what makes no version, such as a checkpoint. After a StoreError it may be repeated."""
        self.refuse_dead()
        try:
            return job()
        except SyncFailed as error:
            self.dead = str(error)
            raise

    def refuse_dead(self) -> None:
        if self.dead is not None:
            raise StoreError(self.dead)

    def refuse_moved(self) -> None:
        version = self.state.version
        if self.store.exists(commits.json_name(version + 1)):
            raise TableMoved(
                f"{self.store.uri} is at version {version + 1} or later, we left it at {version}: "
                "somebody else wrote to it. Stop the other writer; then start again"
            )
