"""The pages for people, and the blocks of code, commands and settings in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: A fence with its kind and text, or lines that are indented by four after an empty line.
_BLOCK = re.compile(
    r"^```(?P<kind>[\w-]*)[^\n]*\n(?P<fenced>.*?)^```$"
    r"|(?:(?<=\n\n)|\A)(?P<indented>(?:(?: {4}[^\n]*)?\n)*?(?: {4}[^\n]*\n)(?:(?: {4}[^\n]*)?\n)*)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page; `kind` is what its fence says, and empty where it is indented."""

    page: str
    kind: str
    text: str
    line: int
    is_fenced: bool = True

    @property
    def first(self) -> str:
        """Its first line, by which it is known."""
        return self.text.strip().partition("\n")[0].strip()


def pages() -> list[str]:
    """All pages, as paths from the root; a decision is a page, too."""
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return ["README.md", "CHANGELOG.md", *sorted(str(one.relative_to(ROOT)) for one in files)]


def guides() -> list[str]:
    """The pages whose blocks a reader types or copies: all but decisions and the changes."""
    others = ("docs/decisions/", "CHANGELOG.md")
    return [page for page in pages() if not page.startswith(others)]


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def blocks(page: str, kind: str | None = None) -> Iterator[Block]:
    """The blocks of a page in their order, or those of one kind."""
    text = text_of(page)
    for found in _BLOCK.finditer(text):
        block = Block(
            page,
            found["kind"] or "",
            found["fenced"] if found["indented"] is None else _flush(found["indented"]),
            text.count("\n", 0, found.start()) + 1,
            found["indented"] is None,
        )
        if block.text.strip() and kind in (None, block.kind):
            yield block


def prose(page: str) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", text_of(page))


def _flush(indented: str) -> str:
    return re.sub(r"^ {4}", "", indented, flags=re.MULTILINE).strip("\n") + "\n"
