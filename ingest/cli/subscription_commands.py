"""`distributary subscription`: durable subscriptions of a running gateway."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.ingest.cli.answer_tables import SUBSCRIPTIONS, print_listed, show_row
from distributary.ingest.cli.options.command_options import (
    asking,
    connected,
    json_option,
    policy_of,
    print_json,
    sure,
    yes_option,
)
from distributary.ingest.cli.stuck_command import stuck
from distributary.jobs.cli.gateway_options import GatewayFactory, gateway_options
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.tables.home.home import Home

if TYPE_CHECKING:
    from distributary.jobs.client.management_client import Client

_SUBSCRIPTION = Entity.SUBSCRIPTION
_id = click.argument("id_", metavar="ID")


@click.group()
def subscription() -> None:
    """List, make, pause, rewind, redrive and end durable subscriptions.

    \b
    ID is global/NAME, container/CONTAINER/NAME or queue/NAME, as `list` shows it.
    Examples:
      distributary subscription list
      distributary subscription pause global/billing
      distributary subscription rewind global/billing --to 2h
      distributary subscription set queue/orders delivery_attempts_max=5 lock_ms=30000

    The gateway answers when what was asked is durable.
    Of a home with several logs any gateway answers for all of them.
    Exit code 0: done. 1: no gateway, or it failed, or a list is without a log that has no gateway.
    2: something can't be meant. 3: there is no such subscription. 4: it was refused.
    """


@subscription.command(name="list")
@click.option("--topic", help="Those of this topic or queue (queue://NAME) alone.")
@json_option
@connected
def list_(client: "Client", topic: str | None, as_json: bool) -> None:
    """List all durable subscriptions, queues among them.

    \b
    Examples:
      distributary subscription list
      distributary subscription list --topic orders --json
    """
    listed = client.listed(_SUBSCRIPTION)
    if topic is not None:
        listed.rows[:] = [row for row in listed.rows if row["topic"] == topic]
    print_listed(SUBSCRIPTIONS, listed, "subscriptions", as_json=as_json)


@subscription.command()
@_id
@json_option
@connected
def show(client: "Client", id_: str, as_json: bool) -> None:
    """Show one: its consumers, its position, its policy.

    \b
    Example:
      distributary subscription show global/billing
    """
    row = client.ask(Verb.READ, _SUBSCRIPTION, id_)
    row.pop("said")
    if as_json:
        print_json(row)
    else:
        show_row(row)


@subscription.command()
@_id
@click.option("--topic", required=True, help="Its topic or pattern.")
@click.option("--selector", help="Messages that match this alone.")
@click.option("--shared/--exclusive", default=None, help="Several consumers at once.")
@click.option("--no-local", is_flag=True, help="Not the messages of its own container.")
@click.option("--policy", multiple=True, metavar="KEY=VALUE", help="A policy of its own.")
@click.option("--since", help="Also what was published since: a sequence, a time, how long ago.")
@click.option(
    "--from-what-is-there", is_flag=True, help="Or since the log's begin, if that's later."
)
@connected
def create(
    client: "Client",
    id_: str,
    topic: str,
    selector: str | None,
    shared: bool | None,
    no_local: bool,
    policy: tuple[str, ...],
    since: str | None,
    from_what_is_there: bool,
) -> None:
    """Make one before any consumer comes: it keeps messages published from now on, and with --since
    earlier ones, as far as the log has them.

    \b
    Examples:
      distributary subscription create global/billing --topic orders
      distributary subscription create container/audit/all --topic orders --selector "total > 100"
      distributary subscription create global/again --topic orders --since 2026-11-01

    A global one is shared and a container's is exclusive, unless you say otherwise.
    """
    attributes = {
        "topic": topic,
        "selector": selector,
        "shared": shared,
        "no_local": no_local or None,
        "policy": policy_of(policy) or None,
        "since": since,
        "from_what_is_there": from_what_is_there or None,
    }
    click.echo(client.ask(Verb.CREATE, _SUBSCRIPTION, id_, attributes)["said"])


@subscription.command()
@_id
@connected
def pause(client: "Client", id_: str) -> None:
    """Deliver no messages until it is resumed; published ones wait.

    \b
    Example:
      distributary subscription pause global/billing
    """
    click.echo(client.ask(Verb.PAUSE, _SUBSCRIPTION, id_)["said"])


@subscription.command()
@_id
@connected
def resume(client: "Client", id_: str) -> None:
    """Deliver again.

    \b
    Example:
      distributary subscription resume global/billing
    """
    click.echo(client.ask(Verb.RESUME, _SUBSCRIPTION, id_)["said"])


@subscription.command()
@_id
@yes_option
@connected
def purge(client: "Client", id_: str, yes: bool) -> None:
    """Drop its backlog, with the messages that consumers hold.

    \b
    Example:
      distributary subscription purge queue/orders --yes

    Dropped messages stay in the log as long as all others; `rewind` brings them back.
    """
    sure(f"Drop all that {id_} is owed?", yes=yes)
    click.echo(client.ask(Verb.PURGE, _SUBSCRIPTION, id_)["said"])


@subscription.command()
@_id
@click.option("--to", required=True, help="A sequence, a time, how long ago, or now.")
@click.option("--dry-run", is_flag=True, help="Say by Spark's tables what it would bring.")
@click.option("--home", type=click.Path(path_type=Path), help="Home of the tables, to say it by.")
@click.option("--tables", help="Folder of Spark's tables, instead of the home's.")
@json_option
@gateway_options
def rewind(
    gateway: GatewayFactory,
    id_: str,
    to: str,
    dry_run: bool,
    home: Path | None,
    tables: str | None,
    as_json: bool,
) -> None:
    """Owe it all messages from a place on, settled or not.

    \b
    Examples:
      distributary subscription rewind global/billing --to 2h
      distributary subscription rewind global/billing --to 2026-11-21T08:30:00Z
      distributary subscription rewind global/billing --to 120000
      distributary subscription rewind global/billing --to 2h --dry-run --home ~/orders

    Its consumers go on, and get messages again. Messages before that place aren't owed any more.
    With --dry-run no gateway is asked and nothing is done.
    """
    if dry_run:
        preview_rewind(home, tables, id_, to, as_json=as_json)
        return
    if home is not None or tables is not None:
        raise InvalidRequest("--home and --tables are what --dry-run looks at")
    with asking(gateway()) as client:
        done = client.ask(Verb.REWIND, _SUBSCRIPTION, id_, {"to": to})
    if as_json:
        print_json(done)
    else:
        click.echo(done["said"])


def preview_rewind(
    home: Path | None, tables: str | None, id_: str, to: str, *, as_json: bool
) -> None:
    """Print the messages that a rewind would bring. Raises InvalidRequest without a place of
    tables."""
    if home is None and tables is None:
        raise InvalidRequest("--dry-run needs --home DIR, or --tables DIR, to look at")
    from distributary.jobs.session.job_options import in_a_sentence  # noqa: PLC0415
    from distributary.jobs.views.rewind_preview import preview  # noqa: PLC0415 (pyspark is slow to import)

    place = str(Home(home.absolute()).spark_tables) if home is not None else ""
    with in_a_sentence():
        preview(tables or place, id_, to, as_json=as_json)


@subscription.command()
@_id
@click.option("--to", help="A sequence, a time, how long ago.  [default: now]")
@yes_option
@connected
def skip(client: "Client", id_: str, to: str | None, yes: bool) -> None:
    """Drop the messages that it is owed before a place.

    \b
    Example:
      distributary subscription skip global/billing --to 15m --yes
    """
    sure(f"Drop what {id_} is owed before {to or 'now'}?", yes=yes)
    click.echo(client.ask(Verb.SKIP, _SUBSCRIPTION, id_, {"to": to})["said"])


@subscription.command()
@_id
@click.option("--max", "most", type=click.IntRange(1), help="So many at most.")
@connected
def redrive(client: "Client", id_: str, most: int | None) -> None:
    """Send its dead letters back to it, and to no other subscription.

    \b
    Examples:
      distributary subscription redrive global/billing
      distributary subscription redrive queue/orders --max 10
    """
    click.echo(client.ask(Verb.REDRIVE, _SUBSCRIPTION, id_, {"max": most})["said"])


@subscription.command()
@_id
@click.option("--consumer", metavar="NAME", help="Only this consumer's links.")
@connected
def close(client: "Client", id_: str, consumer: str | None) -> None:
    """End its consumers' links, or those of one; they may come again.

    \b
    Examples:
      distributary subscription close global/billing
      distributary subscription close global/billing --consumer worker-1/billing
    """
    said = client.ask(Verb.CLOSE, _SUBSCRIPTION, id_, {"consumer": consumer})
    click.echo(f"{said['said']}; {said.get('links', 0)} links have ended")


@subscription.command()
@_id
@click.option("--force", is_flag=True, help="Also with consumers; a queue also with messages.")
@yes_option
@connected
def delete(client: "Client", id_: str, force: bool, yes: bool) -> None:
    """Delete it: it is owed no messages any more.

    \b
    Example:
      distributary subscription delete global/billing --yes
    """
    sure(f"Delete {id_}?", yes=yes)
    click.echo(client.ask(Verb.DELETE, _SUBSCRIPTION, id_, {"force": force})["said"])


@subscription.command(name="set")
@_id
@click.argument("policy", nargs=-1, metavar="KEY=VALUE...")
@click.option("--clear", is_flag=True, help="Drop its former policy first.")
@connected
def set_(client: "Client", id_: str, policy: tuple[str, ...], clear: bool) -> None:
    """Change its own policy: these keys, the others stay. KEY= removes a key.

    \b
    Examples:
      distributary subscription set queue/orders delivery_attempts_max=5
      distributary subscription set queue/orders lock_ms=
      distributary subscription set queue/orders --clear
    """
    set_policy(client, _SUBSCRIPTION, id_, policy, clear=clear)


subscription.add_command(stuck)


def set_policy(
    client: "Client", entity: Entity, name: str, said: tuple[str, ...], *, clear: bool
) -> None:
    """Set an entity's own policy: the given keys over its former ones."""
    before = {} if clear else client.ask(Verb.READ, entity, name)["policy"]
    kept = {key: value for key, value in {**before, **policy_of(said)}.items() if value is not None}
    done = client.ask(Verb.UPDATE, entity, name, {"policy": kept})
    click.echo(done["said"])
