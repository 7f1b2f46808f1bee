"""`distributary verify` and `distributary info`: a home's contents, and whether it is sound.

Neither takes the home's lock nor writes anything, so both may run beside the gateway; only
`verify --repair` owns the home while it cuts a torn tail.
"""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import structs

from distributary.ingest.runtime import load_settings
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tables.home.home import Home

if TYPE_CHECKING:
    from distributary.pipeline.tables.journal.journal import Cut
    from distributary.pipeline.tables.verify.home_parts import HomeParts
    from distributary.pipeline.tables.verify.verify_home import Report

SOUND, NOT_SOUND = 0, 1

_home = click.option("--home", required=True, help="The gateway's folder, or its address.")
_config = click.option(
    "--config", type=click.Path(path_type=Path), help="The gateway's settings, for tables.url."
)
_as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.command()
@_home
@_config
@click.option("--deep", is_flag=True, help="Read the messages' bytes, too.")
@click.option("--repair", is_flag=True, help="Cut a torn tail of the journal first.")
@_as_json
def verify(home: str, config: Path | None, deep: bool, repair: bool, as_json: bool) -> None:
    """Read all of a home and say whether it is sound.

    \b
    Examples:
      distributary verify --home ~/orders
      distributary verify --home ~/orders --deep --json

    It may run beside the gateway; --repair may not. Nothing is written but what --repair cuts: a
    frame at the journal's end that is not whole, and that was never accepted.
    Of a lake each log is read, and whether its topics are placed there.
    Exit code 0: sound. 1: not sound, or it could not be read. 2: that is no gateway's home, or
    a restore of it isn't complete.
    """
    from distributary.ingest.cli.inspection import inspect_show as show  # noqa: PLC0415 (with the tables half a second)
    from distributary.ingest.commit.table_location import is_address  # noqa: PLC0415 (as above)
    from distributary.pipeline.tables.verify import verify_home as verification  # noqa: PLC0415 (as above)

    if repair and is_address(home):
        raise InvalidRequest("--repair is for a journal on a disk: objects have no torn end")
    settings = load_settings.load(config, flags={})
    found: dict[str, dict[str, object]] = {}
    sound = True
    for log, place in served_logs(home, settings).items():
        cut = verification.repair(Home(Path(place))) if repair else None
        parts = _parts(place, settings)
        with show.progress_bar(hidden=as_json) as progress:
            report = verification.verify_parts(parts, deep=deep, progress=progress)
        if log and report.sound:
            report = _with_placement(report, home, log, parts, settings)
        sound = sound and report.sound
        found[log] = _report_as_json(report, cut, repair=repair)
        if not as_json:
            show.show_report(report, cut, repair=repair)
    if as_json:
        _print_json(found.get("", {"sound": sound, "logs": found}))
    sys.exit(SOUND if sound else NOT_SOUND)


@click.command()
@_home
@_config
@_as_json
def info(home: str, config: Path | None, as_json: bool) -> None:
    """Show a home's contents: topics, subscriptions and their backlog, files, sizes, versions.

    \b
    Examples:
      distributary info --home ~/orders
      distributary info --home ~/orders --json

    It may run beside the gateway, and shows the log as of its last commit; of a lake each log.
    Exit code 1: something can't be read. 2: that is no gateway's home, or
    a restore of it isn't complete.
    """
    from distributary.ingest.cli.inspection import inspect_show as show  # noqa: PLC0415 (with the tables half a second)
    from distributary.pipeline.tables.verify import home_info  # noqa: PLC0415 (as above)

    settings = load_settings.load(config, flags={})
    logs = served_logs(home, settings)
    found = {log: home_info.take_parts(_parts(place, settings)) for log, place in logs.items()}
    if as_json:
        said = {log: asdict(one) for log, one in found.items()}
        _print_json(said.get("", {"home": home, "logs": said}))
        return
    for log, one in found.items():
        if log:
            click.echo(f"log {log}: {one.home}")
        show.show_home_info(one)


def _with_placement(
    report: "Report", home: str, log: str, parts: "HomeParts", settings: Settings
) -> "Report":
    """Add a check: whether the log of a lake has topics that are placed in other logs. Raises
    StoreError."""
    from distributary.ingest.commit.table_location import lake_at  # noqa: PLC0415 (as above)
    from distributary.ingest.placing.log_topics import topics_of  # noqa: PLC0415 (as above)
    from distributary.pipeline.lake.placement import misplaced  # noqa: PLC0415 (as above)
    from distributary.pipeline.tables.verify.check import Check, Verdict  # noqa: PLC0415 (as above)

    lake = lake_at(home, settings)
    assert lake is not None, home  # noqa: S101 (it has logs)
    placement, topics = lake.placement(), topics_of(parts).topics
    problems = tuple(
        f"the log {log} has {topic}, which is placed in {', '.join(placement.logs_of(topic))}: "
        "no client is served from here. Place it here again, or take its subscriptions away"
        for topic in misplaced(placement, log, topics)
    )
    verdict = Verdict.UNSOUND if problems else Verdict.SOUND
    checked = Check("placement", verdict, f"topics {len(topics):,}", problems)
    return replace(report, checks=(*report.checks, checked))


def served_logs(home: str, settings: Settings) -> dict[str, str]:
    """Return the logs of a lake that were ever served, with their homes; of another home itself,
    without a name. Raises InvalidRequest for a lake without any, StoreError."""
    from distributary.ingest.commit.table_location import is_address, lake_at  # noqa: PLC0415 (with the tables half a second)

    lake = lake_at(home, settings)
    if lake is None:
        return {"": home}
    lake.secret()  # raises if it is missing or damaged
    logs = {log: lake.log_home(log) for log in lake.placement().logs}
    if not is_address(home):
        logs = {log: place for log, place in logs.items() if _is_home(Path(place))}
    if not logs:
        raise InvalidRequest(f"no log of the lake {home} was ever served: there is nothing to read")
    return logs


def _is_home(place: Path) -> bool:
    home = Home(place)
    return home.topic_log.is_dir() or home.journal_dir.is_dir()


def _parts(home: str, settings: Settings) -> "HomeParts":
    """Return the parts of a home to read. Raises InvalidRequest if it is no home."""
    from distributary.ingest.commit.table_location import (  # noqa: PLC0415 (with the tables half a second)
        is_address,
        object_home,
        table_store,
        table_url,
    )
    from distributary.pipeline.tables.verify import home_parts, verify_home  # noqa: PLC0415 (as above)

    if is_address(home):
        from distributary.pipeline.tables.verify import object_home_parts  # noqa: PLC0415 (with its client)

        at = object_home(home, settings)
        return object_home_parts.object_parts(at, table_url(at, settings))
    place = Home(Path(home))
    verify_home.check_is_home(place)
    return home_parts.disk_parts(place, table_store(place, settings))


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _report_as_json(report: "Report", cut: "Cut | None", *, repair: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "home": report.home,
        "version": report.version,
        "sound": report.sound,
        "checks": [asdict(check) for check in report.checks],
    }
    if repair:
        found["cut"] = None if cut is None else structs.asdict(cut) | {"path": str(cut.path)}
    return found
