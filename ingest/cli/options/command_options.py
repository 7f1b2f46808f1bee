"""What the commands over a running gateway have in common: where it is, who asks, how it ends."""

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
    "--log", default="", metavar="NAME", help="Of a home with several logs this one alone."
)


def connected(command: "Callable[Concatenate[Client, P], None]") -> Callable[..., None]:
    """A command that talks to a gateway: it gets the client, its user the options that name the
    gateway. It ends with a sentence and one of the exit codes."""

    @gateway_options
    @log_option
    @wraps(command)
    def run(gateway: GatewayFactory, /, log: str, *args: P.args, **kwargs: P.kwargs) -> None:
        with asking(gateway(), log) as client:
            command(client, *args, **kwargs)

    return run


@contextmanager
def asking(gateway: "Gateway", log: str = "") -> "Iterator[Client]":
    """A client of the gateway, of one log or all; what goes wrong ends the command with one of the
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
    """Name the logs that a list is without; then it failed."""
    for log, why in sorted(missing.items()):
        click.echo(f"distributary: without what is in the log {log}: {why}", err=True)
    if missing:
        sys.exit(FAILED)


def sure(question: str, *, yes: bool) -> None:
    """Ask before something is lost, unless it was said already."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Say --yes if so: there is nobody to ask")
    click.confirm(question, abort=True, err=True)


def policy_of(said: tuple[str, ...]) -> dict[str, object]:
    """A policy by KEY=VALUE; a value that is no number, true or false is a text, an empty one takes
    the key away (None)."""
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
    """What an answer says, for programs."""
    click.echo(json.dumps(value, indent=2, default=str))


yes_option = click.option("--yes", is_flag=True, help="Don't ask.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
