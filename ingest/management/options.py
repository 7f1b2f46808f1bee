"""What the commands over a running gateway have in common: where it is, who asks, how it ends."""

import json
import sys
import tomllib
from collections.abc import Callable
from functools import wraps
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from pipeline.errors import InvalidRequest

if TYPE_CHECKING:
    from jobs.gateway import Client

#: Exit codes that scripts can use, beside 0.
FAILED, MISUSED, ABSENT, REFUSED = 1, 2, 3, 4
#: The status of a refusal -> the exit code.
_CODES = {400: MISUSED, 403: REFUSED, 404: ABSENT, 409: REFUSED}

#: Where a password comes from that isn't typed.
PASSWORD = "DISTRIBUTARY_PASSWORD"  # noqa: S105 (its name, not itself)

P = ParamSpec("P")

_OPTIONS = (
    click.option(
        "--gateway",
        "address",
        default="127.0.0.1:5672",
        show_default=True,
        envvar="DISTRIBUTARY_GATEWAY",
        help="HOST:PORT of the gateway; amqps://HOST:PORT for TLS.",
    ),
    click.option("--user", default="", help=f"Log in as; the password is asked, or in {PASSWORD}."),
    click.option(
        "--tls-ca", type=click.Path(path_type=Path), help="PEM file: who signs its certificate."
    ),
    click.option("--tls-cert", type=click.Path(path_type=Path), help="PEM file: log in by it."),
    click.option("--tls-key", type=click.Path(path_type=Path), help="PEM file with its key."),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1),
        default=60.0,
        show_default=True,
        help="Seconds to wait for an answer.",
    ),
)


def connected(command: "Callable[Concatenate[Client, P], None]") -> Callable[..., None]:
    """A command that talks to a gateway: it gets the client, its user the options above. It ends
    with a sentence and one of the exit codes."""

    @wraps(command)
    def run(
        address: str,
        user: str,
        tls_ca: Path | None,
        tls_cert: Path | None,
        tls_key: Path | None,
        timeout: float,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        from jobs.gateway import (  # noqa: PLC0415 (Proton takes a while)
            Client,
            Gateway,
            Refused,
            Unanswered,
        )

        password = _password() if user else ""
        gateway = Gateway(address, user, password, tls_ca, tls_cert, tls_key, timeout)
        try:
            with Client(gateway) as client:
                command(client, *args, **kwargs)
        except Refused as error:
            click.echo(f"distributary: {error}", err=True)
            sys.exit(_CODES.get(error.status, FAILED))
        except Unanswered as error:
            click.echo(f"distributary: {error}", err=True)
            sys.exit(FAILED)

    made: Callable[..., None] = run
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def _password() -> str:
    if PASSWORD in environ:
        return environ[PASSWORD]
    if not sys.stdin.isatty():
        raise InvalidRequest(f"no password: put it into the environment as {PASSWORD}")
    return str(click.prompt("Password", hide_input=True, err=True))


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
