"""`distributary user`: the users that may log in.

A password comes from a prompt or from standard input, never from the command line, which every
process of the machine can read.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from distributary.ingest.security.saslprep import saslprep
from distributary.ingest.security.users import User, Users, name_of, user_of
from distributary.ingest.security.users_file import changing
from distributary.pipeline.errors import InvalidRequest

Given = TypeVar("Given")
Made = TypeVar("Made")

_file = click.option(
    "--users",
    "file",
    type=click.Path(path_type=Path),
    required=True,
    help="The file that security.users names.",
)
_no_scram = click.option(
    "--no-scram", is_flag=True, help="Keep the scrypt hash alone: PLAIN is the only login then."
)


@click.group()
def user() -> None:
    """Add, remove and list the users that may log in.

    \b
    Examples:
      distributary user add alice --users users.toml
      pass show alice | distributary user passwd alice --users users.toml
      distributary user list --users users.toml --json

    A gateway that runs takes the new file within a second.
    Exit code 0: done. 2: there is such a user already, or none, or the file can't be used.
    """


@user.command()
@click.argument("name")
@_file
@_no_scram
def add(name: str, file: Path, no_scram: bool) -> None:
    """Add a user; the file is made if there is none.

    \b
    Examples:
      distributary user add alice --users users.toml
      printf %s "$SECRET" | distributary user add alice --users users.toml
    """
    name, kept = _checked(name_of, name), _asked(scram=not no_scram)
    with changing(file) as users:
        if name in users:
            raise InvalidRequest(f"there is a user '{name}' already; `passwd` changes the password")
        users[name] = kept


@user.command()
@click.argument("name")
@_file
@_no_scram
def passwd(name: str, file: Path, no_scram: bool) -> None:
    """Change a user's password.

    \b
    Example:
      distributary user passwd alice --users users.toml
    """
    kept = _asked(scram=not no_scram)
    with changing(file) as users:
        users[_known(name, users)] = kept


@user.command()
@click.argument("name")
@_file
def remove(name: str, file: Path) -> None:
    """Remove a user. Connections that it has stay until they end.

    \b
    Example:
      distributary user remove alice --users users.toml
    """
    with changing(file) as users:
        del users[_known(name, users)]


@user.command(name="list")
@_file
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def list_users(file: Path, as_json: bool) -> None:
    """List the users and the logins that each can use.

    \b
    Examples:
      distributary user list --users users.toml
      distributary user list --users users.toml --json
    """
    found = Users.read(file).by_name
    if as_json:
        rows = [{"name": name, "mechanisms": one.mechanisms} for name, one in found.items()]
        click.echo(msgspec.json.encode(rows).decode())
        return
    for name, one in found.items():
        click.echo(f"{name}\t{' '.join(one.mechanisms)}")


def _asked(*, scram: bool) -> User:
    """Return the hashes of the password that was typed or piped in."""
    if sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = _checked(bytes.decode, sys.stdin.buffer.read()).removesuffix("\n").removesuffix("\r")
    return _checked(lambda password: user_of(password, scram=scram), text)


def _checked(make: Callable[[Given], Made], given: Given) -> Made:
    try:
        return make(given)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def _known(name: str, users: dict[str, User]) -> str:
    """Return the name under which the file has the user."""
    prepared = _checked(saslprep, name)
    if prepared not in users:
        raise InvalidRequest(f"there is no user '{name}'")
    return prepared
