"""Docstrings, comments and messages name the thing they speak of: no "whoever", no "nobody".

A sentence such as "nobody knows whether somebody waits" is a riddle to a reader who doesn't know
that it is about consumers and a gateway.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("pipeline", "ingest", "jobs", "client", "examples")
RIDDLES = re.compile(r"\b([Ww]ho(?:m|se)?ever|[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b")
#: A docstring begins with a noun or a verb.
NO_NOUN = re.compile(r"\s*(What|Who|Whom|Whoever|Nobody|Somebody)\b")
#: A word in quotation marks or as code is a name, and so is a value of a table's column.
QUOTED = re.compile(r"`[^`]*`|\"\w+\"|'\w+'|\"nobody connected\"")

FILES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment and each string that isn't one word."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and not re.fullmatch(r"\w*(['\"])\w*\1", token.string)
        ):
            yield token.start[0], token.string


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said is not None:
                yield node.body[0].lineno, said


def broken(source: str) -> list[str]:
    """The lines of a file that break the rule."""
    riddles = [
        f"{line}: {found[0]}"
        for line, text in texts(source)
        for found in RIDDLES.finditer(QUOTED.sub("", text))
    ]
    return riddles + [
        f"{line}: begins with {found[1]}"
        for line, text in docstrings(source)
        if (found := NO_NOUN.match(text))
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_each_sentence_names_its_thing(room: str) -> None:
    found = {
        str(file.relative_to(ROOT)): lines
        for file in FILES
        if file.is_relative_to(ROOT / room) and (lines := broken(file.read_text()))
    }
    assert not found, f"{sum(map(len, found.values()))} places"


@pytest.mark.parametrize(
    "source",
    [
        '"""What a file says."""',
        "x = 1  # nobody knows",
        'def f():\n    raise ValueError("whoever asks gets nothing")',
        'class A:\n    """Who waits for it."""',
    ],
)
def test_a_riddle_is_found(source: str) -> None:
    assert broken(source)


@pytest.mark.parametrize(
    "source",
    ['"""Result of a file."""', 'user = "nobody"', '"""The user `nobody` has no right."""'],
)
def test_a_name_is_no_riddle(source: str) -> None:
    assert not broken(source)
