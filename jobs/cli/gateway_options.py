"""Options of a command line for the gateway and the user."""

import sys
from collections.abc import Callable
from functools import wraps
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias

import click

from distributary.pipeline.errors import InvalidRequest

if TYPE_CHECKING:
    from distributary.jobs.client.management_client import Gateway

#: The environment variable of a password that isn't typed.
PASSWORD = "DISTRIBUTARY_PASSWORD"  # noqa: S105 (its name, not itself)

P = ParamSpec("P")

#: Gives the gateway that the options name.
GatewayFactory: TypeAlias = "Callable[[], Gateway]"

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
        "--tls-ca", type=click.Path(path_type=Path), help="PEM file: the CA of its certificate."
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


def gateway_options(
    command: "Callable[Concatenate[GatewayFactory, P], None]",
) -> Callable[..., None]:
    """Make a command that may ask a gateway: it gets a function that returns the gateway of its
    options. That asks for the password, and raises InvalidRequest without a terminal."""

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
        def named() -> "Gateway":
            from distributary.jobs.client.management_client import Gateway  # noqa: PLC0415 (Proton takes a while)

            Gateway.at(address)  # it says what is wrong with one
            password = _password() if user else ""
            return Gateway(address, user, password, tls_ca, tls_cert, tls_key, timeout)

        command(named, *args, **kwargs)

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
