"""The content of a Delta commit: files added, files removed, versions of applications, as JSON
lines.

A commit is made by creating its file, which another writer may have created before. All files that
it names are on the disk by then, so a visible commit is whole. No other module reads or writes an
entry of the log; only Spark reads many of them at once by itself
"""

import datetime as dt
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.store import Store

LOG: Final = "_delta_log"
ENGINE: Final = "distributary"
#: Spark's application in each of its tables; its version is the last group that is wholly in.
SPARK_APP: Final = "distributary"
#: First letter of our data files' names, before the tier.
_TIER: Final = "t"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class FileAttributes(msgspec.Struct, frozen=True):
    """Attributes of a file's messages, so that it needn't be read to know that they are plain.

    `published_low` and `published_high` are microseconds, rounded outward to whole milliseconds;
    `expiring` is the number of messages that expire.
    """

    priority_low: int
    priority_high: int
    expiring: int
    published_low: int
    published_high: int


class AddedFile(msgspec.Struct, frozen=True):
    """One data file of the table, with the statistics that its writer recorded.

    `low` and `high` are sequences: None for records that have none. `attributes` is None for them,
    too, and for files that were written before header attributes were recorded.
    """

    path: str
    size: int
    record: str
    day: str
    rows: int
    low: int | None
    high: int | None
    topic_low: str | None
    topic_high: str | None
    group_low: int | None
    group_high: int | None
    written_at: int  #: milliseconds
    attributes: "FileAttributes | None" = None

    @property
    def tier(self) -> int:
        """How often its rows were merged; 0 for a commit's own file, by any writer."""
        head = self.path.rpartition("/")[2].partition("-")[0]
        return int(head[1:]) if head[:1] == _TIER and head[1:].isdigit() else 0


class CommitFile(msgspec.Struct, frozen=True):
    """One commit, parsed from its JSON."""

    added: tuple[AddedFile, ...]
    removed: tuple[str, ...]
    transactions: dict[str, int]
    changed: tuple[AddedFile, ...]  #: files of `added` with new rows: the others rearrange rows
    made_at: int  #: milliseconds; 0 if the commit doesn't say


def file_name(tier: int, unique: str) -> str:
    return f"{_TIER}{tier}-{unique}.parquet"


def partition(record: str, day: str) -> str:
    """Return the folder of a partition's files."""
    return f"record={record}/day={day}"


def json_name(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def json_path(root: Path, version: int) -> Path:
    return root / json_name(version)


def read_commit(store: Store, version: int) -> CommitFile:
    """Read the commit with that version. Raises StoreError when it is absent or damaged."""
    path = json_name(version)
    try:
        return parse(store.read(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the commit {path} of {store.uri} can't be read: {error}") from error


def actions_of(text: bytes, kind: str) -> Iterator[dict[str, Any]]:
    """Return one kind of actions in a commit of ours; quicker than `parse`."""
    head = f'{{"{kind}"'.encode()
    return (json.loads(line)[kind] for line in text.splitlines() if line.startswith(head))


def made_at(text: bytes) -> int:
    """Return when a commit was made, microseconds; 0 if it doesn't say."""
    return next((_milliseconds(info) * 1_000 for info in actions_of(text, "commitInfo")), 0)


def parse(text: bytes) -> CommitFile:
    """Parse a commit by any writer. Raises ValueError, KeyError or TypeError when it is damaged."""
    actions = [json.loads(line) for line in text.splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    added = [file_of(add) for add in adds]
    return CommitFile(
        tuple(added),
        tuple(unquote(action["remove"]["path"]) for action in actions if "remove" in action),
        {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a},
        tuple(file for file, add in zip(added, adds, strict=True) if add["dataChange"]),
        next((_milliseconds(a["commitInfo"]) for a in actions if "commitInfo" in a), 0),
    )


def _milliseconds(info: Mapping[str, Any]) -> int:
    return int(info.get("timestamp", 0))


def file_of(add: Mapping[str, object]) -> AddedFile:
    """Return the file of an add action. Raises ValueError, KeyError or TypeError when damaged."""
    stats = json.loads(str(add.get("stats") or "{}"))
    lows, highs = stats.get("minValues", {}), stats.get("maxValues", {})
    values = add["partitionValues"]
    if not isinstance(values, dict):
        raise TypeError("partitionValues are no map")
    return AddedFile(
        unquote(str(add["path"])),
        int(str(add["size"])),
        str(values["record"]),
        str(values["day"]),
        int(stats.get("numRecords", 0)),
        lows.get("sequence"),
        highs.get("sequence"),
        lows.get("topic"),
        highs.get("topic"),
        lows.get("group"),
        highs.get("group"),
        int(str(add.get("modificationTime", 0))),
        attributes_of(lows, highs, stats.get("nullCount", {}), int(stats.get("numRecords", 0))),
    )


def attributes_of(
    lows: Mapping[str, object], highs: Mapping[str, object], nulls: Mapping[str, object], rows: int
) -> FileAttributes | None:
    """Read message attributes from statistics by column name; None if some are missing."""
    match lows.get("priority"), highs.get("priority"), nulls.get("expires_at"):
        case int(low), int(high), int(lasting):
            published = microseconds(lows["published_at"]), microseconds(highs["published_at"])
            return FileAttributes(low, high, rows - lasting, *published)
    return None


def microseconds(time: object) -> int:
    """Convert a time in statistics: text in the log, a datetime from deltalake."""
    at = time if isinstance(time, dt.datetime) else dt.datetime.fromisoformat(str(time))
    return (at - _EPOCH) // dt.timedelta(microseconds=1)


def time_text(time: int) -> str:
    """Format a time in microseconds as statistics have it, in whole milliseconds."""
    milliseconds = dt.timedelta(milliseconds=time // 1_000)
    return (_EPOCH + milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Writing


def encode(
    operation: str,
    *,
    at: int,
    added: Iterable[AddedFile] = (),
    removed: Iterable[AddedFile] = (),
    transactions: Mapping[str, int] | None = None,
    data_change: bool = True,
) -> bytes:
    """Encode a commit of these actions, made at `at` (microseconds).

    Without `data_change` the commit only rearranges rows: readers of changes skip it.
    """
    milliseconds = at // 1_000
    actions: list[object] = [_info(operation, milliseconds, data_change=data_change)]
    actions += [
        {"txn": {"appId": app, "version": version, "lastUpdated": milliseconds}}
        for app, version in (transactions or {}).items()
    ]
    actions += [_remove_action(file, milliseconds, data_change) for file in removed]
    actions += [{"add": add_action(file, data_change=data_change)} for file in added]
    return lines(actions)


def lines(actions: Sequence[object]) -> bytes:
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in actions).encode()


def _info(operation: str, milliseconds: int, *, data_change: bool) -> object:
    return {
        "commitInfo": {
            "timestamp": milliseconds,
            "operation": operation,
            "operationParameters": {},
            "isBlindAppend": operation == "WRITE" and data_change,
            "engineInfo": ENGINE,
            "txnId": str(uuid.uuid4()),
        }
    }


def add_action(file: AddedFile, *, data_change: bool) -> dict[str, object]:
    return {
        "path": quote(file.path, safe="/="),
        "partitionValues": {"record": file.record, "day": file.day},
        "size": file.size,
        "modificationTime": file.written_at,
        "dataChange": data_change,
        "stats": json.dumps(_statistics(file), separators=(",", ":")),
    }


def _statistics(file: AddedFile) -> object:
    bounds: dict[str, tuple[object, object]] = {
        "topic": (file.topic_low, file.topic_high),
        "sequence": (file.low, file.high),
        "group": (file.group_low, file.group_high),
    }
    nulls = {name: file.rows if low is None else 0 for name, (low, _) in bounds.items()}
    if has := file.attributes:
        bounds["priority"] = has.priority_low, has.priority_high
        bounds["published_at"] = time_text(has.published_low), time_text(has.published_high)
        nulls |= {"priority": 0, "published_at": 0, "expires_at": file.rows - has.expiring}
    return {
        "numRecords": file.rows,
        "minValues": {name: low for name, (low, _) in bounds.items() if low is not None},
        "maxValues": {name: high for name, (_, high) in bounds.items() if high is not None},
        "nullCount": nulls,
    }


def _remove_action(file: AddedFile, milliseconds: int, data_change: bool) -> object:
    return {
        "remove": {
            "path": quote(file.path, safe="/="),
            "deletionTimestamp": milliseconds,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": {"record": file.record, "day": file.day},
            "size": file.size,
        }
    }


def check_whole(store: Store, version: int, entry: bytes | None = None) -> None:
    """Raise StoreError when a file of the last commit is missing or has another size.

    `entry` is that commit, if it was read. Our commits are whole when they appear; one by an
    earlier version of the program may not be. Its earlier commits were synced before the next one
    began. On an object store every file was there before its commit.
    """
    if store.answers_late:
        return
    if entry is None:
        if not store.exists(json_name(version)):
            return  # cleaned up: a checkpoint replaces it
        entry = store.read(json_name(version))
    for added in parse(entry).added:
        size = store.size(added.path)
        if size != added.size:
            raise StoreError(
                f"{store.uri}/{added.path} has {size} bytes, the commit {version:020d}.json says "
                f"{added.size}: the machine stopped before that commit was on the disk. If the "
                f"journal still holds the commit's groups, move {store.uri}/{json_name(version)} "
                "away and start again: they are committed anew"
            )
