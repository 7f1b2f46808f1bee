"""`distributary queue` and `distributary topic`: queues and topics of a running gateway."""

from typing import TYPE_CHECKING

import click

from distributary.ingest.cli.answer_tables import QUEUES, TOPICS, print_listed, show_row
from distributary.ingest.cli.options.command_options import (
    connected,
    json_option,
    policy_of,
    print_json,
    sure,
    yes_option,
)
from distributary.ingest.cli.subscription_commands import set_policy
from distributary.pipeline.management.management_messages import Entity, Verb

if TYPE_CHECKING:
    from distributary.jobs.client.management_client import Client

_name = click.argument("name")


@click.group()
def queue() -> None:
    """List, make and delete queues.

    \b
    Examples:
      distributary queue list
      distributary queue create orders --policy delivery_attempts_max=5
      distributary queue redrive DLQ.queue/orders

    A queue is the subscription queue/NAME, too: `distributary subscription` pauses and rewinds it.
    Exit codes as there.
    """


@queue.command(name="list")
@json_option
@connected
def list_queues(client: "Client", as_json: bool) -> None:
    """List all queues but temporary ones.

    \b
    Example:
      distributary queue list --json
    """
    print_listed(QUEUES, client.listed(Entity.QUEUE), "queues", as_json=as_json)


@queue.command(name="show")
@_name
@json_option
@connected
def show_queue(client: "Client", name: str, as_json: bool) -> None:
    """Show one: its links, its position, its policy.

    \b
    Example:
      distributary queue show orders
    """
    _show(client, Entity.QUEUE, name, as_json=as_json)


@queue.command()
@_name
@click.option("--policy", multiple=True, metavar="KEY=VALUE", help="A policy of its own.")
@connected
def create(client: "Client", name: str, policy: tuple[str, ...]) -> None:
    """Make one; a first link or message would make it, too.

    \b
    Example:
      distributary queue create orders --policy consumers_max=1
    """
    attributes = {"policy": policy_of(policy) or None}
    click.echo(client.ask(Verb.CREATE, Entity.QUEUE, name, attributes)["said"])


@queue.command()
@_name
@click.option("--force", is_flag=True, help="Also with messages or links.")
@yes_option
@connected
def delete(client: "Client", name: str, force: bool, yes: bool) -> None:
    """Delete one.

    \b
    Example:
      distributary queue delete orders --yes
    """
    sure(f"Delete the queue {name}?", yes=yes)
    click.echo(client.ask(Verb.DELETE, Entity.QUEUE, name, {"force": force})["said"])


@queue.command()
@_name
@click.option("--subscription", help="Dead letters of this one alone, by its id.")
@click.option("--max", "most", type=click.IntRange(1), help="So many at most.")
@connected
def redrive(client: "Client", name: str, subscription: str | None, most: int | None) -> None:
    """Send the dead letters in a queue back, each to the subscription that gave it up.

    \b
    Examples:
      distributary queue redrive DLQ.global/billing
      distributary queue redrive graveyard --subscription queue/orders --max 10
    """
    attributes = {"subscription": subscription, "max": most}
    click.echo(client.ask(Verb.REDRIVE, Entity.QUEUE, name, attributes)["said"])


@queue.command(name="set")
@_name
@click.argument("policy", nargs=-1, metavar="KEY=VALUE...")
@click.option("--clear", is_flag=True, help="Drop its former policy first.")
@connected
def set_(client: "Client", name: str, policy: tuple[str, ...], clear: bool) -> None:
    """Change its own policy: these keys, the others stay. KEY= removes a key.

    \b
    Example:
      distributary queue set orders lock_ms=30000
    """
    set_policy(client, Entity.QUEUE, name, policy, clear=clear)


@click.group()
def topic() -> None:
    """List topics and show their users.

    \b
    Examples:
      distributary topic list
      distributary topic show orders

    A topic is nowhere stored: it is there while it has producers or subscriptions.
    Exit codes as of `distributary subscription`.
    """


@topic.command(name="list")
@json_option
@connected
def list_topics(client: "Client", as_json: bool) -> None:
    """List the topics that are in use.

    \b
    Example:
      distributary topic list
    """
    print_listed(TOPICS, client.listed(Entity.TOPIC), "topics", as_json=as_json)


@topic.command(name="show")
@_name
@json_option
@connected
def show_topic(client: "Client", name: str, as_json: bool) -> None:
    """Show a topic's producers, subscriptions and policy.

    \b
    Example:
      distributary topic show orders
    """
    _show(client, Entity.TOPIC, name, as_json=as_json)


def _show(client: "Client", entity: Entity, name: str, *, as_json: bool) -> None:
    row = client.ask(Verb.READ, entity, name)
    row.pop("said")
    if as_json:
        print_json(row)
    else:
        show_row(row)
