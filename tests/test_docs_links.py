"""Pages point to pages that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def pages():
    yield ROOT / "README.md"
    yield ROOT / "CHANGELOG.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "examples").glob("*/README.md"))


def test_every_link_between_pages_leads_somewhere():
    """A link to a file of ours is to one that exists, from where the page lies."""
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages()
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not dead, "\n".join(dead)
