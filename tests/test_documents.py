"""What the documents say of the tests is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: `tables/test_a.py`, `tables/test_a.py::test_b`, or `::test_b` of the file named before.
NAMED = re.compile(r"`(?=[\w:])((?:\w+/)+\w+\.py)?(?:::(\w+))?`")


def missing(text: str) -> list[str]:
    """The tests that the text names and that are not there."""
    absent: list[str] = []
    file = ""
    for found in NAMED.finditer(text):
        file = found[1] or file
        path = ROOT / "tests" / file.removeprefix("tests/")
        if not path.is_file():
            absent.append(file)
        elif found[2] and f"def {found[2]}(" not in path.read_text():
            absent.append(f"{file}::{found[2]}")
    return absent


def test_every_test_that_holds_a_promise_is_there() -> None:
    """A promise whose test was renamed or removed would be held by nothing."""
    text = (ROOT / "docs" / "durability.md").read_text()
    assert NAMED.search(text)
    assert not missing(text)


def test_a_test_that_is_not_there_is_seen() -> None:
    """By its file, or by its name in the file."""
    assert missing("`tables/test_nothing.py`") == ["tables/test_nothing.py"]
    here = "tables/test_verify.py"
    assert missing(f"`{here}`, `::test_nothing`") == [f"{here}::test_nothing"]
    assert not missing(f"`{here}::test_what_is_broken_is_named`")
