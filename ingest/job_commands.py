"""`distributary jobs NAME ...`: each job is a module of `jobs` with a `main(argv)`.

A module is imported when its job is run: pyspark takes a second.
"""

import sys
from importlib import import_module

import click

from jobs.names import JOBS, module

#: The job itself reads its arguments, `--help` too.
_PASSED_ON = {"ignore_unknown_options": True, "help_option_names": []}


def _command(name: str, says: str) -> click.Command:
    def run(arguments: tuple[str, ...]) -> None:
        sys.exit(import_module(module(name)).main(list(arguments)))

    return click.Command(
        name,
        callback=run,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        help=says,
        context_settings=_PASSED_ON,
        add_help_option=False,
    )


jobs = click.Group(
    "jobs",
    commands=[_command(name, says) for name, says in JOBS.items()],
    help="""Spark jobs over a home's log and tables; `jobs NAME --help` tells more.

    \b
    Examples:
      distributary jobs materialize --home build/demo
      distributary jobs materialize --help
    """,
)
