"""`distributary doctor`: checks that a gateway can work well on this machine."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import click

from distributary.ingest.checkup import disk_trial, machine_look
from distributary.ingest.cli.options.command_options import json_option
from distributary.ingest.commit.table_location import (
    is_address,
    lake_at,
    object_home,
    table_url,
)
from distributary.ingest.gateway.descriptors import OWN_DESCRIPTORS
from distributary.ingest.runtime import load_settings
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.checkup import findings
from distributary.pipeline.checkup.findings import Finding, HomeState, Verdict
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.tables.home.home import Home

_path = click.Path(path_type=Path)
_COLOURS = {Verdict.GOOD: "green", Verdict.LOOK: "yellow", Verdict.BAD: "red"}
#: Packages whose versions are printed; those of extras where they are installed.
PACKAGES = (
    *("distributary", "python-qpid-proton", "deltalake", "pyarrow"),
    *("pyspark", "delta-spark", "starlette", "opentelemetry-sdk"),
)


@click.command()
@click.option("--home", help="The gateway's folder or address, or the one that it will have.")
@click.option("--config", type=_path, help="The gateway's settings.")
@click.option("--listen", metavar="HOST:PORT", help="As for serve.")
@json_option
def doctor(home: str | None, config: Path | None, listen: str | None, as_json: bool) -> None:
    """Check that a gateway can work well on this machine, and report in sentences.

    \b
    Examples:
      distributary doctor --home ~/orders
      distributary doctor --home ~/orders --config orders.toml --json
      distributary doctor --home s3://bucket/orders

    It may run beside the gateway. The disk is tried with 32 MiB in a folder of its own, which is
    removed; a store with puts of 4 KiB under a name of their own.
    Exit code 0: nothing is bad. 1: something is. 2: the command line can't be.
    """
    found = list(_findings(home, config, listen))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    else:
        for one in found:
            verdict = click.style(f"{one.verdict.value:5}", fg=_COLOURS[one.verdict])
            click.echo(f"{verdict} {one.subject:14} {one.sentence}")
    sys.exit(int(findings.worst(found) is Verdict.BAD))


def _findings(home: str | None, config: Path | None, listen: str | None) -> Iterator[Finding]:
    yield Finding("versions", Verdict.GOOD, f"{_versions()}.")
    try:
        settings = load_settings.load(config, flags={"gateway.listen": listen})
    except InvalidRequest as error:
        yield Finding("settings", Verdict.BAD, f"{error}.")
        settings = load_settings.load(None, {})
    else:
        shown = "The defaults" if config is None else str(config)
        yield Finding("settings", Verdict.GOOD, f"{shown} can be used.")
    owner = 0
    if home is not None and is_address(home):
        yield from _of_store(home, settings)
    elif home is not None:
        facts = machine_look.home(Home(Path(home)))
        owner = facts.owner
        yield from findings.of_home(facts)
        if facts.state is not HomeState.UNUSABLE:
            yield from _of_disk(Home(Path(home)), settings)
        yield from _of_lake(Path(home))
    yield from findings.of_limits(machine_look.limits(settings, OWN_DESCRIPTORS))
    yield findings.of_clock(machine_look.clock_synchronised())
    for name in ("gateway.listen", "http.listen"):
        section = settings.gateway if name == "gateway.listen" else settings.http
        if section.listen:
            yield findings.of_port(machine_look.port(name, *section.address), owner)
    for file in (settings.security.users, settings.security.permissions):
        if file:
            yield findings.of_secret(file, machine_look.open_to_others(Path(file)))
    yield _of_java()


def _of_store(address: str, settings: Settings) -> Iterator[Finding]:
    """Yield findings on a home without a disk; of a lake on each log."""
    from distributary.ingest.checkup.store_look import store_facts  # noqa: PLC0415 (most homes need none)

    lease = settings.owner.lease_ms / 1_000
    try:
        lake = lake_at(address, settings)
        homes = [address] if lake is None else [*map(lake.log_home, lake.placement().logs)]
    except StoreError as error:
        yield Finding("store", Verdict.BAD, f"{error}.")
        return
    for one in homes:
        home = object_home(one, settings)
        yield from findings.of_store(store_facts(home, table_url(home, settings), lease))


def _of_disk(home: Home, settings: Settings) -> Iterator[Finding]:
    needed = settings.journal.backlog_bytes_max + settings.journal.waiting_bytes_max
    try:
        disk = disk_trial.tried(machine_look.first_there(home.root))
    except OSError as error:
        why = error.strerror or str(error)
        yield Finding("disk", Verdict.BAD, f"It can't be written: {why}. See to room and rights.")
        return
    yield from findings.of_disk(disk, needed)


def _of_lake(home: Path) -> Iterator[Finding]:
    """Yield findings on the files that a home with several logs has beside them."""
    from distributary.pipeline.tables.lake.disk_lake import disk_lake  # noqa: PLC0415 (most homes have one log)
    from distributary.pipeline.tables.lake.lake import SECRET  # noqa: PLC0415 (as above)

    try:
        lake = disk_lake(home)
        logs = () if lake is None else lake.placement().logs
    except StoreError as error:
        yield Finding("lake", Verdict.BAD, f"{error}.")
        return
    if lake is not None:
        homes = {log: machine_look.home(Home(Path(lake.log_home(log)))) for log in logs}
        yield from (
            findings.of_restoring(one.path)
            for log, one in homes.items()
            if one.state is HomeState.RESTORING and log != MAIN  # `main` is the home itself
        )
        owners = {log: one.owner for log, one in homes.items()}
        secret = home / SECRET
        yield from findings.of_lake(owners, str(secret), machine_look.open_to_others(secret))


def _of_java() -> Finding:
    if find_spec("pyspark") is None:
        return findings.of_java(spark=False, version=None)
    from distributary.jobs.session.session import java_version  # noqa: PLC0415 (pyspark takes a second)

    return findings.of_java(spark=True, version=java_version(os.environ))


def _versions() -> str:
    said = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            said.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(said)
