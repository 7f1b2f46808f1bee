"""Docstrings, comments, messages and pages name their things: no "whoever", no "nobody".

A sentence such as `nobody knows whether somebody waits` is a riddle to a reader who doesn't know
that it is about consumers and a gateway.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from doc_blocks import pages
from doc_blocks import prose as page_prose

ROOT = Path(__file__).parents[1]
ROOMS = ("pipeline", "ingest", "jobs", "client", "examples")
#: Of strings of tests only docstrings and messages of assertions are prose; the others are data.
TESTS = ("tests",)
RIDDLES = re.compile(r"\b([Ww]ho(?:m|se)?ever|[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b")
#: A docstring begins with a noun or a verb.
NO_NOUN = re.compile(r"\s*(What|Where|Which|Who|Whom|Whose|Whoever|Nobody|Somebody)\b")
#: A word in quotation marks or as code is a name, and so is a value of a table's column.
QUOTED = re.compile(r"`[^`]*`|\"\w+\"|'\w+'|\"nobody connected\"")

#: A sentence of a page may begin with a clause: "Where a backlog refuses publishers, ...".
NO_NOUN_OF_PAGE = re.compile(r"\s*(What|Who|Whom|Whose|Whoever|Nobody|Somebody)\b")
#: A heading, a paragraph, an item or a cell of a table begins with a noun or a verb, too, unless it
#: is a question.
PART = re.compile(r"(?:^|(?<=[^|]\|))[#>*\d. -]*([^|\n]+)", re.MULTILINE)
#: `What if it dies?` A question may begin so.
QUESTION = re.compile(r"[^.:;?]*\?")
#: Entries of the changes keep the words of their release.
PAGES = tuple(page for page in pages() if page != "CHANGELOG.md")


def files(room: str) -> list[Path]:
    """The files of a room, or a file itself."""
    return [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py"))


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment and each string that isn't one word."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and not re.fullmatch(r"\w*(['\"])\w*\1", token.string)
        ):
            yield token.start[0], token.string


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment, docstring and message of an assertion."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    yield from docstrings(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and node.msg is not None:
            yield node.lineno, ast.unparse(node.msg)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said is not None:
                yield node.body[0].lineno, said


def broken(source: str, read: Callable[[str], Iterator[tuple[int, str]]] = texts) -> list[str]:
    """The lines of a file that break the rule in the texts that are read."""
    riddles = [
        f"{line}: {found[0]}"
        for line, text in read(source)
        for found in RIDDLES.finditer(QUOTED.sub("", text))
    ]
    return riddles + [
        f"{line}: begins with {found[1]}"
        for line, text in docstrings(source)
        if (found := NO_NOUN.match(text))
    ]


def riddles_of(text: str) -> list[str]:
    """The words of a page's prose that name no thing."""
    return [found[0] for found in RIDDLES.finditer(QUOTED.sub("", text))]


def beginnings_of(text: str) -> list[str]:
    """The parts of a page's prose that begin without a noun."""
    parts = (found[1].strip() for found in PART.finditer(text))
    return [part for part in parts if NO_NOUN_OF_PAGE.match(part) and not QUESTION.match(part)]


@pytest.mark.parametrize("page", PAGES)
def test_each_page_names_its_things(page: str) -> None:
    assert not riddles_of(page_prose(page))


@pytest.mark.parametrize("page", PAGES)
def test_each_part_of_a_page_begins_with_a_noun(page: str) -> None:
    assert not beginnings_of(page_prose(page))


@pytest.mark.parametrize("room", ROOMS + TESTS)
def test_each_sentence_names_its_thing(room: str) -> None:
    read = prose if room in TESTS else texts
    found = {
        str(file.relative_to(ROOT)): lines
        for file in files(room)
        if (lines := broken(file.read_text(), read))
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


@pytest.mark.parametrize(
    "source",
    [
        '"""What a test shows."""',
        "x = 1  # nobody knows",
        'assert x, "nobody knows"',
        'def f():\n    """Nobody waits."""',
    ],
)
def test_a_riddle_of_a_test_is_found(source: str) -> None:
    assert broken(source, prose)


def test_the_data_of_a_test_is_no_riddle() -> None:
    assert not broken('said = "nobody knows"', prose)


@pytest.mark.parametrize(
    "text",
    [
        "## What it costs",
        "A paragraph.\n\nWhat comes back has its place.",
        "* **Who asks** gets an answer.",
        "*What is there.* It stays.",
        "| limit | What happens |",
    ],
)
def test_a_part_without_a_noun_is_found(text: str) -> None:
    assert beginnings_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "**What does it cost?** Little.",
        "## Costs",
        "| limit | effect |",
        "1. The store says `What`.",
    ],
)
def test_a_part_with_a_noun_is_none(text: str) -> None:
    assert not beginnings_of(text)


def test_a_riddle_of_a_page_is_found() -> None:
    assert riddles_of("A queue that nobody reads.")
    assert not riddles_of('The user `nobody`, and a reason "nobody connected".')
