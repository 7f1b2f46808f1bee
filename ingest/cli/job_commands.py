"""`distributary jobs NAME ...`: each job is a module of `jobs` with a `main(argv)`.

A module is imported when its job is run: pyspark takes a second.
"""

import sys
from importlib import import_module
from types import ModuleType

import click

from distributary.jobs.session.job_names import JOBS, module
from distributary.pipeline.errors import InvalidRequest

#: Packages of the extra `spark`, which a gateway alone hasn't.
OF_SPARK = frozenset({"delta", "jgo", "pandas", "py4j", "pyspark"})

#: The job itself reads its arguments, `--help` too.
_PASSED_ON = {"ignore_unknown_options": True, "help_option_names": []}


def _imported(name: str) -> ModuleType:
    try:
        return import_module(module(name))
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in OF_SPARK:
            raise
        raise InvalidRequest(
            f"`jobs {name}` needs Spark: pip install 'distributary[spark]'"
        ) from error


def _command(name: str, says: str) -> click.Command:
    def run(arguments: tuple[str, ...]) -> None:
        sys.exit(_imported(name).main(list(arguments)))

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
