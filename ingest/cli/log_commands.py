"""`distributary log`: the logs of a lake, and the placement of topics in them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from distributary.ingest.cli.options.command_options import REFUSED, json_option
from distributary.ingest.runtime import load_settings
from distributary.pipeline.errors import InvalidRequest, MoveRefused, PlacementRefused

if TYPE_CHECKING:
    from distributary.ingest.runtime.settings import Settings
    from distributary.pipeline.lake.placement import Placement
    from distributary.pipeline.tables.lake.lake import Lake, OwnerAddress

_home = click.option(
    "--home", required=True, help="The whole home: a folder, or s3://bucket/prefix."
)
_config = click.option(
    "--config", type=click.Path(path_type=Path), help="The gateways' settings: store, limits."
)


@click.group()
def log() -> None:
    """List and make the logs of a home, place topics in them, and move them to other machines.

    \b
    Examples:
      distributary log create orders --home /srv/log
      distributary log place 'orders.#' orders --home /srv/log
      distributary log move orders machine-b --home /srv/log
      distributary serve --home /srv/log --log orders --listen 10.0.0.7:5672

    A home has the log `main`; with another one it is a lake. Each log has a gateway of its own,
    and any of them serves any client.
    Exit code 0: done. 1: a disk, a store or a table can't be read or written. 2: the command line
    can't be. 4: not now: a gateway runs, a log has a topic that would be placed elsewhere, or
    no gateway stands by where a log is to move.
    """


@log.command(name="list")
@_home
@_config
@json_option
def list_logs(home: str, config: Path | None, as_json: bool) -> None:
    """List the logs, the addresses of their owners, the standbys, and the rules for topics.

    \b
    Examples:
      distributary log list --home /srv/log
      distributary log list --home s3://bucket/log --json

    It may run beside the gateways. Where an owner listened last is shown also when it has ended;
    its machine only while it lives. A gateway that was killed is shown for some seconds more.
    """
    settings = load_settings.load(config, flags={})
    _show(_lake(home, settings), as_json=as_json)


@log.command()
@click.argument("name")
@_home
@_config
@json_option
def create(name: str, home: str, config: Path | None, as_json: bool) -> None:
    """Make a log; a home with one log becomes a lake by it.

    \b
    Example:
      distributary log create orders --home /srv/log

    Nothing is placed in it yet. It may run beside gateways: they know the log when they are
    started again.
    """
    from distributary.ingest.commit.table_location import lake_at, new_lake  # noqa: PLC0415 (with the tables half a second)
    from distributary.ingest.gateway.lake_member import part_of  # noqa: PLC0415 (as above)
    from distributary.pipeline.lake.placement import ONE_LOG, with_log  # noqa: PLC0415 (as above)

    settings = load_settings.load(config, flags={})
    part = part_of(home, settings)
    if part is not None:
        whole, log_of_it = part
        raise InvalidRequest(
            f"{home} is the log {log_of_it} of the lake {whole}: make logs by --home {whole}"
        )
    lake = lake_at(home, settings)
    seen = None if lake is None else lake.placement()
    new = with_log(seen or ONE_LOG, name)
    if len(new.logs) > settings.fleet.logs_max:
        most = settings.fleet.logs_max
        raise InvalidRequest(
            f"{home} has {len(new.logs) - 1} logs, and {most} are the most (fleet.logs_max)"
        )
    lake = lake or new_lake(home, settings)
    lake.replace(seen, new)
    _show(lake, as_json=as_json)


@log.command()
@click.argument("pattern")
@click.argument("logs", nargs=-1, metavar="LOG...")
@click.option("--before", metavar="PATTERN", help="Put the rule before the one of this pattern.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Divide each topic over N of the logs, by the group-id or message-id of its messages.",
)
@click.option("--remove", is_flag=True, help="Take the rule of the pattern away.")
@_home
@_config
@json_option
def place(
    pattern: str,
    logs: tuple[str, ...],
    before: str | None,
    partitions: int | None,
    remove: bool,
    home: str,
    config: Path | None,
    as_json: bool,
) -> None:
    """Place the topics of a pattern in a log, or spread them over several by a hash of their names.

    \b
    Examples:
      distributary log place 'orders.#' orders --home /srv/log
      distributary log place 'queue://work.*' main orders prices --home /srv/log
      distributary log place 'queue://hot' main orders prices --partitions 3 --home /srv/log
      distributary log place orders.urgent main --before 'orders.#' --home /srv/log
      distributary log place 'orders.#' --remove --home /srv/log

    The first rule whose pattern matches a topic says its log; without one it is main. Patterns
    have * for a word and # for any number of words, whatever style consumers use. With
    --partitions each topic is in several logs at once, and a message in one of them.
    Stop all gateways of the lake first. No topic moves: a rule is refused that would place a topic
    elsewhere which has messages, a subscription or a schema.
    """
    from distributary.ingest.placing import topic_placing  # noqa: PLC0415 (with the tables half a second)

    settings = load_settings.load(config, flags={})
    change = (
        _removed(pattern, logs, before, partitions)
        if remove
        else _placed(pattern, logs, before, partitions or 1, settings)
    )
    lake = _lake(home, settings)
    with _refusing():
        topic_placing.place(lake, settings, change)
    _show(lake, as_json=as_json)


@log.command()
@click.argument("name", metavar="LOG")
@click.argument("to", metavar="MACHINE_OR_ADDRESS")
@_home
@_config
@json_option
def move(name: str, to: str, home: str, config: Path | None, as_json: bool) -> None:
    """Have a log's owner hand it over to the gateway that stands by for it there.

    \b
    Examples:
      distributary log move orders machine-b --home /srv/log
      distributary log move orders 10.0.0.9:5672 --home s3://bucket/log

    `distributary log list` shows the standbys. Clients of the owner connect anew; links through
    other gateways pause for less than a second. The former owner stands by from then on.
    If the gateway there isn't ready in time, the owner serves on and this ends with exit code 4.
    """
    from distributary.ingest.fleet import asked_moves  # noqa: PLC0415 (with the tables half a second)

    settings = load_settings.load(config, flags={})
    lake = _lake(home, settings)
    with _refusing():
        done = asked_moves.move(lake, name, to)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(done), indent=2).decode())
    else:
        click.echo(f"{name} is at {done.url} on {done.machine}")


def _removed(
    pattern: str, logs: tuple[str, ...], before: str | None, partitions: int | None
) -> "Callable[[Placement], Placement]":
    """Return the removal of a rule. Raises InvalidRequest for options that don't fit it."""
    from distributary.pipeline.lake.placement import without_rule  # noqa: PLC0415 (as above)

    if logs or before is not None or partitions is not None:
        raise InvalidRequest(
            "--remove takes a pattern alone: without a log, --before and --partitions"
        )
    return lambda placement: without_rule(placement, pattern)


def _placed(
    pattern: str,
    logs: tuple[str, ...],
    before: str | None,
    partitions: int,
    settings: "Settings",
) -> "Callable[[Placement], Placement]":
    """Return the change that makes or replaces a rule. Raises InvalidRequest without logs."""
    from distributary.pipeline.lake.placement import with_rule  # noqa: PLC0415 (as above)

    if not logs:
        raise InvalidRequest(f"name the log of {pattern}, or give --remove")

    def changed(placement: "Placement") -> "Placement":
        new = with_rule(placement, pattern, logs, before, partitions)
        most = settings.fleet.rules_max
        if len(new.rules) > most:
            raise InvalidRequest(f"there may be {most} rules at most (fleet.rules_max)")
        return new

    return changed


@contextmanager
def _refusing() -> Iterator[None]:
    """End a refused command with an exit code of its own."""
    try:
        yield
    except (PlacementRefused, MoveRefused) as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(REFUSED)


def _lake(home: str, settings: "Settings") -> "Lake":
    """Return the lake at the address. Raises InvalidRequest where there is no home, or one with one
    log alone."""
    from distributary.ingest.commit.table_location import is_address, lake_at  # noqa: PLC0415 (with the tables half a second)

    found = lake_at(home, settings)
    if found is None and not is_address(home) and not Path(home).is_dir():
        raise InvalidRequest(
            f"{home} is no folder: there are no logs. `distributary log create NAME --home {home}` "
            "makes a new home, with the logs main and NAME"
        )
    if found is None:
        raise InvalidRequest(
            f"{home} has one log alone, main: it is no lake. `distributary log create NAME --home "
            f"{home}` makes another log"
        )
    return found


def _show(lake: "Lake", *, as_json: bool) -> None:
    """Print the logs and the rules."""
    from distributary.ingest.fleet.asked_moves import living  # noqa: PLC0415 (as above)

    placement, members = lake.placement(), living(lake)
    rows = [
        _Row(
            log,
            lake.log_home(log),
            lake.address_of(log),
            next((one.machine for one in members if one.log == log), None),
            [_Gateway(one.machine, one.url) for one in members if log in one.waits],
        )
        for log in placement.logs
    ]
    relays = [_Gateway(one.machine, one.url) for one in members if not one.log and not one.waits]
    if as_json:
        found = {
            "home": lake.address,
            "version": placement.version,
            "logs": rows,
            "relays": relays,
            "rules": placement.rules,
            "move": lake.move(),
        }
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    width = max(len(log) for log in placement.logs)
    for row in rows:
        where = "never served" if row.owner is None else row.owner.url
        where += f" on {row.machine}" if row.machine is not None else ""
        click.echo(f"{row.log:{width}}  {row.home}  {where}{_listed(', standby', row.standbys)}")
    for relay in relays:
        click.echo(f"no log{_listed('', [relay])}")
    for rule in placement.rules:
        parts = f", {rule.partitions} partitions each" * (rule.partitions > 1)
        click.echo(f"{rule.pattern} -> {', '.join(rule.logs)}{parts}")
    click.echo("all else -> main" if placement.rules else "all topics -> main")


def _listed(what: str, gateways: "list[_Gateway]") -> str:
    return "".join(f"{what} {one.url} on {one.machine}" for one in gateways)


class _Gateway(msgspec.Struct, frozen=True):
    """A gateway, as it is printed."""

    machine: str
    url: str


class _Row(msgspec.Struct, frozen=True):
    """A log, as it is printed; `machine`: its owner's while the owner lives."""

    log: str
    home: str
    owner: "OwnerAddress | None"
    machine: str | None
    standbys: list[_Gateway]
