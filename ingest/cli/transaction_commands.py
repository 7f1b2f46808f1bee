"""`distributary transaction`: transactions of a running gateway that wait for their end."""

from typing import TYPE_CHECKING

import click

from distributary.ingest.cli.answer_tables import TRANSACTIONS, print_listed
from distributary.ingest.cli.options.command_options import (
    connected,
    json_option,
    print_json,
    sure,
    yes_option,
)
from distributary.pipeline.management.management_messages import Entity, Verb

if TYPE_CHECKING:
    from distributary.jobs.client.management_client import Client

_id = click.argument("id_", metavar="ID")
_force = click.option(
    "--force", is_flag=True, help="Even if another user's transaction manager or log is to end it."
)
_of = click.option("--of", default="", help="Its user, if several users have this ID.")


@click.group()
def transaction() -> None:
    """List and end prepared transactions.

    \b
    ID is FORMAT:GTRID:BQUAL, the last two in hexadecimal, as `list` shows it.
    Examples:
      distributary transaction list
      distributary transaction commit 131077:0a1b:01

    A prepared transaction waits for its transaction manager without a limit. End it here only if
    the manager is gone: it may have decided otherwise.
    Exit codes as of `distributary subscription`.
    """


@transaction.command(name="list")
@json_option
@connected
def list_(client: "Client", as_json: bool) -> None:
    """List those that you prepared, and those about topics that you may manage.

    Those over several logs that are decided are there until each log has them; you see yours, and
    all of them if you may manage every topic and queue.

    \b
    Example:
      distributary transaction list --json
    """
    listed = client.listed(Entity.TRANSACTION)
    print_listed(TRANSACTIONS, listed, "transactions that wait", as_json=as_json)


@transaction.command()
@_id
@_force
@_of
@yes_option
@json_option
@connected
def commit(client: "Client", id_: str, force: bool, of: str, yes: bool, as_json: bool) -> None:
    """Commit one.

    One that is `decided` is committed already, but in the logs that it waits for: with --force it
    waits for them no more. Do that if they are lost for good.

    \b
    Examples:
      distributary transaction commit 131077:0a1b:01 --yes
      distributary transaction commit 1147761524:4af1: --force
    """
    _end(client, Verb.COMMIT, id_, _said(force, of), yes=yes, as_json=as_json)


@transaction.command()
@_id
@_force
@_of
@yes_option
@json_option
@connected
def rollback(client: "Client", id_: str, force: bool, of: str, yes: bool, as_json: bool) -> None:
    """Roll one back: what it took comes again.

    \b
    Example:
      distributary transaction rollback 131077:0a1b:01 --force --yes
    """
    _end(client, Verb.ROLLBACK, id_, _said(force, of), yes=yes, as_json=as_json)


def _said(force: bool, of: str) -> dict[str, object]:
    return ({"force": True} if force else {}) | ({"user": of} if of else {})


def _end(
    client: "Client", verb: Verb, id_: str, said: dict[str, object], *, yes: bool, as_json: bool
) -> None:
    sure(f"{verb.value} {id_}, whatever its transaction manager has decided?", yes=yes)
    done = client.ask(verb, Entity.TRANSACTION, id_, said)
    if as_json:
        print_json(done)
    else:
        click.echo(done["said"])
