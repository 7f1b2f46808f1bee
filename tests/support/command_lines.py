"""Command lines as pages and files have them, compared with the commands that there are."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
from click.core import ParameterSource

from distributary.ingest.cli.main import cli
from distributary.jobs.session.job_names import MODULES

ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = re.compile(r"(?:[\w./]*/)?distributary$")
_VARIABLE = re.compile(r"[A-Z_]+=\S*$")
#: What ends a command in a shell's line.
_ENDS = {"|", "&&", "||", ";", ">", ">>", "&"}
#: What needn't be there.
FILES = (click.Path, click.File)
#: When cron runs a line.
_CRON = re.compile(r"^(?:[\d*/,-]+ ){5}")


def commands_of(text: str) -> Iterator[list[str]]:
    """The commands of a block for a shell, as words: without variables, what they are piped to,
    and remarks."""
    for line in text.replace("\\\n", " ").splitlines():
        words = _words(_CRON.sub("", line.strip()))
        while words:
            ends = next((at for at, word in enumerate(words) if word in _ENDS), len(words))
            into_file = words[ends : ends + 1] in ([">"], [">>"])
            command, words = words[:ends], words[ends + 1 + into_file :]
            while command and _VARIABLE.match(command[0]):
                command = command[1:]
            if command:
                yield command


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return list(lexer)


def is_ours(command: list[str]) -> bool:
    return bool(_PROGRAM.match(command[0]))


class Unfinished(click.UsageError):
    """Words that go on: a command of a group, an argument or an option is missing."""


def parsed(words: list[str]) -> None:
    """`distributary` takes these words: there are such commands, options and values, and as many
    arguments as it wants. Nothing is run, and no file need be there.

    Raises Unfinished if more must follow, click.UsageError for what can't be meant.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="distributary")
    while isinstance(command, click.Group) and words:
        name, *words = words
        if command.name == "jobs":
            found = import_module(MODULES[name]).command if name in MODULES else None
        else:
            found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no command {name!r}", context)
        command, context = found, click.Context(found, info_name=name, parent=context)
    if isinstance(command, click.Group):
        raise Unfinished("a command of the group is missing", context)
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    if rest:
        raise click.UsageError(f"too many arguments: {' '.join(rest)}", context)
    for parameter in command.get_params(context):
        value, source = parameter.consume_value(context, values)
        if parameter.value_is_missing(value):
            if parameter.required:
                raise Unfinished(f"{parameter.human_readable_name} is missing", context)
        elif source is ParameterSource.COMMANDLINE and not isinstance(parameter.type, FILES):
            parameter.type_cast_value(context, value)


def made(words: list[str]) -> str:
    """The first target or variable in these words that the Makefile lacks; empty if it has all."""
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        pattern = rf"^{name} \?=" if is_variable else rf"^{name}:"
        if not re.search(pattern, makefile, re.MULTILINE):
            return name
    return ""
