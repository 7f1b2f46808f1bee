"""`distributary subscription stuck`: reasons by the tables and a running gateway together."""

from dataclasses import asdict
from pathlib import Path

import click

from distributary.ingest.cli.answer_tables import STUCK, print_rows
from distributary.ingest.cli.options.command_options import asking, json_option
from distributary.jobs.cli.gateway_options import GatewayFactory, gateway_options
from distributary.jobs.tables.folders import require_tables


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
@gateway_options
def stuck(gateway: GatewayFactory, id_: str, place: Path, as_json: bool) -> None:
    """Say why its messages are still owed: in flight, delayed, no consumer, ...

    \b
    Examples:
      distributary subscription stuck global/billing --home ~/orders
      distributary subscription stuck global/billing --home ~/orders --json

    The tables are as new as the last run of `distributary jobs materialize`; what the gateway has
    beyond them is a line of its own.
    """
    from distributary.jobs.client.live_client import ask  # noqa: PLC0415 (Spark takes a while)
    from distributary.jobs.session.job_options import in_a_sentence  # noqa: PLC0415
    from distributary.jobs.session.session import session  # noqa: PLC0415
    from distributary.jobs.views.notebook_views import summary  # noqa: PLC0415

    require_tables(str(place))
    with asking(gateway()) as client:
        said = ask(client, id_)
    [one] = said.subscriptions
    with in_a_sentence():
        found = summary(session(), str(place.absolute()), said, one.subscription)
        rows = [asdict(row) for row in found]
    print_rows(STUCK, rows, "messages that are owed", as_json=as_json)
