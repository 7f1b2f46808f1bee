"""`topic_log` as of one version, and how its first version is made.

A state is a value: the next one is made from it and from a commit's content, so that every thread
sees one state, and no commit is read back by its writer.
"""

import uuid
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Self

import msgspec
from msgspec.structs import replace

from distributary.pipeline import topic_log_columns as columns
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.message_file import MessageFile
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import TableLog

#: Applications whose positions a commit records: the last group, and the first sequence that
#: isn't in the table.
JOURNAL_APP = "journal"
SEQUENCE_APP = "sequence"
#: The application whose version is the epoch of the table's owner; and the one whose version is the
#: epoch of the live journal of objects, for a home without a disk (`pipeline.object_journal`).
OWNER_APP = "owner"
LIVE_APP = "live_journal"


class TableState(msgspec.Struct, frozen=True):
    """The table as of `version`: the last group in it, the first sequence that isn't in it, the
    epoch of the last fence, its files by group, and its message files in the pager's order.
    `live` is the epoch whose journal of objects has the next groups, 0 where the journal is on a
    disk."""

    version: int
    group: int
    sequence: int
    epoch: int
    files: tuple[AddedFile, ...]
    messages: tuple[MessageFile, ...]
    live: int = 0

    @classmethod
    def of(cls, log: TableLog) -> Self:
        files = sorted(log.files, key=_order)
        at = log.transactions
        group, sequence, epoch = (at.get(app, 0) for app in (JOURNAL_APP, SEQUENCE_APP, OWNER_APP))
        messages, live = index((), files), at.get(LIVE_APP, 0)
        return cls(log.version, group, sequence, epoch, tuple(files), messages, live)

    @property
    def first_sequence(self) -> int:
        """The lowest sequence whose message is in the table; the next sequence if none is."""
        return self.messages[0].low if self.messages else self.sequence

    @property
    def transactions(self) -> dict[str, int]:
        """The positions, in the log's form."""
        found = {
            JOURNAL_APP: self.group,
            SEQUENCE_APP: self.sequence,
            OWNER_APP: self.epoch,
            LIVE_APP: self.live,
        }
        return {app: version for app, version in found.items() if version}

    def appended(self, group: int, sequence: int, added: Iterable[AddedFile]) -> "TableState":
        """Return the state after a commit of later groups."""
        new = sorted(added, key=_order)
        return TableState(
            self.version + 1,
            group,
            sequence,
            self.epoch,
            self.files + tuple(new),
            index(self.messages, new),
            self.live,
        )

    def fenced(self, epoch: int, live: int = 0) -> "TableState":
        """Return the state after a commit that changed only the owner or the live journal."""
        return replace(self, version=self.version + 1, epoch=epoch, live=live)

    def swapped(self, removed: Collection[str], added: Iterable[AddedFile]) -> "TableState":
        """Return the state after a commit that changed files, but no position."""
        kept = (file for file in self.files if file.path not in removed)
        files = tuple(sorted(chain(kept, added), key=_order))
        return replace(self, version=self.version + 1, files=files, messages=index((), files))


def _order(file: AddedFile) -> tuple[int, int, str]:
    low = -1 if file.low is None else file.low
    return (-1 if file.group_low is None else file.group_low, low, file.path)


def index(files: tuple[MessageFile, ...], added: Iterable[AddedFile]) -> tuple[MessageFile, ...]:
    """Return the index `files` extended by the message files in `added`, by lowest sequence."""
    more: list[MessageFile] = []
    reach = files[-1].reach if files else -1
    new = [file for file in added if file.record == columns.MESSAGE]
    for file in sorted(new, key=lambda one: -1 if one.low is None else one.low):
        if file.low is None or file.high is None:
            raise StoreError(f"{file.path} has no statistics of its sequences")
        reach = max(reach, file.high)
        more.append(
            MessageFile(file.path, file.low, file.high, file.topic_low, file.topic_high, reach)
        )
    return files + tuple(more)


def make(store: Store, now: int) -> None:
    """Make the table in an empty place; its first version is durable and whole when it appears.
    Raises StoreError when the place has other files."""
    if _occupied(store):
        raise StoreError(f"{store.uri} isn't empty and no Delta table; move it away")
    made = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": columns.schema_text(),
        "partitionColumns": columns.PARTITIONS,
        "createdTime": now // 1_000,
        "configuration": columns.CONFIGURATION,
    }
    protocol = {
        "minReaderVersion": columns.READER_VERSION,
        "minWriterVersion": columns.WRITER_VERSION,
    }
    said = commits.lines([{"protocol": protocol}, {"metaData": made}])
    store.create(commits.json_name(0), commits.encode("CREATE TABLE", at=now) + said)


def _occupied(store: Store) -> bool:
    """Whether the place has more files than an interrupted `make` may have left."""
    names = store.files("")
    names += [name for name in store.folders("") if name != commits.LOG]
    names += [name for name in store.files(commits.LOG) if not name.endswith(".tmp")]
    return bool(names)
