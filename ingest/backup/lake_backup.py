"""The backup of a lake: a folder with the backup of each log under its name, and a manifest, which
comes last (`pipeline.backup.lake_manifest`).

Each log is copied as of a moment of its own: no guarantee spans logs. A log that no gateway has
served yet has no files to copy, and no backup.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from distributary.ingest.backup.backup_folder import (
    MANIFEST,
    BackupFolder,
    complete,
    manifest_bytes,
    writing_of_lake,
)
from distributary.ingest.backup.backup_run import BackupReport
from distributary.ingest.backup.home_reader import HomeReader
from distributary.ingest.backup.wanted import LAST, not_empty
from distributary.pipeline.backup import backup_plan
from distributary.pipeline.backup.lake_manifest import LakeManifest, is_of_lake
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN, log_below
from distributary.pipeline.tables.lake.lake import Lake


class LoggedFolder(msgspec.Struct, frozen=True):
    """A log, the address of its home, and the folder of its backup."""

    log: str
    home: str
    folder: Path


def back_up_lake(
    lake: Lake,
    folder: Path,
    reader: Callable[[str], HomeReader],
    copied: Callable[[str, Path], BackupReport],
) -> dict[str, BackupReport]:
    """Copy each log of a lake, whole and durable on return. `reader` gives the reader of a home,
    `copied` copies a home to a folder. Raises InvalidRequest for a folder with other files in it,
    StoreError, also where a log that the last backup has isn't there."""
    reader(lake.address).require_outside(folder)
    placement, secret = lake.placement(), lake.secret()
    served = _served(_folders(placement.logs, lake.address, folder), lake.address, reader)
    with writing_of_lake(folder):
        former = manifest_bytes(folder)
        if former is not None and not is_of_lake(former):
            raise InvalidRequest(
                f"{folder} has the backup of a home with one log. Name another folder"
            )
        if former is not None:
            last = LakeManifest.decode(former, str(folder / MANIFEST))
            last.require_present({one.log for one in served}, lake.address)
        reports = {one.log: copied(one.home, one.folder) for one in served}
        logs = {log: report.point for log, report in reports.items()}
        complete(folder, LakeManifest(placement, secret, logs).encode())
        return reports


def _served(
    found: list[LoggedFolder], lake: str, reader: Callable[[str], HomeReader]
) -> list[LoggedFolder]:
    """Return the logs that have files to copy. Raises InvalidRequest if there are none, or one of
    them can't be copied."""
    served = [one for one in found if backup_plan.LAST_TABLE in reader(one.home).table_names()]
    if not served:
        raise InvalidRequest(f"{lake} has nothing to copy: no log was ever served")
    for one in served:
        reader(one.home).require(one.folder)
    return served


def in_folder(folder: Path, root: str) -> tuple[LakeManifest, list[LoggedFolder]] | None:
    """Return the logs that a restore makes of this folder at `root`, `main` last; None for the
    backup of one log. Raises StoreError for a log whose backup is missing, OSError,
    InvalidRequest."""
    said = manifest_bytes(folder)
    if said is None or not is_of_lake(said):
        return None
    manifest = LakeManifest.decode(said, str(folder / MANIFEST))
    found = _folders(manifest.logs, root, folder)
    for one in found:
        there = BackupFolder(one.folder).manifest()
        manifest.require(one.log, None if there is None else there.point, str(one.folder))
    return manifest, found


def require_unserved(
    manifest: LakeManifest, root: str, reader: Callable[[str], HomeReader]
) -> None:
    """Raise InvalidRequest where a log that the backup lacks has files at `root`: a restored lake
    would serve them as its own."""
    for log in manifest.placement.logs:
        home = log_below(root, log)
        if log not in manifest.logs and reader(home).table_names():
            raise not_empty(home, LAST, "another home")


def _folders(
    logs: Mapping[str, object] | tuple[str, ...], root: str, folder: Path
) -> list[LoggedFolder]:
    ordered = sorted(logs, key=lambda log: log == MAIN)
    return [LoggedFolder(log, log_below(root, log), folder / log) for log in ordered]
