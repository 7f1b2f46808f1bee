"""`distributary upgrade --check`: changes that this version would make to a home."""

import json
import sys
from dataclasses import asdict, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from distributary.ingest.cli.inspection.inspect_commands import served_logs
from distributary.ingest.cli.options.command_options import json_option
from distributary.ingest.runtime import load_settings
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tables.home.home import Home

if TYPE_CHECKING:
    from distributary.pipeline.tables.verify.home_formats import (
        HomeFormats,
        PartFormat,
        SparkFormat,
    )

_path = click.Path(path_type=Path)
#: Exit codes that scripts can use, beside 2 of a command line that can't be.
SAME, REFUSED, CHANGES = 0, 1, 3
_COLOURS: Final = {"same": "green", "changes": "yellow", "refused": "red", "unseen": "yellow"}


@click.command()
@click.option("--home", required=True, help="The gateway's folder, or its address.")
@click.option("--check", is_flag=True, help="Look, and do nothing.")
@click.option("--config", type=_path, help="The gateway's settings: whether they can be used, too.")
@json_option
def upgrade(home: str, check: bool, config: Path | None, as_json: bool) -> None:
    """Show a home's formats, and the changes that a start of this version would make.

    \b
    Examples:
      distributary upgrade --check --home ~/orders
      distributary upgrade --check --home ~/orders --config gateway.toml --json

    It may run beside the gateway, of whatever version, and writes nothing. There is no other
    upgrade than a start of the new version. Of a lake each log that was served is looked at.
    Exit code 0: the start changes no format, and there is a way back. 3: it opens the home, and
    versions of before refuse it afterwards: make a backup first. 1: this version can't open it, or
    a log of it, or it can't be read. 2: the command line can't be, or that is no gateway's home.
    """
    if not check:
        raise InvalidRequest(
            "a home is upgraded by the next start of the gateway; "
            "`distributary upgrade --check` says before what that would change"
        )
    settings = load_settings.load(config, flags={})
    found = {log: _formats(place, settings) for log, place in served_logs(home, settings).items()}
    if config is not None:
        said = _of_settings(config, settings)
        found = {log: replace(one, parts=(*one.parts, said)) for log, one in found.items()}
    if as_json:
        logs = {log: _as_json(one) for log, one in found.items()}
        click.echo(json.dumps(logs.get("", {"home": home, "logs": logs}), indent=2))
    else:
        for log, one in found.items():
            _show(one, log)
    opens = all(one.opens for one in found.values())
    rollback = all(one.rollback for one in found.values())
    sys.exit(REFUSED if not opens else SAME if rollback else CHANGES)


def _formats(home: str, settings: Settings) -> "HomeFormats":
    from distributary.ingest.commit.table_location import (  # noqa: PLC0415 (with the tables half a second)
        is_address,
        object_home,
        table_store,
        table_url,
    )
    from distributary.pipeline.tables.verify import home_formats  # noqa: PLC0415 (as above)

    if not is_address(home):
        at = Home(Path(home))
        return home_formats.look(at, table_store(at, settings), _spark())
    from distributary.pipeline.tables.delta.object_store import ObjectStore  # noqa: PLC0415 (most homes need none)

    place = object_home(home, settings)
    log = ObjectStore(table_url(place, settings), place.options)
    return home_formats.look_at_store(place, log, _spark())


def _spark() -> "dict[str, SparkFormat] | None":
    if find_spec("pyspark") is None:
        return None
    from distributary.jobs.tables.spark_tables import formats  # noqa: PLC0415 (pyspark takes a second)

    return formats()


def _of_settings(config: Path, settings: Settings) -> "PartFormat":
    """Check that the files that the settings name can be used, read as a start reads them."""
    from distributary.ingest.runtime.policies import policies_written  # noqa: PLC0415 (as in `upgrade`)
    from distributary.ingest.security.access import AccessFiles  # noqa: PLC0415 (as above)
    from distributary.pipeline.tables.verify.home_formats import Fate, PartFormat  # noqa: PLC0415 (as above)

    try:
        AccessFiles(settings)
        policies_written(settings)
    except InvalidRequest as error:
        return PartFormat("settings", "", "", Fate.REFUSED, str(error))
    return PartFormat("settings", "", "", Fate.SAME, f"{config} and the files it names can be used")


def _as_json(found: "HomeFormats") -> dict[str, object]:
    return {
        "home": str(found.home),
        "version": version("distributary"),
        "opens": found.opens,
        "changes": found.changes,
        "rollback": found.rollback,
        "parts": [asdict(part) for part in found.parts],
    }


def _show(found: "HomeFormats", log: str) -> None:
    """Print a line for each part, then the conclusion; of a lake the log first."""
    if log:
        click.echo(f"log {log}:")
    for part in found.parts:
        fate = click.style(f"{part.fate.value:8}", fg=_COLOURS[part.fate])
        other = f"; this version writes {part.ours}" if part.found not in ("", part.ours) else ""
        click.echo(f"{fate} {part.part:14} {part.found or '-'}{other}: {part.sentence}.")
    this = f"distributary {version('distributary')}"
    if not found.opens:
        click.echo(f"{this} doesn't open {found.home}, and changes nothing of it.")
    elif found.rollback:
        click.echo(f"{this} opens {found.home} as it is; the version of before can go on with it.")
    else:
        click.echo(
            f"{this} opens {found.home} and changes {', '.join(found.changes)}: there is no way "
            "back but a backup. Make one first (`distributary backup`)."
        )
