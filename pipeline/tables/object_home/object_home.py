"""Where everything of a home without a disk lies: objects below one address.

lease                    who says that it owns the home (`lease`)
journal/EPOCH/GROUP      entries of each owner's journal (`pipeline.object_journal.entry`)
dispatch/EPOCH           how far subscriptions were delivered (`object_marks`)
tables/topic_log         the table; Spark's tables beside it
probe/                   objects of a moment (`store_conditions`)
restoring                while a restore puts all that together: nobody serves it
"""

from collections.abc import Mapping

import msgspec

from distributary.pipeline.object_journal import entry
from distributary.pipeline.tables.delta.object_store import ObjectStore

LEASE = "lease"
TABLES = "tables"


class ObjectHome(msgspec.Struct, frozen=True):
    """A home at `url`; `options` are what the store's client needs beyond it, as deltalake names
    them."""

    url: str
    options: Mapping[str, str]

    def store(self, seconds_max: float) -> ObjectStore:
        """A client for what isn't a table, whose requests take so long at most. Raises
        InvalidRequest for an address that can't be."""
        return ObjectStore(self.url, self.options, seconds_max=seconds_max)

    @property
    def tables(self) -> str:
        """The address of the tables, where the settings name no other."""
        return f"{self.url}/{TABLES}"


def journal_folder(epoch: int) -> str:
    """Where an owner's journal lies."""
    return f"journal/{entry.folder(epoch)}"


def entry_path(epoch: int, group: int) -> str:
    """Where an entry of it lies."""
    return f"{journal_folder(epoch)}/{entry.name(group)}"


def marks_path(epoch: int) -> str:
    """Where an owner's marks lie."""
    return f"dispatch/{entry.folder(epoch)}"
