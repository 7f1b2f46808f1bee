"""The command line: `distributary serve`, `doctor`, `verify`, `info`, `backup`, `restore`,
`upgrade`, `user`, `subscription`, `queue`, `topic`, `log`, `transaction`, `schema`, `top`,
`console`, `publish`, `consume`, `peek`, `jobs`."""

import sys
from importlib import import_module
from typing import Final

import click

from distributary.pipeline.errors import DistributaryError, InvalidRequest, of_a_file, of_room

#: Exit codes that scripts can use.
FAILED, MISUSED = 1, 2
#: The module of each command, below this room.
COMMANDS: Final = {
    "serve": "serve_command",
    "doctor": "inspection.doctor_command",
    "verify": "inspection.inspect_commands",
    "info": "inspection.inspect_commands",
    "backup": "backup_commands",
    "restore": "backup_commands",
    "upgrade": "inspection.upgrade_command",
    "user": "users_commands",
    "subscription": "subscription_commands",
    "queue": "queue_commands",
    "topic": "queue_commands",
    "log": "log_commands",
    "transaction": "transaction_commands",
    "schema": "schemas.schema_commands",
    "top": "watching.top_command",
    "console": "console_command",
    "publish": "messages.message_commands",
    "consume": "messages.message_commands",
    "peek": "messages.message_commands",
    "jobs": "job_commands",
}


class _Commands(click.Group):
    """Commands, each imported when it is used: none waits for imports of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's)
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's)
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(
            import_module(f"distributary.ingest.cli.{COMMANDS[cmd_name]}"), cmd_name
        )
        return found


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="distributary")
def cli() -> None:
    """Publish and subscribe over AMQP 1.0, kept in Delta Lake, read with Spark."""


def main(command: click.Command = cli) -> None:
    """Run the command; errors that a user can correct are one sentence, without a traceback."""
    try:
        command()
    except InvalidRequest as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(MISUSED)
    except DistributaryError as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(FAILED)
    except OSError as error:
        if (said := of_a_file(error) or of_room(error)) is None:
            raise
        click.echo(f"distributary: {said}", err=True)
        sys.exit(FAILED)
