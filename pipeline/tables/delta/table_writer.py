"""The one way in which a table gets a new version: files, then the commit, then the new state.

The action after an error follows from what is known:

| the error came                        | the version     | the files of the commit |
|---------------------------------------|-----------------|-------------------------|
| before the commit's file was created  | isn't there     | are removed             |
| with it, and the store refuses it     | is another's    | stay: not ours to touch |
| with it, and the result is unknown    | is *undecided*  | stay until it is known  |
| in an fsync                           | is unknown      | stay; nothing more is written |

An undecided version is decided before anything else is made: the same bytes are put under the same
name again. So a lost answer, a late request and a request that never arrived all end in the same
version.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec

from distributary.pipeline.errors import ForeignCommit, StoreError
from distributary.pipeline.log.log_identity import digest
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.store import Store, SyncFailed, UndecidedError
from distributary.pipeline.tables.delta.table_state import TableState

T = TypeVar("T")


class _Undecided(msgspec.Struct, frozen=True):
    """A commit that may exist: its name, its bytes, its files, and the table's state with it."""

    name: str
    text: bytes
    added: list[AddedFile]
    state: TableState


class TableWriter:
    """Makes versions on the committer's thread. `state` is replaced as a whole, for all threads.

    `newest` is the newest version that is known to be ours, with the digest of its entry: that of
    `state` or the one after it. `dead` says why no version will ever be made again: an fsync
    failed. None while alive. `removed` are the remove actions of its commits; the maker of a
    checkpoint clears them.
    """

    def __init__(self, store: Store, state: TableState, entry: bytes | None = None) -> None:
        """`entry`: the entry of the state's version, if it was read."""
        self.store = store
        self.state = state
        said = _digest(store, state.version) if entry is None else digest(entry)
        self.newest = state.version, said
        self.dead: str | None = None
        #: The version at the start, and the files removed by commits since the last checkpoint.
        self.opened = state.version
        self.removed: list[Mapping[str, object]] = []
        self._undecided: _Undecided | None = None

    def reopen(self, state: TableState) -> None:
        """Continue from a state that another process made."""
        self.state, self.opened = state, state.version
        self.removed.clear()

    def ready(self) -> None:
        """Decide an undecided version; to be called before `state` is used for a new version.

        Raises StoreError when no version can be made, or while the store doesn't tell whether the
        last one is there; ForeignCommit when another writer made it.
        """
        self.refuse_dead()
        if self._undecided is not None:
            self._decide(self._undecided)

    def make(
        self,
        job: Callable[[list[AddedFile]], bytes],
        after: Callable[[TableState, list[AddedFile]], TableState],
    ) -> list[AddedFile]:
        """Make the next version: `job` writes files, appends each to the list and returns the
        commit; `after` returns the state that follows from the current one and these files.

        Durable on return. After a StoreError, `ready` decides the version; after ForeignCommit the
        caller must write nothing more, as another owner may have the table.
        """
        self.ready()
        added: list[AddedFile] = []
        version = self.state.version + 1
        try:
            text = job(added)
            if added and not self.store.answers_late:
                self.refuse_foreign()  # if the name is taken, the files needn't be synced
        except SyncFailed as error:
            self.dead = str(error)
            raise
        except ForeignCommit:
            raise
        except library_errors(StoreError, OSError) as error:
            raise self._unmade(version, added, error) from error
        after_it = after(self.state, added)
        self._decide(_Undecided(commits.json_name(version), text, added, after_it))
        return added

    def _decide(self, commit: _Undecided) -> None:
        """Create the commit's file."""
        try:
            made = self.store.create(commit.name, commit.text)
        except SyncFailed as error:
            self.dead = str(error)
            raise
        except UndecidedError as error:
            self._undecided = commit
            raise StoreError(
                f"whether version {commit.state.version} of {self.store.uri} was written isn't "
                f"known: {error}. It is asked for again before anything else is written"
            ) from error
        except OSError as error:
            self._undecided = None
            raise self._unmade(commit.state.version, commit.added, error) from error
        self._undecided = None
        if not made:
            raise self._foreign()
        self.newest = commit.state.version, digest(commit.text)
        self.removed += commits.actions_of(commit.text, "remove")
        self.state = commit.state

    def _unmade(self, version: int, added: list[AddedFile], error: Exception) -> StoreError:
        """Remove the files of a version that wasn't made; return the error."""
        with suppress(OSError):  # a later start finds the files that stay
            self.store.delete(file.path for file in added)
        return StoreError(f"version {version} of {self.store.uri} can't be written: {error}")

    def durably(self, job: Callable[[], T]) -> T:
        """Do a job that makes no version, such as a checkpoint; it may be repeated after a
        StoreError."""
        self.refuse_dead()
        try:
            return job()
        except SyncFailed as error:
            self.dead = str(error)
            raise

    def refuse_dead(self) -> None:
        """Raise StoreError when no version will ever be made again."""
        if self.dead is not None:
            raise StoreError(self.dead)

    def refuse_foreign(self) -> None:
        """Raise ForeignCommit when another writer made the next version."""
        if self.store.exists(commits.json_name(self.state.version + 1)):
            raise self._foreign()

    def _foreign(self) -> ForeignCommit:
        version = self.state.version
        return ForeignCommit(
            f"{self.store.uri} is at version {version + 1} or later, we left it at {version}: "
            "another program wrote to it. Stop the other writer; then start again"
        )


def _digest(store: Store, version: int) -> str:
    """Return the digest of a version's entry; "" if it was cleaned up, as former programs did: then
    no reader can be sure of the table until the next commit."""
    name = commits.json_name(version)
    return digest(store.read(name)) if store.exists(name) else ""
