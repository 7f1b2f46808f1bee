"""Entries of journals as objects: put unless the object exists, read, listed, removed.

A put whose answer is an error is read back: its bytes say whether it is ours. While the object is
absent the result is unknown: the request may still be under way.
"""

from collections.abc import Sequence

import msgspec

from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Entry, Kind
from distributary.pipeline.object_journal.put_window import Put
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.delta.store import UndecidedError
from distributary.pipeline.tables.object_home.object_home import entry_path, journal_folder


class PutAnswer(msgspec.Struct, frozen=True):
    """The result of a put, and the reason if it is unknown."""

    put: Put
    why: str = ""


class JournalObjects:
    """The journals of one home. Any thread; each call blocks until the store has answered, or until
    the client gives up."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put(self, epoch: int, group: int, data: bytes) -> PutAnswer:
        """Put an entry unless an object exists there; it may be repeated."""
        try:
            ours = self._store.create(entry_path(epoch, group), data)
        except UndecidedError as error:
            return PutAnswer(Put.UNKNOWN, str(error))
        return PutAnswer(Put.STANDS if ours else Put.TAKEN)

    def read(self, epoch: int, group: int) -> Entry:
        """Read an entry. Raises FileNotFoundError, OSError, JournalBroken and JournalVersion."""
        path = entry_path(epoch, group)
        return entry.decode(self._store.read(path), f"{self._store.uri}/{path}")

    def kinds(self, epoch: int) -> dict[int, Kind]:
        """List the groups of a journal with the kinds of their entries. Raises OSError."""
        found = self._store.sizes(journal_folder(epoch))
        numbers = ((entry.group_of(name), size) for name, size in found.items())
        return {group: entry.kind_of(size) for group, size in numbers if group is not None}

    def remove(self, epoch: int, groups: Sequence[int]) -> None:
        """Remove entries of groups that the table has, never a seal. Raises OSError."""
        if groups:
            self._store.remove([entry_path(epoch, group) for group in groups])
