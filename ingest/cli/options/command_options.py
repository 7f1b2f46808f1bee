"""Common parts of the commands over a running gateway: its address, the user, exit codes."""

import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from distributary.jobs.cli.gateway_options import GatewayFactory, gateway_options
from distributary.pipeline.errors import InvalidRequest

if TYPE_CHECKING:
    from distributary.jobs.client.management_client import Client, Gateway

#: Exit codes that scripts can use, beside 0.
FAILED, MISUSED, ABSENT, REFUSED = 1, 2, 3, 4
#: The status of a refusal -> the exit code.
_CODES = {400: MISUSED, 403: REFUSED, 404: ABSENT, 409: REFUSED}

P = ParamSpec("P")

log_option = click.option(
    "--log", default="", metavar="NAME", help="This log alone, of a home with several."
)


def connected(command: "Callable[Concatenate[Client, P], None]") -> Callable[..., None]:
    """Make a command that talks to a gateway: it gets the client, and the options that name the
    gateway. An error ends it with a sentence and one of the exit codes."""

    @gateway_options
    @log_option
    @wraps(command)
    def run(gateway: GatewayFactory, /, log: str, *args: P.args, **kwargs: P.kwargs) -> None:
        with asking(gateway(), log) as client:
            command(client, *args, **kwargs)

    return run


@contextmanager
def asking(gateway: "Gateway", log: str = "") -> "Iterator[Client]":
    """Yield a client of the gateway, for one log or all; an error ends the command with one of the
    exit codes."""
    from distributary.jobs.client.management_client import Client, Refused, Unanswered  # noqa: PLC0415 (Proton takes a while)

    try:
        with Client(gateway, log=log) as client:
            yield client
    except Refused as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(_CODES.get(error.status, FAILED))
    except Unanswered as error:
        click.echo(f"distributary: {error}", err=True)
        sys.exit(FAILED)


def say_missing(missing: "Mapping[str, str]") -> None:
    """Name the logs that are missing from a list; if any is, end the command as failed."""
    for log, why in sorted(missing.items()):
        click.echo(f"distributary: without what is in the log {log}: {why}", err=True)
    if missing:
        sys.exit(FAILED)


def sure(question: str, *, yes: bool) -> None:
    """Ask before messages are lost, unless --yes was given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Say --yes if so: there is no terminal to ask at")
    click.confirm(question, abort=True, err=True)


def policy_of(said: tuple[str, ...]) -> dict[str, object]:
    """Return a policy of KEY=VALUE pairs; a value that is no number, true or false is a text, an
    empty one removes the key (None)."""
    policy: dict[str, object] = {}
    for pair in said:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidRequest(f"'{pair}' is no KEY=VALUE, such as delivery_attempts_max=5")
        policy[key.strip()] = _value(value.strip()) if value.strip() else None
    return policy


def _value(text: str) -> object:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def print_json(value: Any) -> None:
    """Print an answer as JSON."""
    click.echo(json.dumps(value, indent=2, default=str))


yes_option = click.option("--yes", is_flag=True, help="Don't ask.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
