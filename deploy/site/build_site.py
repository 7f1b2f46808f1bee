"""`make docs`: the pages as a searchable site that works from a folder, without a server.

    python deploy/site/build_site.py --to build/site

The pages stay where they are and read well in a browser of repositories, too: they are copied in
their own order of folders, with the files that they link to, so every relative link holds in both.
A notebook becomes a page with its output. Links and anchors that lead nowhere end the build.

It runs in an environment with `requirements.txt`.
"""

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
#: Where a link of a page leads, without the heading in it.
LINK: Final = re.compile(r"\]\(([^)#\s]+)")
#: A link to a notebook: in the site it is a page.
NOTEBOOK: Final = re.compile(r"(\]\([^)#\s:]+)\.ipynb\)")
_HEAD: Final = "[project]\n"
#: An item of a list that isn't in another one.
ITEM: Final = re.compile(r"(?:[*-]|\d+\.) ")
#: The builder colours what it says, on whatever it writes to.
COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
CODE: Final = re.compile(r"`[^`]*`")


def main(arguments: Sequence[str]) -> None:
    """Build it. What is wrong with a page is said by its place, with exit code 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--root", type=Path, default=ROOT, help="Where the pages are.")
    options = parser.parse_args(arguments)
    to, root = options.to.resolve(), options.root.resolve()
    work = to.with_name(f"{to.name}-source")
    shutil.rmtree(work, ignore_errors=True)
    found = pages(root)
    navigation = (root / HERE.relative_to(ROOT) / "navigation.toml").read_text()
    try:
        placed = tabs(navigation, map(as_page, found))
    except ValueError as error:
        sys.exit(str(error))
    for page in found:
        copy(page, root, work / "pages")
    for name in ("site.css", "iframe-worker.js"):
        shutil.copy(HERE / name, work / "pages")
    settings = (HERE / "zensical.toml").read_text()
    lines = ",\n".join(entries(placed))
    (work / "zensical.toml").write_text(f"{settings}\n".replace(_HEAD, f"{_HEAD}nav = [{lines}]\n"))
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    said = COLOURS.sub("", done.stdout)
    sys.stdout.write(said.partition("Traceback")[0])  # what is wrong with a page stands before it
    if done.returncode:
        sys.exit(1)
    shutil.rmtree(to, ignore_errors=True)
    (work / "site").rename(to)
    shutil.rmtree(work)
    print(f"open {to / 'index.html'}")


def pages(root: Path) -> list[str]:
    """All pages and notebooks, as paths from the root."""
    files = [root / "README.md", root / "CHANGELOG.md"]
    for pattern in ("docs/**/*.md", "docs/**/*.ipynb", "examples/**/README.md"):
        files += sorted(root.glob(pattern))
    return [str(file.relative_to(root)) for file in files]


def as_page(name: str) -> str:
    """The page that a file becomes."""
    return f"{name.removesuffix('.ipynb')}.md" if name.endswith(".ipynb") else name


def tabs(text: str, found: Iterable[str]) -> dict[str, list[str]]:
    """Each tab with its pages; each page stands once. A line that names a page goes before all
    patterns, and patterns go in their order.

    Raises ValueError for a page that has no place, and for a line that names no page.
    """
    left = dict.fromkeys(found)
    lines = [(tab["title"], line) for tab in tomllib.loads(text)["tab"] for line in tab["pages"]]
    taken: dict[tuple[str, str], list[str]] = {}
    for named in (True, False):
        for title, line in lines:
            if ("*" not in line) is named:
                taken[title, line] = [one for one in left if fits(one, line)]
                left = {one: None for one in left if one not in taken[title, line]}
                if named and not taken[title, line]:
                    raise ValueError(f"navigation.toml names {line}, which isn't there")
    if left:
        raise ValueError(f"navigation.toml has no place for {', '.join(left)}")
    made: dict[str, list[str]] = {}
    for title, line in lines:
        made.setdefault(title, []).extend(taken[title, line])
    return made


def fits(name: str, pattern: str) -> bool:
    """Part by part: a `*` stands for what is in one folder."""
    path, wanted = PurePosixPath(name), PurePosixPath(pattern)
    return len(path.parts) == len(wanted.parts) and path.match(pattern)


def entries(made: dict[str, list[str]]) -> Iterator[str]:
    """The tabs as the builder's setting `nav`. A page's title is its first heading."""
    for title, names in made.items():
        one = json.dumps(names[0]) if len(names) == 1 else json.dumps(names)
        yield f"{{ {json.dumps(title)} = {one} }}"


def copy(name: str, root: Path, to: Path) -> None:
    """A page, and the files that it links to and that are no pages."""
    source = root / name
    text = from_notebook(source, to / name) if name.endswith(".ipynb") else source.read_text()
    for link in LINK.findall(text):
        file = source.parent / link
        if "://" not in link and file.is_file() and file.suffix not in (".md", ".ipynb"):
            target = to / os.path.relpath(file.resolve(), root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    target = to / as_page(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(as_python_markdown(NOTEBOOK.sub(r"\1.md)", text)))


def as_python_markdown(text: str) -> str:
    """The page for Python-Markdown, which is stricter than browsers of repositories in two things:
    a list needs an empty line above, and a `|` in code in a table is no end of the cell."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        above = lines[-1] if lines else ""
        prose = bool(above) and not fenced and not ITEM.match(above) and above[0] not in " #>|"
        if prose and ITEM.match(line):
            lines.append("")
        row = not fenced and line.startswith("|")
        lines.append(CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if row else line)
    return "\n".join(lines) + "\n"


def from_notebook(source: Path, to: Path) -> str:
    """A notebook as a page: its text, its code, what the code showed. Pictures become files beside
    it."""
    parts: list[str] = []
    for number, cell in enumerate(json.loads(source.read_text())["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            if "image/png" in shown:
                picture = to.with_name(f"{source.stem}-{number}.png")
                picture.parent.mkdir(parents=True, exist_ok=True)
                picture.write_bytes(base64.b64decode(shown["image/png"]))
                parts.append(f"![What the cell above shows]({picture.name})")
            elif said := "".join(output.get("text", shown.get("text/plain", ""))):
                parts.append(f"```text\n{said.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
