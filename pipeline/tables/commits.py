"""What a Delta commit leaves on the disk: its JSON, the files it names, and their durability.

deltalake never calls fsync; a commit counts here when everything that it names is on the disk.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pipeline.errors import StoreError
from pipeline.tables.segment import sync_directory


@dataclass(frozen=True, slots=True)
class AddedFile:
    """One data file of a commit, with the statistics that its writer recorded."""

    path: str
    size: int
    record: str
    rows: int
    low: int | None
    high: int | None
    topic_low: str | None
    topic_high: str | None
    group_high: int | None


@dataclass(frozen=True, slots=True)
class CommitFile:
    """One commit as its JSON says: the files it adds, and the version of each application."""

    added: tuple[AddedFile, ...]
    transactions: dict[str, int]


def json_path(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def read_commit(root: Path, version: int) -> CommitFile:
    """The commit with that version. Raises StoreError when it is absent or damaged."""
    path = json_path(root, version)
    try:
        actions = [json.loads(line) for line in path.read_bytes().splitlines()]
        return CommitFile(
            tuple(_added(action["add"]) for action in actions if "add" in action),
            {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the commit {path} can't be read: {error}") from error


def _added(add: dict[str, object]) -> AddedFile:
    stats = json.loads(str(add.get("stats") or "{}"))
    lows, highs = stats.get("minValues", {}), stats.get("maxValues", {})
    values = add["partitionValues"]
    record = values["record"] if isinstance(values, dict) else ""
    return AddedFile(
        unquote(str(add["path"])),
        int(str(add["size"])),
        str(record),
        int(stats.get("numRecords", 0)),
        lows.get("sequence"),
        highs.get("sequence"),
        lows.get("topic"),
        highs.get("topic"),
        highs.get("group"),
    )


def sync_commit(root: Path, version: int, commit: CommitFile) -> None:
    """Make a commit durable: its files, the folders that name them, then the commit itself."""
    folders: set[Path] = set()
    for added in commit.added:
        path = root / added.path
        _sync_file(path)
        folders.update(path.parents[: len(Path(added.path).parts)])
    for folder in sorted(folders, reverse=True):
        sync_directory(folder)
    _sync_file(json_path(root, version))
    sync_directory(root / "_delta_log")


def sync_checkpoint(root: Path, version: int) -> None:
    """Make the checkpoint of that version durable, then the pointer to it."""
    log = root / "_delta_log"
    for path in log.glob(f"{version:020d}.checkpoint*.parquet"):
        _sync_file(path)
    _sync_file(log / "_last_checkpoint")
    sync_directory(log)


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_orphans(root: Path, folders: set[str], known: set[str], since: float) -> None:
    """Remove the data files that a failed commit left in these folders, so that retries on a
    full disk don't fill it: those that were written since then and that no commit names."""
    for folder in folders:
        for path in (root / folder).glob("*.parquet*"):
            name = path.relative_to(root).as_posix()
            if name not in known and path.stat().st_mtime >= since:
                path.unlink(missing_ok=True)


def check_whole(root: Path, version: int) -> None:
    """Refuse a last commit whose files aren't there as it says: the power failed before the sync.

    Earlier commits were synced before the next one began.
    """
    if not json_path(root, version).exists():
        return  # cleaned up, so a checkpoint stands for it
    for added in read_commit(root, version).added:
        path = root / added.path
        size = path.stat().st_size if path.exists() else 0
        if size != added.size:
            raise StoreError(
                f"{path} has {size} bytes, the commit {json_path(root, version).name} says "
                f"{added.size}: the machine stopped before that commit was on the disk. If the "
                f"journal still holds the commit's groups, move {json_path(root, version)} away "
                "and start again: they are committed anew"
            )
