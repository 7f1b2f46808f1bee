"""`distributary publish`, `consume` and `peek`: messages from the shell."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, TextIO

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.ingest.cli.options.command_options import FAILED, MISUSED
from distributary.jobs.cli.gateway_options import GatewayFactory, gateway_options
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import ABSENT as NOT_THERE
from distributary.pipeline.management.management_messages import Entity, Verb

if TYPE_CHECKING:
    from distributary.client import Message, ReceivedMessage
    from distributary.client.outgoing_message import Plain
    from distributary.ingest.cli.messages.message_traffic import Consumption, Publishing
    from distributary.jobs.client.management_client import Gateway

_destination = click.argument("destination")


@click.command()
@_destination
@click.argument("bodies", nargs=-1)
@click.option("--file", "source", type=click.File(), help="A message a line; - is the input.")
@click.option("--json", "as_json", is_flag=True, help="Each line is an object of JSON.")
@click.option("--count", type=click.IntRange(1), help="Messages in all; the given ones repeat.")
@click.option(
    "--rate", type=click.FloatRange(0.01), help="Messages a second; without it as fast as possible."
)
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE")
@click.option("--priority", type=click.IntRange(0, 9))
@click.option("--ttl", type=click.FloatRange(0.001), help="Seconds until it expires.")
@click.option("--non-persistent", is_flag=True, help="It may be lost when the gateway dies.")
@gateway_options
def publish(
    gateway: GatewayFactory,
    destination: str,
    bodies: tuple[str, ...],
    source: TextIO | None,
    as_json: bool,
    count: int | None,
    rate: float | None,
    properties: tuple[str, ...],
    priority: int | None,
    ttl: float | None,
    non_persistent: bool,
) -> None:
    """Send messages to a topic or queue, and wait until all are durable.

    \b
    Examples:
      distributary publish orders "one pizza" "two beers"
      distributary publish queue://jobs --file jobs.txt
      distributary consume orders --json | distributary publish copies --json
      distributary publish orders hello --count 1000 --rate 50 --property kind=test

    Without a body each line of the input is one. However it ends, also by Ctrl-C, it says how many
    were accepted. Exit code 1: some weren't accepted, or it was interrupted. 2: a line is wrong.
    """
    from distributary.ingest.cli.messages.message_traffic import Publishing  # noqa: PLC0415 (the client takes a while)

    if bodies and source is not None:
        raise InvalidRequest("bodies, or a file of them: not both")
    named = _properties(properties)

    def made() -> Iterator["Message"]:
        for message in _messages(bodies, source, count, named, as_json=as_json):
            yield replace(
                message,
                priority=message.priority if priority is None else priority,
                ttl=message.ttl if ttl is None else ttl,
                durable=not non_persistent,
            )

    with _progress("accepted") as told:
        began = time.monotonic()
        work = Publishing(gateway(), destination, made(), told, 1 / rate if rate else 0.0)
        work.run()
    seconds = max(time.monotonic() - began, 1e-3)
    said = f"{work.accepted:,} accepted in {seconds:.1f} s, {work.accepted / seconds:,.0f} a second"
    if work.sent or not work.invalid:
        click.echo(said, err=True)
    code = _told_of(work)
    if work.reads:  # a terminal or pipe that may have no more to say
        sys.stderr.flush()
        os._exit(code)
    if code:
        sys.exit(code)


def _told_of(work: "Publishing") -> int:
    """Say what was wrong; return the exit code."""
    unknown = work.sent - work.accepted - work.rejected
    said = [
        f"{work.rejected:,} of {work.sent:,} weren't accepted: {work.reason}",
        f"{unknown:,} of {work.sent:,} were sent, and whether they are accepted is unknown",
        work.failed or str(work.invalid),
    ]
    wrong = (work.rejected, unknown, work.failed or work.invalid)
    for one in (text for text, is_so in zip(said, wrong, strict=True) if is_so):
        click.echo(f"distributary: {one}", err=True)
    return MISUSED if work.invalid else FAILED if any(wrong) else 0


@click.command()
@_destination
@click.option("--count", type=click.IntRange(1), help="End after so many messages.")
@click.option("--for", "quiet", type=click.FloatRange(0.1), help="End after so many idle seconds.")
@click.option("--durable", metavar="NAME", help="As this durable subscription; it stays.")
@click.option("--shared", is_flag=True, help="With others; with --durable of all clients.")
@click.option("--selector", help="Only what matches.")
@click.option("--json", "as_json", is_flag=True, help="An object of JSON a line, with headers.")
@gateway_options
def consume(
    gateway: GatewayFactory,
    destination: str,
    count: int | None,
    quiet: float | None,
    durable: str | None,
    shared: bool,
    selector: str | None,
    as_json: bool,
) -> None:
    """Take messages and print them, one a line; what is printed is accepted.

    \b
    Examples:
      distributary consume orders
      distributary consume queue://jobs --count 10
      distributary consume orders --durable billing --shared --for 5 --json
      distributary consume orders --selector "total > 100"

    It ends with Ctrl-C, or by --count or --for. A durable subscription that isn't shared belongs
    to the client id `distributary-cli`. Exit code 1: the gateway refused, or is gone.
    """
    from distributary.ingest.cli.messages.message_traffic import Consumption  # noqa: PLC0415 (the client takes a while)

    most, seconds = count or 0, quiet or 0.0
    wanted = Consumption(destination, durable, shared, selector, most=most, quiet=seconds)
    _consume(gateway, wanted, as_json=as_json)


@click.command()
@_destination
@click.option("--count", type=click.IntRange(1), default=20, show_default=True)
@click.option("--selector", help="Only what matches.")
@click.option("--json", "as_json", is_flag=True, help="An object of JSON a line, with headers.")
@gateway_options
def peek(
    gateway: GatewayFactory, destination: str, count: int, selector: str | None, as_json: bool
) -> None:
    """Print what a queue has, and change nothing.

    \b
    Examples:
      distributary peek queue://jobs
      distributary peek queue://DLQ.queue/orders --count 5 --json

    A queue that isn't there has nothing: that is said on standard error, and none is made. Exit
    code 1: the gateway refused, or is gone.
    """
    from distributary.ingest.cli.messages.message_traffic import Consumption  # noqa: PLC0415 (the client takes a while)

    queue = destination if "://" in destination else f"queue://{destination}"
    found = gateway()
    if queue.startswith("queue://") and _lacks(found, queue.removeprefix("queue://")):
        click.echo(f"distributary: there is no queue {quoted(destination)}", err=True)
        return
    wanted = Consumption(queue, selector=selector, browse=True, most=count, quiet=0.5)
    _consume(lambda: found, wanted, as_json=as_json)


def _lacks(gateway: "Gateway", name: str) -> bool:
    """Whether the gateway says that there is no queue of this name: a browser's link would make
    one. Whatever else is wrong the browser's own link tells."""
    from distributary.jobs.client.management_client import Client, Refused, Unanswered  # noqa: PLC0415 (Proton takes a while)

    try:
        with Client(gateway) as client:
            client.ask(Verb.READ, Entity.QUEUE, name)
    except Refused as error:
        return error.status == NOT_THERE
    except Unanswered:
        pass
    return False


def _consume(gateway: GatewayFactory, wanted: "Consumption", *, as_json: bool) -> None:
    from distributary.ingest.cli.messages.message_lines import harmless, line_of  # noqa: PLC0415 (the client takes a while)
    from distributary.ingest.cli.messages.message_traffic import Consuming  # noqa: PLC0415 (as above)

    def take(message: "ReceivedMessage") -> None:
        line = line_of(message, as_json=as_json)
        click.echo(harmless(line) if sys.stdout.isatty() else line, color=True)  # nothing stripped

    work = Consuming(gateway(), wanted, take)
    try:
        work.run()
    except BrokenPipeError:  # the reader of the output has ended
        sys.stderr.close()
        sys.exit(FAILED)
    except KeyboardInterrupt:
        pass
    if not wanted.browse:
        click.echo(f"{work.count:,} taken", err=True)
    if work.failed:
        _end(work.failed)


def _messages(
    bodies: tuple[str, ...],
    source: TextIO | None,
    count: int | None,
    properties: "dict[str, Plain]",
    *,
    as_json: bool,
) -> Iterator["Message"]:
    """Yield the given messages, repeated up to `count`."""
    from distributary.ingest.cli.messages.message_lines import message_of  # noqa: PLC0415 (the client takes a while)

    def once(lines: Iterable[str]) -> Iterator["Message"]:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\n")
            if text or bodies:
                where = f"line {number}"
                yield message_of(text, as_json=as_json, where=where, properties=properties)

    lines: Iterable[str] = bodies or source or sys.stdin
    if count is None:
        return once(iter(lines))
    kept = tuple(lines)
    rounds: Iterable[tuple[str, ...]] = repeat(kept) if kept else ()
    return islice(chain.from_iterable(once(one) for one in rounds), count)


def _properties(said: tuple[str, ...]) -> "dict[str, Plain]":
    found: dict[str, Plain] = {}
    for pair in said:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"'{pair}' is no KEY=VALUE, such as kind=test")
        found[key] = value
    return found


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """Show the number of messages, on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(what), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as on:
        task = on.add_task(what, total=None)
        yield lambda count: on.update(task, completed=count)


def _end(text: str) -> None:
    click.echo(f"distributary: {text}", err=True)
    sys.exit(FAILED)
