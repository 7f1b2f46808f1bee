"""Reader of `topic_log`'s log for its owner: the last checkpoint and the entries behind it.

It needs no library for Delta, and Arrow only if there is a checkpoint: a gateway without both
starts sooner and is smaller. All other programs read the table with deltalake (`pinned_table`), so
that each of the two readers checks the other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from distributary.pipeline import topic_log_columns as columns
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.log_identity import digest
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import LOG, AddedFile
from distributary.pipeline.tables.delta.store import Store

CHECKPOINT_SUFFIX: Final = ".checkpoint.parquet"
#: The kinds of actions that make up a table.
_KINDS: Final = ("protocol", "metaData", "txn", "add", "remove")


class TableHead(msgspec.Struct, frozen=True):
    """A table's description apart from its files: the versions of Delta's protocol that a reader
    and a writer need, and its action `metaData`."""

    reader_version: int
    writer_version: int
    metadata: Mapping[str, Any]

    @property
    def format(self) -> int | None:
        """The number of the format of `topic_log`, 1 for the first; None for a table with another
        schema."""
        found = _fields(str(self.metadata["schemaString"]))
        for number, names in enumerate(columns.FORMATS, start=1):
            if found == _fields(columns.schema_text(names)):
                return number
        return None

    @property
    def is_former(self) -> bool:
        """Whether it is a `topic_log` of a former format, which lacks some columns."""
        return self.format not in (columns.FORMAT, None)


class TableLog(msgspec.Struct, frozen=True):
    """A `topic_log` at `version`: the positions of applications, the data files. `entry` is that
    version's entry of the log; None if it wasn't read since a checkpoint replaces it. `digests`
    are those of all entries that were read, by version."""

    version: int
    head: TableHead
    transactions: Mapping[str, int]
    files: tuple[AddedFile, ...]
    entry: bytes | None = None
    digests: Mapping[int, str] = {}


class _Fold(msgspec.Struct):
    """The result of actions, applied in order."""

    protocol: Mapping[str, Any] = msgspec.field(default_factory=dict)
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    transactions: dict[str, int] = msgspec.field(default_factory=dict)
    adds: dict[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    digests: dict[int, str] = msgspec.field(default_factory=dict)

    def add(self, action: Mapping[str, Any]) -> None:
        if "add" in action:
            self.adds[unquote(action["add"]["path"])] = action["add"]
        elif "remove" in action:
            self.adds.pop(unquote(action["remove"]["path"]), None)
        elif "txn" in action:
            self.transactions[action["txn"]["appId"]] = int(action["txn"]["version"])
        elif "metaData" in action:
            self.metadata = action["metaData"]
        elif "protocol" in action:
            self.protocol = action["protocol"]

    @property
    def head(self) -> TableHead:
        reader, writer = (int(self.protocol[f"min{who}Version"]) for who in ("Reader", "Writer"))
        return TableHead(reader, writer, self.metadata)


def version_of(name: str) -> int | None:
    """Return the version of a file in the log's folder; None if it is neither an entry nor a
    checkpoint."""
    number, _, suffix = name.partition(".")
    known = suffix == "json" or f".{suffix}" == CHECKPOINT_SUFFIX
    return int(number) if known and number.isdigit() else None


def checkpoint_name(version: int) -> str:
    return f"{LOG}/{version:020d}{CHECKPOINT_SUFFIX}"


def is_table(names: Iterable[str]) -> bool:
    """Whether these files of a log's folder include an entry or a checkpoint of a table."""
    return any(version_of(name) is not None for name in names)


def read(store: Store, names: Sequence[str] | None = None) -> TableLog:
    """Read the table's newest version; `names` are the files of its log, if they were listed just
    now. Raises StoreError when the log can't be read, lacks an entry, or belongs to another table
    than a `topic_log`."""
    try:
        names = store.files(LOG) if names is None else names
        try:
            version, fold, entry = _folded(store, names)
        except FileNotFoundError:  # cleaned up meanwhile, by a former owner that woke
            if set(again := store.files(LOG)) == set(names):
                raise
            version, fold, entry = _folded(store, again)
        head = fold.head
        check_ours(store.uri, head)
        files = tuple(map(commits.file_of, fold.adds.values()))
    except library_errors(OSError, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise StoreError(f"{store.uri} can't be opened as a Delta table: {why}") from error
    return TableLog(version, head, fold.transactions, files, entry, fold.digests)


def _folded(store: Store, there: Sequence[str]) -> tuple[int, _Fold, bytes | None]:
    entries = {
        v for name in there if name.endswith(".json") and (v := version_of(name)) is not None
    }
    checkpoints = {version_of(name) for name in there if name.endswith(CHECKPOINT_SUFFIX)}
    base = max((v for v in checkpoints if v is not None), default=-1)
    last = max(entries, default=base)
    if last < 0:
        raise StoreError(f"{store.uri} can't be opened as a Delta table: there is none")
    fold = _Fold()
    for action in _checkpointed(store, base) if base >= 0 else ():
        fold.add(action)
    versions = range(base + 1, last + 1)
    for version in versions:
        if version not in entries:
            raise StoreError(f"{store.uri} lacks the entry {commits.json_name(version)} of its log")
    text: bytes | None = None
    names = [commits.json_name(version) for version in versions]
    for version, text in zip(versions, store.each(names), strict=True):
        fold.digests[version] = digest(text)
        for line in text.splitlines():
            fold.add(json.loads(line))
    return max(base, last), fold, text


def _versions(names: Iterable[str], suffix: str) -> set[int]:
    found = (version_of(name) for name in names if name.endswith(suffix))
    return {version for version in found if version is not None}


def _checkpointed(store: Store, version: int) -> Iterator[Mapping[str, Any]]:
    """Return the actions of a checkpoint."""
    with store.parquet(checkpoint_name(version)) as file:
        there = [kind for kind in _KINDS if kind != "remove" and kind in file.schema_arrow.names]
        for nth in range(file.num_row_groups):
            rows = file.read_row_group(nth, columns=there)
            for kind in there:
                for one in rows[kind].drop_null().to_pylist(maps_as_pydicts="strict"):
                    yield {kind: one}


def check_ours(uri: str, head: TableHead) -> None:
    """Raise StoreError for a table whose schema, partitions or protocol isn't ours. Former formats
    are ours."""
    versions = (head.reader_version, head.writer_version)
    if versions != (columns.READER_VERSION, columns.WRITER_VERSION):
        raise StoreError(
            f"{uri} needs reader {versions[0]} and writer {versions[1]} of the Delta protocol; "
            f"ours is {columns.READER_VERSION} and {columns.WRITER_VERSION}. It was not written "
            "here"
        )
    if head.format is None or list(head.metadata["partitionColumns"]) != columns.PARTITIONS:
        raise StoreError(
            f"{uri} has another schema than topic_log: {_difference(head)}. "
            "It was written by another version of the program, or by another one"
        )


def _fields(schema: str) -> list[tuple[str, object, bool]]:
    """Return the columns' names, types, and whether they may be null."""
    return [(one["name"], one["type"], one["nullable"]) for one in json.loads(schema)["fields"]]


def _difference(head: TableHead) -> str:
    found, wanted = (
        {name: kind for name, kind, _ in _fields(text)}
        for text in (str(head.metadata["schemaString"]), columns.schema_text())
    )
    wrong = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    return f"look at {', '.join(wrong)}" if wrong else "partitions or order of columns"
