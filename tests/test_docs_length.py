"""No page takes longer than ten minutes to read.

The rule: 220 words a minute. Prose counts, and what is fenced: programs and commands are read word
by word. Of what stands in columns (tables, and what is indented: pictures, outputs) a third counts:
it is looked up. A page that is longer is split along its headings; its first lines say where the
rest is.
"""

import re

import pytest
from doc_blocks import blocks, pages, prose

WORDS_A_MINUTE = 220
MINUTES_MAX = 10
#: What is looked up by its release, and never read from top to bottom.
LOOKED_UP = ("CHANGELOG.md",)


def words_to_read(page: str) -> int:
    """How many words a reader reads of it."""
    lines = prose(page).splitlines()
    in_columns = [line.replace("|", " ") for line in lines if line.startswith("|")]
    fenced = [block.text for block in blocks(page) if block.is_fenced]
    in_columns += [block.text for block in blocks(page) if not block.is_fenced]
    read = [line for line in lines if not line.startswith("|")]
    return _count(read) + _count(fenced) + _count(in_columns) // 3


def _count(texts: list[str]) -> int:
    return sum(len(re.findall(r"\S*\w\S*", text)) for text in texts)


@pytest.mark.parametrize("page", [page for page in pages() if page not in LOOKED_UP])
def test_a_page_is_read_in_ten_minutes(page: str) -> None:
    minutes = words_to_read(page) / WORDS_A_MINUTE
    assert minutes <= MINUTES_MAX, f"{minutes:.1f} minutes: split it along its headings"


def test_longer_pages_are_seen() -> None:
    """The one that is looked up would take longer."""
    assert all(words_to_read(page) > WORDS_A_MINUTE * MINUTES_MAX for page in LOOKED_UP)
