"""`python -m examples.fleet`: the command."""

import sys
from pathlib import Path

import click

from distributary.ingest.cli.main import main
from examples.fleet.fleet import run


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    default="build/fleet",
    show_default=True,
    help="Where it happens.",
)
@click.option(
    "--flights",
    type=click.IntRange(1_000, 336_776),
    default=336_776,
    show_default=True,
    help="How many are published.",
)
@click.option("--json", "as_json", is_flag=True, help="The numbers as JSON.")
def fleet(home: Path, flights: int, as_json: bool) -> None:
    """Publish a year of flights through one gateway, deal them to workers of two others' logs, kill
    the gateway that owns the flights' log half way, ask Spark.

    \b
    Examples:
      python -m examples.fleet
      python -m examples.fleet --flights 20000 --json

    Needs Java 17. Exit code 0: all numbers agree. 1: one is off, or something failed. 130: Ctrl-C.
    """
    sys.exit(run(home.absolute(), flights, as_json=as_json))


if __name__ == "__main__":
    main(fleet)
