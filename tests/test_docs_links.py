"""Pages point to pages that are there, and to headings that are in them, as a browser of
repositories numbers and spells them. The site's builder looks, too (`deploy/test_site.py`)."""

import os
import re
from functools import cache

from doc_blocks import ROOT, pages, prose, text_of

LINK = re.compile(r"\]\(([^)\s]+)\)")


def links() -> list[tuple[str, str, str]]:
    """Page, the page or file that a link of it leads to, and the heading there, if it says one."""
    found = []
    for page in pages():
        for target in LINK.findall(text_of(page)):
            if "://" not in target:
                file, _, heading = target.partition("#")
                to = os.path.normpath(ROOT / page / ".." / file) if file else str(ROOT / page)
                found.append((page, os.path.relpath(to, ROOT), heading))
    return found


def anchor(heading: str) -> str:
    """How a heading is called in a link: its words, without signs, with `-` between."""
    said = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", said.strip().lower()).replace(" ", "-")


@cache
def anchors(page: str) -> list[str]:
    """The anchors of a page's headings, in their order."""
    return [anchor(line) for line in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)]


def test_every_link_between_pages_leads_somewhere() -> None:
    """A link to a file of ours is to one that exists, from where the page lies."""
    dead = [f"{page}: {to}" for page, to, _ in links() if not (ROOT / to).exists()]
    assert not dead, "\n".join(dead)
    assert len(links()) > 300


def test_every_link_to_a_heading_finds_it() -> None:
    """In the page itself, too."""
    to_headings = [(page, to, heading) for page, to, heading in links() if heading]
    dead = [f"{page}: {to}#{heading}" for page, to, heading in to_headings
            if heading not in anchors(to)]  # fmt: skip
    assert not dead, "\n".join(dead)
    assert len(to_headings) > 50
    assert anchor("What isn't there ([decision 7](x.md))") == "what-isnt-there-decision-7"


def test_no_page_has_a_heading_twice() -> None:
    """The second one would have a number in its anchor, which changes with the first."""
    twice = {
        page: sorted({one for one in anchors(page) if anchors(page).count(one) > 1})
        for page in pages()
        if page != "CHANGELOG.md"  # its releases have the same themes
    }
    assert not {page: found for page, found in twice.items() if found}
