"""`topic_log` as of one version, and how it is found: opened, made, refused.

A state is a value: the next one is made from it and from what a commit says, so that every
thread sees one state, and nothing is read back that was just written.
"""

import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from deltalake import DeltaTable, Schema

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta import topic_log_schema as schema
from distributary.pipeline.tables.delta.commits import AddedFile, FileAttributes
from distributary.pipeline.tables.delta.message_file import MessageFile
from distributary.pipeline.tables.delta.store import Store

#: Applications whose positions a commit records: the last group, and the first sequence that
#: isn't in the table.
JOURNAL_APP = "journal"
SEQUENCE_APP = "sequence"
#: The application whose version is the epoch of the table's owner.
OWNER_APP = "owner"


@dataclass(frozen=True, slots=True)
class TableState:
    """The table as of `version`: the last group in it, the first sequence that isn't in it, the
    epoch of the last fence, its files by group, and those of messages as the pager wants them."""

    version: int
    group: int
    sequence: int
    epoch: int
    files: tuple[AddedFile, ...]
    messages: tuple[MessageFile, ...]

    @classmethod
    def of(cls, table: DeltaTable) -> Self:
        files = sorted(live_files(table), key=_order)
        return cls(
            table.version(),
            table.transaction_version(JOURNAL_APP) or 0,
            table.transaction_version(SEQUENCE_APP) or 0,
            table.transaction_version(OWNER_APP) or 0,
            tuple(files),
            index((), files),
        )

    @property
    def first_sequence(self) -> int:
        """The lowest sequence whose message is in the table; the next one if none is."""
        return self.messages[0].low if self.messages else self.sequence

    @property
    def transactions(self) -> dict[str, int]:
        """The positions as the log has them."""
        found = {JOURNAL_APP: self.group, SEQUENCE_APP: self.sequence, OWNER_APP: self.epoch}
        return {app: version for app, version in found.items() if version}

    def appended(self, group: int, sequence: int, added: Iterable[AddedFile]) -> "TableState":
        """The state after a commit of later groups."""
        new = sorted(added, key=_order)
        return TableState(
            self.version + 1,
            group,
            sequence,
            self.epoch,
            self.files + tuple(new),
            index(self.messages, new),
        )

    def fenced(self, epoch: int) -> "TableState":
        """The state after a commit in which only the owner changed."""
        return replace(self, version=self.version + 1, epoch=epoch)

    def swapped(self, removed: Collection[str], added: Iterable[AddedFile]) -> "TableState":
        """The state after a commit that changed files, but no position."""
        kept = (file for file in self.files if file.path not in removed)
        files = tuple(sorted(chain(kept, added), key=_order))
        return replace(self, version=self.version + 1, files=files, messages=index((), files))


def _order(file: AddedFile) -> tuple[int, int, str]:
    low = -1 if file.low is None else file.low
    return (-1 if file.group_low is None else file.group_low, low, file.path)


def index(files: tuple[MessageFile, ...], added: Iterable[AddedFile]) -> tuple[MessageFile, ...]:
    """The index with the message files among the added ones, by their lowest sequence."""
    more: list[MessageFile] = []
    reach = files[-1].reach if files else -1
    new = [file for file in added if file.record == schema.MESSAGE]
    for file in sorted(new, key=lambda one: -1 if one.low is None else one.low):
        if file.low is None or file.high is None:
            raise StoreError(f"{file.path} has no statistics of its sequences")
        reach = max(reach, file.high)
        more.append(
            MessageFile(file.path, file.low, file.high, file.topic_low, file.topic_high, reach)
        )
    return files + tuple(more)


def live_files(table: DeltaTable) -> list[AddedFile]:
    """The data files that the table has now, as its log describes them."""
    # pa.table() would do as well, but it imports pandas: half a second of a start.
    actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    if not actions.num_rows:
        return []
    return [
        AddedFile(
            row["path"],
            row["size_bytes"],
            row["partition.record"],
            str(row["partition.day"]),  # a foreign row may have none; it is refused below
            row["num_records"] or 0,
            row.get("min.sequence"),
            row.get("max.sequence"),
            row.get("min.topic"),
            row.get("max.topic"),
            row.get("min.group"),
            row.get("max.group"),
            row["modification_time"],
            _attributes(row),
        )
        for row in actions.to_pylist()
    ]


def _attributes(row: dict[str, Any]) -> FileAttributes | None:
    lows, highs, nulls = (
        {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        for prefix in ("min.", "max.", "null_count.")
    )
    return commits.attributes_of(lows, highs, nulls, row["num_records"] or 0)


def make(store: Store, now: int) -> None:
    """Make the table where nothing is; its first version is durable and whole when it appears.

    deltalake says what the version holds, in a folder of its own. Raises StoreError when other
    things lie there.
    """
    if _occupied(store):
        raise StoreError(f"{store.uri} isn't empty and no Delta table; move it away")
    with tempfile.TemporaryDirectory() as scratch:
        table = DeltaTable.create(
            scratch,
            schema=Schema.from_arrow(schema.SCHEMA),
            partition_by=schema.PARTITIONS,
            configuration=schema.CONFIGURATION,
        )
        made = commits.json_path(Path(scratch), table.version()).read_bytes()
    kept = b"".join(
        line for line in made.splitlines(keepends=True) if not line.startswith(b'{"commitInfo"')
    )
    store.create(commits.json_name(0), commits.encode("CREATE TABLE", at=now) + kept)


def _occupied(store: Store) -> bool:
    """Whether more lies there than what a making that was cut may have left."""
    names = store.files("")
    names += [name for name in store.folders("") if name != commits.LOG]
    names += [name for name in store.files(commits.LOG) if not name.endswith(".tmp")]
    return bool(names)


def check_ours(uri: str, table: DeltaTable) -> None:
    """Raise StoreError for a table whose schema, partitions or protocol isn't ours. Those of
    former formats are."""
    protocol = table.protocol()
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    if versions != (schema.READER_VERSION, schema.WRITER_VERSION):
        raise StoreError(
            f"{uri} needs reader {versions[0]} and writer {versions[1]} of the Delta protocol; "
            f"ours is {schema.READER_VERSION} and {schema.WRITER_VERSION}. It was not written here"
        )
    due = Schema.from_arrow(schema.SCHEMA)
    known = table.schema() == due or is_former(table)
    if not known or table.metadata().partition_columns != schema.PARTITIONS:
        raise StoreError(
            f"{uri} has another schema than topic_log: {_difference(table.schema(), due)}. "
            "It was written by another version of the program, or by another one"
        )


def is_former(table: DeltaTable) -> bool:
    """Whether the table is of a former format, which lacks some of the columns `schema.ADDED`."""
    return format_of(table) not in (schema.FORMAT, None)


def format_of(table: DeltaTable) -> int | None:
    """The number of the table's format, 1 for the first; None for one that we don't know."""
    found = table.schema()
    for number, known in enumerate((*schema.FORMER_SCHEMAS, schema.SCHEMA), start=1):
        if found == Schema.from_arrow(known):
            return number
    return None


def _difference(found: Schema, due: Schema) -> str:
    names = {f.name: str(f.type) for f in found.fields}
    wanted = {f.name: str(f.type) for f in due.fields}
    wrong = [n for n in sorted(names | wanted) if names.get(n) != wanted.get(n)]
    return f"look at {', '.join(wrong)}" if wrong else "partitions or order of columns"
