"""`distributary serve`: the gateway."""

import sys
import time
from pathlib import Path

import click

from distributary.ingest.runtime import memory


@click.command()
@click.option("--home", required=True, help="All that is kept: a folder, or s3://bucket/prefix.")
@click.option(
    "--log",
    metavar="NAME",
    help="One log of a lake, `any` that has no owner, or `none`; see `distributary log`.  "
    "[default: main]",
)
@click.option("--listen", help="HOST:PORT to listen on.  [default: 127.0.0.1:5672]")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file of settings.")
@click.option("--standby", is_flag=True, help="Wait until the home's owner has gone.")
@click.option("--json", "as_json", is_flag=True, help="Log one JSON object a line.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Log every commit and connection too; SIGUSR1 turns it on and off.",
)
def serve(
    home: str,
    log: str | None,
    listen: str | None,
    config: Path | None,
    standby: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run the gateway.

    \b
    Examples:
      distributary serve --home ~/orders
      distributary serve --home /srv/log --listen 0.0.0.0:5672 --config gateway.toml
      distributary serve --home s3://bucket/log --standby
      distributary serve --home /mnt/shared/log --listen 0.0.0.0:5672 --standby
      distributary serve --home /mnt/shared/log --log orders --listen 10.0.0.7:5672
      distributary serve --home /mnt/shared/log --log any --standby --listen 10.0.0.8:5672
      distributary serve --home /mnt/shared/log --log none --listen 10.0.0.9:5672

    It stops on SIGTERM or Ctrl-C with exit code 0, after all that was accepted is committed.
    Exit code 1: it could not go on (the log says why). 2: a setting or an argument is wrong.
    """
    memory.set_up()
    from distributary.ingest.gateway.homes import ServedLog  # noqa: PLC0415 (as below)
    from distributary.ingest.gateway.serve import run  # noqa: PLC0415 (what it needs is set up now)
    from distributary.ingest.runtime import load_settings  # noqa: PLC0415 (as above)
    from distributary.ingest.runtime.logs import LineBudget, set_up  # noqa: PLC0415 (as above)

    settings = load_settings.load(config, flags={"gateway.listen": listen})
    window = settings.log.window_ms / 1_000
    lines = LineBudget(settings.log.lines_max, window, time.monotonic, verbose=verbose)
    set_up(as_json=as_json, budget=lines, file=settings.log.file)
    sys.exit(run(ServedLog.asked(home, log), settings, lines, standby=standby))
