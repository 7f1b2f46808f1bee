"""`distributary backup` and `distributary restore`: a copy of a home, and a home of a copy."""

import os
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from distributary.ingest.cli.options.command_options import json_option
from distributary.ingest.runtime import load_settings
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tables.home.home import Home

if TYPE_CHECKING:
    from distributary.ingest.backup.backup_run import BackupReport, Progress
    from distributary.ingest.backup.home_reader import HomeReader
    from distributary.ingest.backup.restore_run import HomeRestore
    from distributary.ingest.backup.wanted import RestoreReport
    from distributary.pipeline.backup.backup_manifest import BackupPoint

_path = click.Path(path_type=Path)
#: Niceness of the process: the gateway has the processor first.
_NICE: Final = 10
#: MB a second: a third of what a slow SSD writes.
RATE: Final = 50.0


@click.command()
@click.option("--home", required=True, help="The gateway's folder, or s3://bucket/prefix.")
@click.option("--to", "folder", required=True, help="The backup's folder, on another disk.")
@click.option("--config", type=_path, help="The gateway's settings: it and the files it names too.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=RATE,
    show_default=True,
    help="MB a second that are read at most, so that the gateway has the disk; 0: no limit.",
)
@json_option
def backup(home: str, folder: str, config: Path | None, rate: float, as_json: bool) -> None:
    """Copy a home to a folder, also while its gateway runs.

    \b
    Examples:
      distributary backup --home ~/orders --to /mnt/backup/orders
      distributary backup --home ~/orders --to /mnt/backup/orders --config gateway.toml --json
      distributary backup --home s3://bucket/orders --to /mnt/backup/orders

    All that was accepted before it began is in it: the log, the journal, Spark's tables, reports of
    audits; with --config the settings, users, permissions, client ids and policies. A second
    backup to the same folder copies what is new. The folder has one backup, the last whole one.
    Of a lake each log is copied, to a folder of its name; placement and secret are in its manifest.
    Exit code 0: it is whole and on the disk. 1: it could not be made; the last one is as it was.
    2: the command line can't be.
    """
    from distributary.ingest.backup import backup_run  # noqa: PLC0415 (with the tables half a second)
    from distributary.ingest.cli.inspection import inspect_show as show  # noqa: PLC0415 (as above)
    from distributary.ingest.commit.table_location import lake_at  # noqa: PLC0415 (as above)

    if "://" in folder:
        raise InvalidRequest(
            f"--to takes a folder, not {folder}. Back up to a folder, and copy that to the object "
            "store: first `pieces`, then manifest.json"
        )
    os.nice(_NICE)
    options = load_settings.load(config, flags={})
    files = _named_by(config) if config is not None else {}
    with show.progress_bar(hidden=as_json) as progress:

        def copied(place: str, to: Path) -> "BackupReport":
            reader = _reader(place, options)
            return backup_run.back_up(reader, to, files, progress, bytes_a_second=rate * 1e6)

        lake = lake_at(home, options)
        if lake is not None:
            from distributary.ingest.backup.lake_backup import back_up_lake  # noqa: PLC0415 (most homes have one log)

            reports = back_up_lake(
                lake, Path(folder), lambda place: _reader(place, options), copied
            )
        else:
            reports = {"": copied(home, Path(folder))}
    if as_json:
        said = {log: asdict(one) | {"folder": str(one.folder)} for log, one in reports.items()}
        _print_json(said.get("", said))
        return
    for log, report in reports.items():
        _tell_backup(report, log)
    if lake is not None and (left := [log for log in lake.placement().logs if log not in reports]):
        click.echo(f"Not copied, as no gateway has served them: {', '.join(left)}.")


def _reader(place: str, settings: Settings) -> "HomeReader":
    """Return the reader of the home at a path or an address. Raises InvalidRequest."""
    from distributary.ingest.commit.table_location import is_address, object_home  # noqa: PLC0415 (as above)

    if is_address(place):
        from distributary.ingest.backup.store_reader import StoreReader  # noqa: PLC0415 (most homes need none)

        return StoreReader(object_home(place, settings))
    from distributary.ingest.backup.disk_reader import DiskReader  # noqa: PLC0415 (as above)

    return DiskReader(Home(Path(place)))


def _tell_backup(report: "BackupReport", log: str) -> None:
    if log:
        click.echo(f"The log {log}:")
    click.echo(
        f"{report.files:,} files with {_mb(report.bytes)} are in {report.folder}, "
        f"{_as_of(report.point)}."
    )
    click.echo(
        f"New are {_mb(report.written_bytes)}; it took {report.seconds:,.1f} s"
        + (f" and {report.rounds} rounds." if report.rounds > 1 else ".")
    )


@click.command()
@click.option("--from", "folder", type=_path, required=True, help="The backup's folder.")
@click.option("--home", required=True, help="The home to make: a folder or s3://..., empty.")
@click.option(
    "--settings",
    type=_path,
    help="Where files of settings go: absent or empty.",
)
@json_option
def restore(folder: Path, home: str, settings: Path | None, as_json: bool) -> None:
    """Make a home of a backup, each byte compared with its digest.

    \b
    Examples:
      distributary restore --from /mnt/backup/orders --home ~/orders
      distributary restore --from /mnt/backup/orders --home ~/orders --settings ~/orders-settings
      distributary verify --home ~/orders

    Nothing is overwritten. What was accepted after the backup isn't in it; what was delivered or
    settled after it comes again, marked as redelivered.
    Exit code 0: the home is whole, of a lake each log. 1: the backup is damaged or can't be read,
    and no home was made; or it was interrupted: no gateway serves the home, repeat the restore.
    2: there is no backup, it is of a newer format, or the home isn't empty.
    """
    from distributary.ingest.cli.inspection import inspect_show as show  # noqa: PLC0415 (as above)

    with show.progress_bar(hidden=as_json) as progress:
        reports = _restored(folder, home, settings, progress)
    if as_json:
        said = {log: asdict(one) for log, one in reports.items()}
        _print_json(said.get("", said))
        return
    for log, report in reports.items():
        _tell_restore(report, log, settings)


def _restored(
    folder: Path, home: str, settings: Path | None, progress: "Progress"
) -> "dict[str, RestoreReport]":
    """Restore a home of one log (""), or each log of a lake; return the reports by log."""
    from distributary.ingest.backup import lake_backup  # noqa: PLC0415 (with the tables half a second)
    from distributary.ingest.backup.restore_run import RestoredLake, restore  # noqa: PLC0415 (as above)
    from distributary.ingest.backup.wanted import require_apart  # noqa: PLC0415 (as above)
    from distributary.ingest.commit.table_location import is_address, is_lake, new_lake  # noqa: PLC0415 (as above)

    require_apart(folder, None if is_address(home) else Path(home), settings)
    options = load_settings.load(None, {})
    found = lake_backup.in_folder(folder, home)
    if found is None:
        return {"": restore([_restore_of(folder, home, settings, options)], progress)[0]}
    manifest, logs = found
    lake = RestoredLake(new_lake(home, options), manifest, is_lake(home, options))
    if not lake.is_there:
        lake_backup.require_unserved(manifest, home, lambda place: _reader(place, options))
    restores = [  # settings are the same in all: the first one's are restored
        _restore_of(one.folder, one.home, None if at else settings, options)
        for at, one in enumerate(logs)
    ]
    done = restore(restores, progress, lake)
    if settings is not None:
        done = [replace(report, settings_left=0) for report in done]
    return {one.log: report for one, report in zip(logs, done, strict=True)}


def _restore_of(folder: Path, home: str, files: Path | None, settings: Settings) -> "HomeRestore":
    """Return the restore of the home at a path or an address. Raises InvalidRequest."""
    from distributary.ingest.commit.table_location import is_address, object_home  # noqa: PLC0415 (as above)

    if is_address(home):
        from distributary.ingest.backup.store_restore import StoreRestore  # noqa: PLC0415 (as above)

        return StoreRestore(folder, object_home(home, settings), files)
    from distributary.ingest.backup.disk_restore import DiskRestore  # noqa: PLC0415 (as above)

    return DiskRestore(folder, Home(Path(home)), files)


def _tell_restore(report: "RestoreReport", log: str, settings: Path | None) -> None:
    if log:
        click.echo(f"The log {log}:")
    click.echo(
        f"{report.files:,} files with {_mb(report.bytes)} are in {report.home}, "
        f"{_as_of(report.point)}; it took {report.seconds:,.1f} s."
    )
    if report.settings:
        click.echo(f"{report.settings} files of the settings are in {settings}.")
    if report.settings_left:
        click.echo(
            f"{report.settings_left} files of the settings stayed in the backup: --settings FOLDER "
            "would have restored them."
        )
    click.echo(f"`distributary verify --home {report.home}` says whether the log is sound.")


def _named_by(config: Path) -> dict[str, Path]:
    """Return the settings' file and those that it names, by the setting. Keys and certificates
    aren't among them: their issuer makes new ones. Raises InvalidRequest."""
    settings = load_settings.load(config, flags={})
    if settings.tables.url:
        raise InvalidRequest(
            f"the tables are at {settings.tables.url} (tables.url), and only tables on a disk are "
            "copied: the object store's own versions and copies keep them"
        )
    return {"config": config} | {key: Path(name) for key, name in _files(settings) if name}


def _files(settings: Settings) -> tuple[tuple[str, str], ...]:
    security = settings.security
    return (
        ("security.users", security.users),
        ("security.permissions", security.permissions),
        ("security.client_ids", security.client_ids),
        ("delivery.policies", settings.delivery.policies),
    )


def _as_of(point: "BackupPoint") -> str:
    began = datetime.fromtimestamp(point.began, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"as of {began}: version {point.log.version:,}, group {point.last_group:,}, "
        f"the next message is {point.next_sequence:,}"
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
