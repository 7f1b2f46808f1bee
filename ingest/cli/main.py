"""The command line: `distributary serve`, `verify`, `info`, `backup`, `restore`, `user`,
`subscription`, `queue`, `topic`, `top`, `console`, `publish`, `consume`, `peek`, `jobs`."""

import sys
import time
from pathlib import Path

import click

from distributary.ingest.cli.backup_commands import backup, restore
from distributary.ingest.cli.console_command import console
from distributary.ingest.cli.doctor_command import doctor
from distributary.ingest.cli.inspect_commands import info, verify
from distributary.ingest.cli.job_commands import jobs
from distributary.ingest.cli.messages.message_commands import consume, peek, publish
from distributary.ingest.cli.queue_commands import queue, topic
from distributary.ingest.cli.subscription_commands import subscription
from distributary.ingest.cli.users_commands import user
from distributary.ingest.cli.watching.top_command import top
from distributary.ingest.runtime import load_settings, memory
from distributary.ingest.runtime.logs import LineBudget, set_up
from distributary.pipeline.errors import DistributaryError, InvalidRequest, of_a_file
from distributary.pipeline.tables.home.home import Home

#: Exit codes that scripts can use.
FAILED, MISUSED = 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="distributary")
def cli() -> None:
    """Publish and subscribe over AMQP 1.0, kept in Delta Lake, read with Spark."""


@cli.command()
@click.option("--home", type=click.Path(path_type=Path), required=True, help="All that is kept.")
@click.option("--listen", help="HOST:PORT to listen on.  [default: 127.0.0.1:5672]")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file of settings.")
@click.option("--standby", is_flag=True, help="Wait until the home's owner has gone.")
@click.option("--json", "as_json", is_flag=True, help="Log one JSON object a line.")
@click.option("--verbose", is_flag=True, help="Log every commit and connection too.")
def serve(
    home: Path,
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
      distributary serve --home /mnt/shared/log --listen 0.0.0.0:5672 --standby

    It stops on SIGTERM or Ctrl-C with exit code 0, after all that was accepted is committed.
    Exit code 1: it could not go on (the log says why). 2: a setting or an argument is wrong.
    """
    memory.set_up()
    from distributary.ingest.gateway.serve import run  # noqa: PLC0415 (pyarrow and deltalake take half a second)

    settings = load_settings.load(config, flags={"gateway.listen": listen})
    lines = LineBudget(settings.log.lines_max, settings.log.window_ms / 1_000, time.monotonic)
    set_up(as_json=as_json, verbose=verbose, budget=lines)
    sys.exit(run(Home(home), settings, lines, standby=standby))


cli.add_command(doctor)
cli.add_command(verify)
cli.add_command(info)
cli.add_command(backup)
cli.add_command(restore)
cli.add_command(user)
cli.add_command(subscription)
cli.add_command(queue)
cli.add_command(topic)
cli.add_command(top)
cli.add_command(console)
cli.add_command(publish)
cli.add_command(consume)
cli.add_command(peek)
cli.add_command(jobs)


def main(command: click.Command = cli) -> None:
    """Run the command; errors that a person can mend are one sentence, without a traceback."""
    try:
        command()
    except InvalidRequest as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(MISUSED)
    except DistributaryError as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(FAILED)
    except OSError as error:
        if (said := of_a_file(error)) is None:
            raise
        click.echo(f"distributary: {said}", err=True)
        sys.exit(FAILED)
