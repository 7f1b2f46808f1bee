"""`python -m examples.demo`: the command of the demo."""

import sys
from pathlib import Path

import click

from distributary.ingest.cli.main import main
from examples.demo.demo import run


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    default="build/demo",
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
@click.option("--keep", is_flag=True, help="Add to what an earlier demo left in the home.")
@click.option("--stay", is_flag=True, help="Then leave gateway and console open, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="The numbers as JSON instead of tables.")
def demo(home: Path, flights: int, keep: bool, stay: bool, as_json: bool) -> None:
    """Publish a year of flights, deal them to four workers, kill one, ask Spark.

    \b
    Examples:
      python -m examples.demo
      python -m examples.demo --flights 20000 --json
      python -m examples.demo --stay

    Needs Java 17. Exit code 0: all numbers agree. 1: one is off, or something failed. 130:
    Ctrl-C, also after --stay.
    """
    sys.exit(run(home.absolute(), flights, keep=keep, as_json=as_json, stay=stay))


if __name__ == "__main__":
    main(demo)
