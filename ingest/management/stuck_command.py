"""`distributary subscription stuck`: what the tables and a running gateway say together."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ingest.management.options import connected, json_option, print_json
from ingest.management.show import STUCK, show_rows

if TYPE_CHECKING:
    from jobs.gateway import Client


@click.command()
@click.argument("id_", metavar="ID")
@click.option(
    "--home",
    "place",
    type=click.Path(path_type=Path),
    required=True,
    help="Home of the gateway, or the folder of Spark's tables.",
)
@json_option
@connected
def stuck(client: "Client", id_: str, place: Path, as_json: bool) -> None:
    """Say why its messages are still owed: in flight, delayed, nobody connected, ...

    \b
    Examples:
      distributary subscription stuck global/billing --home ~/orders
      distributary subscription stuck billing --home ~/orders --json

    The tables are as new as the last run of `distributary jobs materialize`; what the gateway has
    beyond them is a line of its own.
    """
    from jobs.live import ask  # noqa: PLC0415 (Spark takes a while)
    from jobs.options import in_a_sentence  # noqa: PLC0415
    from jobs.session import session  # noqa: PLC0415
    from jobs.views import summary  # noqa: PLC0415

    said = ask(client, id_)
    [one] = said.subscriptions
    with in_a_sentence():
        found = summary(session(), str(place.absolute()), said, one.subscription)
        rows = [asdict(row) for row in found]
    if as_json:
        print_json(rows)
    else:
        show_rows(STUCK, rows, "messages that are owed")
