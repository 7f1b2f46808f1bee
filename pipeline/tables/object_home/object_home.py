"""The layout of a home without a disk: objects below one address.

lease                    names the home's owner (`lease`)
journal/EPOCH/GROUP      entries of each owner's journal (`pipeline.object_journal.entry`)
dispatch/EPOCH           the dispatch marks of each owner (`object_marks`)
tables/topic_log         the table; Spark's tables beside it
probe/                   short-lived objects (`store_conditions`)
restoring                present while a restore makes the home: no gateway serves it
"""

from collections.abc import Mapping

import msgspec

from distributary.pipeline.object_journal import entry
from distributary.pipeline.tables.delta.object_store import ObjectStore

LEASE = "lease"
TABLES = "tables"


class ObjectHome(msgspec.Struct, frozen=True):
    """A home at `url`; `options` are the store's options, by deltalake's names."""

    url: str
    options: Mapping[str, str]

    def store(self, seconds_max: float) -> ObjectStore:
        """Return a client for objects outside of tables, whose requests take `seconds_max` at most.
        Raises InvalidRequest for an impossible address."""
        return ObjectStore(self.url, self.options, seconds_max=seconds_max)

    @property
    def tables(self) -> str:
        """The address of the tables, unless the settings name another."""
        return f"{self.url}/{TABLES}"


def journal_folder(epoch: int) -> str:
    """Return the folder of an owner's journal."""
    return f"journal/{entry.folder(epoch)}"


def entry_path(epoch: int, group: int) -> str:
    """Return the path of an entry of that journal."""
    return f"{journal_folder(epoch)}/{entry.name(group)}"


def marks_path(epoch: int) -> str:
    """Return the path of an owner's marks."""
    return f"dispatch/{entry.folder(epoch)}"
