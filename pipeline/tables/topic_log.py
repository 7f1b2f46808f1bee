"""The table `topic_log`, of which the gateway's committer is the only writer.

A commit takes in whole groups, exactly once: the last group and the next free sequence are
recorded in the commit itself. Threads: `commit` on the committer thread alone, `page` on the
reader thread alone, the properties on any. The caller holds the home's lock.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError

from pipeline.errors import StoreError, TableMoved
from pipeline.tables import commits, frame, rows, schema
from pipeline.tables.commits import AddedFile, CommitFile
from pipeline.tables.frame import DecodedFrame
from pipeline.tables.paging import MessageFile, Page, Pager
from pipeline.tables.segment import sync_directory

JOURNAL_APP = "journal"
SEQUENCE_APP = "sequence"

#: Commits between two checkpoints; the handle is opened anew then, as it grows with each commit.
CHECKPOINT_COMMITS = 100
#: Rows of a row group, which is what paging reads at once; fewer when messages are big.
ROW_GROUP_ROWS_MAX = 4096
ROW_GROUP_ROWS_MIN = 16
ROW_GROUP_BYTES = 8 << 20
#: A file's time on the disk may be this much behind our clock (the kernel's ticks).
CLOCK_SLACK_SECONDS = 1.0

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
#: Bytes of messages repeat too seldom for a dictionary, and statistics of them prune nothing.
_COLUMN_PROPERTIES = {
    "message": ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE"),
    "sequence": ColumnProperties(dictionary_enabled=False),
}


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit took in. `rows` is 0 when the table had all of it already."""

    version: int
    last_group: int
    files: int
    rows: int
    bytes: int
    build_seconds: float
    write_seconds: float
    sync_seconds: float


@dataclass(frozen=True, slots=True)
class _Committed:
    """The table as of one version; replaced as a whole, so that every thread sees one state."""

    version: int
    group: int
    sequence: int
    files: tuple[MessageFile, ...]


class TopicLog:
    """The open table. See the module for who may call what."""

    def __init__(self, path: Path, table: DeltaTable) -> None:
        self.path = path
        self._table = table
        self._committed = _read_state(table)
        self._checkpointed = self._committed.version
        self._pager = Pager(path)
        self._dead: str | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the table, or make it when nothing is there.

        Raises StoreError for a table whose schema, partitions or protocol isn't ours, and for one
        whose last commit isn't whole; such a table is never written.
        """
        if not DeltaTable.is_deltatable(str(path)):
            _create(path)
        try:
            table = DeltaTable(path)
            _check_ours(path, table)
            commits.check_whole(path, table.version())
            return cls(path, table)
        except (DeltaError, OSError) as error:
            raise StoreError(f"{path} can't be opened as a Delta table: {error}") from error

    @property
    def version(self) -> int:
        """The table's version after the last commit."""
        return self._committed.version

    @property
    def dead(self) -> str | None:
        """Why no commit will ever work again on this handle: an fsync failed. None while alive."""
        return self._dead

    @property
    def journal_version(self) -> int:
        """The last group that is committed; 0 before the first one."""
        return self._committed.group

    @property
    def sequence_version(self) -> int:
        """The first sequence that isn't committed."""
        return self._committed.sequence

    def files(self, record: str, after_group: int) -> list[Path]:
        """The data files that may hold rows of that record in later groups; committer thread."""
        return [
            self.path / file.path
            for file in _live_files(self._table)
            if file.record == record and (file.group_high is None or file.group_high > after_group)
        ]

    # The reader thread

    def page(self, topic: str, start: int, bytes_max: int) -> Page:
        """Committed messages of `topic` from `start` on: about `bytes_max`, at least one if there
        is one. Every committed one with `start <= sequence < covered` is in the page."""
        at = self._committed
        try:
            return self._pager.page(
                at.files, at.sequence, topic=topic, start=start, bytes_max=bytes_max
            )
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"messages of {topic} can't be read: {error}") from error

    # The committer thread

    def commit(self, views: Sequence[memoryview]) -> Commit:
        """Take in these frames of the journal, in order, as one commit, durable on return.

        Frames that the table has already are passed over, so a replay repeats nothing. After a
        StoreError the same call may be tried again: the table has none of the frames, or, when
        only the checkpoint after them failed, all of them. After TableMoved, or when `dead` says
        why, the gateway must stop.
        """
        if self._dead is not None:
            raise StoreError(self._dead)
        before = self._committed
        began = time.perf_counter()
        frames = _new_frames(views, before.group)
        self._refuse_moved()
        if not frames:
            return Commit(before.version, before.group, 0, 0, 0, 0.0, 0.0, 0.0)
        _check_dense(frames, before)
        table = rows.build(frames)
        built = time.perf_counter()
        after = (frames[-1].group, before.sequence + sum(f.count for f in frames))
        found = self._write(table, after)
        written = time.perf_counter()
        self._sync(lambda: commits.sync_commit(self.path, before.version + 1, found))
        self._committed = _Committed(
            before.version + 1, *after, _with_files(before.files, found.added)
        )
        synced = time.perf_counter()
        self._checkpoint_sometimes()
        return Commit(
            version=before.version + 1,
            last_group=after[0],
            files=len(found.added),
            rows=table.num_rows,
            bytes=sum(added.size for added in found.added),
            build_seconds=built - began,
            write_seconds=written - built,
            sync_seconds=synced - written,
        )

    def _refuse_moved(self) -> None:
        version = self._committed.version
        if commits.json_path(self.path, version + 1).exists():
            raise TableMoved(
                f"{self.path} is at version {version + 1} or later, we left it at {version}: "
                "somebody else wrote to it. Stop the other writer; then start again"
            )

    def _write(self, table: pa.Table, after: tuple[int, int]) -> CommitFile:
        """Write the commit and read back what it says; an error after it was made is none."""
        version = self._committed.version + 1
        since = time.time() - CLOCK_SLACK_SECONDS
        error: Exception | None = None
        try:
            self._write_delta(table, after)
        except (DeltaError, OSError) as caught:
            error = caught
        if commits.json_path(self.path, version).exists():
            found = commits.read_commit(self.path, version)
            if found.transactions == {JOURNAL_APP: after[0], SEQUENCE_APP: after[1]}:
                if error is not None or self._table.version() != version:
                    self._table = DeltaTable(self.path)
                return found
            raise TableMoved(
                f"somebody else made version {version} of {self.path}; stop the other writer"
            ) from error
        folders = {f"record={record}/day={day}" for record, day in _partitions(table)}
        self._table = DeltaTable(self.path)
        known = {file.path for file in _live_files(self._table)}
        commits.remove_orphans(self.path, folders, known, since)
        raise StoreError(f"version {version} of {self.path} can't be written: {error}") from error

    def _write_delta(self, table: pa.Table, after: tuple[int, int]) -> None:
        properties = CommitProperties(
            app_transactions=[
                Transaction(JOURNAL_APP, after[0]),
                Transaction(SEQUENCE_APP, after[1]),
            ],
            max_commit_retries=0,
        )
        if not table.num_rows:
            self._table.create_write_transaction(
                [], mode="append", schema=self._table.schema(), commit_properties=properties
            )
            return
        write_deltalake(
            self._table,
            table,
            mode="append",
            writer_properties=_writer_properties(table),
            commit_properties=properties,
            post_commithook_properties=_NO_HOOKS,
        )

    def _sync(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError as error:
            self._dead = (
                f"{self.path}: fsync after a commit failed ({error}). What is on the disk is "
                "unknown; see to the disk and start again"
            )
            raise StoreError(self._dead) from error

    def _checkpoint_sometimes(self) -> None:
        version = self._committed.version
        if version - self._checkpointed < CHECKPOINT_COMMITS:
            return
        self._checkpointed = version
        try:
            self._table.create_checkpoint()
            self._sync(lambda: commits.sync_checkpoint(self.path, version))
            self._table.cleanup_metadata()
            self._table = DeltaTable(self.path)
        except (DeltaError, OSError) as error:
            raise StoreError(
                f"the checkpoint of version {version} of {self.path} can't be written: {error}"
            ) from error


def _create(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise StoreError(f"{path} isn't empty and no Delta table; move it away")
    try:
        DeltaTable.create(
            path,
            schema=Schema.from_arrow(schema.SCHEMA),
            partition_by=schema.PARTITIONS,
            configuration=schema.CONFIGURATION,
        )
        commits.sync_commit(path, 0, commits.read_commit(path, 0))
    except (DeltaError, OSError) as error:
        raise StoreError(f"the table {path} can't be made: {error}") from error
    for folder in (path, path.parent, path.parent.parent):
        sync_directory(folder)


def _check_ours(path: Path, table: DeltaTable) -> None:
    protocol = table.protocol()
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    if versions != (schema.READER_VERSION, schema.WRITER_VERSION):
        raise StoreError(
            f"{path} needs reader {versions[0]} and writer {versions[1]} of the Delta protocol; "
            f"ours is {schema.READER_VERSION} and {schema.WRITER_VERSION}. It was not written here"
        )
    due = Schema.from_arrow(schema.SCHEMA)
    if table.schema() != due or table.metadata().partition_columns != schema.PARTITIONS:
        raise StoreError(
            f"{path} has another schema than topic_log: {_difference(table.schema(), due)}. "
            "It was written by another version of the program, or by another one"
        )


def _difference(found: Schema, due: Schema) -> str:
    names = {f.name: str(f.type) for f in found.fields}
    wanted = {f.name: str(f.type) for f in due.fields}
    wrong = [n for n in sorted(names | wanted) if names.get(n) != wanted.get(n)]
    return f"look at {', '.join(wrong)}" if wrong else "partitions or order of columns"


def _read_state(table: DeltaTable) -> _Committed:
    return _Committed(
        table.version(),
        table.transaction_version(JOURNAL_APP) or 0,
        table.transaction_version(SEQUENCE_APP) or 0,
        _with_files((), _live_files(table)),
    )


def _live_files(table: DeltaTable) -> list[AddedFile]:
    """The data files that the table has now, as its log describes them."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return []
    return [
        AddedFile(
            row["path"],
            row["size_bytes"],
            row["partition.record"],
            row["num_records"],
            row.get("min.sequence"),
            row.get("max.sequence"),
            row.get("min.topic"),
            row.get("max.topic"),
            row.get("max.group"),
        )
        for row in actions.to_pylist()
    ]


def _with_files(
    files: tuple[MessageFile, ...], added: Iterable[AddedFile]
) -> tuple[MessageFile, ...]:
    """The index with the message files among the added ones, by their lowest sequence."""
    more: list[MessageFile] = []
    reach = files[-1].reach if files else -1
    new = [f for f in added if f.record == schema.MESSAGE]
    for file in sorted(new, key=lambda f: f.low if f.low is not None else -1):
        if file.low is None or file.high is None:
            raise StoreError(f"{file.path} has no statistics of its sequences")
        reach = max(reach, file.high)
        more.append(
            MessageFile(file.path, file.low, file.high, file.topic_low, file.topic_high, reach)
        )
    return files + tuple(more)


def _new_frames(views: Sequence[memoryview], committed: int) -> list[DecodedFrame]:
    frames = [frame.decode(view) for view in views]
    return [f for f in frames if f.group > committed]


def _check_dense(frames: Sequence[DecodedFrame], before: _Committed) -> None:
    group, sequence = before.group, before.sequence
    for f in frames:
        if f.group != group + 1 or (f.count and f.first_sequence != sequence):
            raise StoreError(
                f"group {group + 1} with sequence {sequence} should be committed next, not "
                f"group {f.group} with {f.first_sequence}"
            )
        group, sequence = f.group, sequence + f.count


def _writer_properties(table: pa.Table) -> WriterProperties:
    size = table["message"].nbytes // table.num_rows + 1
    return WriterProperties(
        compression="ZSTD",
        compression_level=1,
        max_row_group_size=max(
            ROW_GROUP_ROWS_MIN, min(ROW_GROUP_ROWS_MAX, ROW_GROUP_BYTES // size)
        ),
        column_properties=_COLUMN_PROPERTIES,
    )


def _partitions(table: pa.Table) -> set[tuple[str, str]]:
    """The partitions that the rows go to, as the names of their folders have them."""
    pairs = table.select(["record", "day"]).group_by(["record", "day"]).aggregate([])
    return {(str(row["record"]), str(row["day"])) for row in pairs.to_pylist()}
