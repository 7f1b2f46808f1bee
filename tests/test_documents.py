"""Statements of the documents about tests, settings, files and names are true."""

import ast
import re
import tomllib
from functools import cache
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
    here = "pipeline/tables/verify/test_verify.py"
    assert missing(f"`{here}`, `::test_nothing`") == [f"{here}::test_nothing"]
    assert not missing(f"`{here}::test_what_is_broken_is_named`")


#: What a number is followed by in a table, and what that makes of it.
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "Mi": 1 << 20, "GiB": 1 << 30}


def numbers(cell: str) -> list[int]:
    """The numbers that a cell of a table begins with."""
    found = re.findall(r"(\d[\d,]*)(?: (KiB|MiB|Mi|GiB)\b)?(?:, |$|:|;)", cell)
    return [int(number.replace(",", "")) * UNITS[unit] for number, unit in found]


def other_defaults(text: str, conf: dict[str, dict[str, object]]) -> list[str]:
    """The rows of tables whose first cell names settings (`section.key`, `key` of the section named
    before) and that say another default than the settings have."""
    wrong: list[str] = []
    for row in text.splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        names = re.findall(r"`(?:(\w+)\.)?(\w+)`", cells[0])
        if len(cells) < 4 or not names or names[0][0] not in conf:
            continue
        section = conf[names[0][0]]
        values = [section.get(key) for _, key in names]
        if values != numbers(cells[2])[: len(values)]:
            wrong.append(f"{cells[0]}: {cells[2]}, not {values}")
    return wrong


def limits_page() -> tuple[str, str, str]:
    """The page of limits: what is of the gateway, of Spark's jobs, of the console."""
    text = (ROOT / "docs" / "limits.md").read_text()
    gateway, rest = text.split("## Limits of the console")
    console, jobs = rest.split("## Limits of Spark's jobs")
    return gateway, jobs, console


def test_every_default_on_the_page_of_limits_is_the_settings() -> None:
    """With its unit; of the gateway, of Spark's jobs, and of the console."""
    gateway, jobs, console = limits_page()
    files = ((gateway, "distributary.toml"), (jobs, "jobs.toml"), (console, "console.toml"))
    for text, file in files:
        conf = tomllib.loads((ROOT / "conf" / file).read_text())
        assert not other_defaults(text, conf)
        assert len(other_defaults(text.replace("1", "7"), conf)) > 1, "it sees a wrong number"


def test_every_limit_of_the_settings_is_on_the_page() -> None:
    """A setting that ends in `_max` is a limit; that of a redelivery's delay bounds no memory."""
    gateway, jobs, console = limits_page()
    ours = tomllib.loads((ROOT / "conf" / "console.toml").read_text())
    named = set(re.findall(r"\w+", console))
    assert not {key for part in ("sessions", "asking", "pages") for key in ours[part]} - named
    conf = tomllib.loads((ROOT / "conf" / "distributary.toml").read_text())
    limits = {key for section in conf.values() for key in section if key.endswith("_max")}
    assert not {key for key in limits if key not in gateway} - {"redelivery_delay_ms_max"}
    assert "slice_rows" in jobs


#: The parts of a decision, each with the words that begin it.
PARTS = {
    "the question": ("**Context", "**Question"),
    "what was decided": ("**Decision",),
    "what was rejected": ("**Rejected.**", "## Rejected"),
    "how it is shown": ("**Evidence.**",),
    "its status": ("**Status.**",),
}


def absent_parts(text: str) -> list[str]:
    """The parts that a decision lacks."""
    lines = text.splitlines()
    return [
        part for part, words in PARTS.items() if not any(line.startswith(words) for line in lines)
    ]


def test_each_decision_has_its_parts() -> None:
    """A reader finds in each the question, the decision, rejected ways, evidence and status."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert len(decisions) > 90
    absent = {page.name: absent_parts(page.read_text()) for page in decisions}
    assert not {page: parts for page, parts in absent.items() if parts}
    assert absent_parts("# 1. Title\n\n**Decision.** Yes.\n\n**Status.** Accepted.") == [
        "the question",
        "what was rejected",
        "how it is shown",
    ]


def test_the_list_of_decisions_has_their_titles() -> None:
    """A title that was changed in its page alone would be another one in the list."""
    folder = ROOT / "docs" / "decisions"
    rows = re.findall(
        r"^\| \[\d+\]\(([^)]+)\) \| (.*) \| \w+ \|$",
        (folder / "README.md").read_text(),
        re.MULTILINE,
    )
    titles = {
        page.name: re.sub(r"^# \d+\. ", "", page.read_text().splitlines()[0])
        for page in folder.glob("[0-9]*.md")
    }
    assert dict(rows) == titles


#: A file of ours as pages name it: `room/file.py`, `file.py`, `test_file.py::test_it`.
FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|c|sql))(?=[`:])")
#: A folder of ours, or files by a pattern: `tests/bench`, `docs/guides/*.md`.
FOLDER = re.compile(r"`((?:tests|pipeline|ingest|jobs|conf|docs|examples)/[\w/*-]*(?:\*\.\w+)?)`")
#: Folders that the repository doesn't have: what is built, installed or made by a reader.
FOREIGN = ("build/", "dist/", "site-packages/")
#: What isn't ours, and files that a decision rejects.
NOT_OURS = {"setup.py"}
ROOMS = ("pipeline", "ingest", "jobs", "conf")


def pages() -> list[Path]:
    """All pages of ours, the decisions too."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def file_names() -> frozenset[str]:
    """The names of all files that pages may name without a folder."""
    folders = (*ROOMS, "examples", "tests", "docs")
    return frozenset(file.name for folder in folders for file in (ROOT / folder).rglob("*.*"))


def absent_files(text: str) -> list[str]:
    """The files and folders that a text names in backticks and that are not there; tests may be
    named without `tests/`, and a file without its folder."""
    absent = [name for name in FOLDER.findall(text) if not any(ROOT.glob(name.rstrip("/")))]
    return absent + [
        name
        for name in FILE.findall(text)
        if not name.startswith(FOREIGN)
        and name not in NOT_OURS
        and not (ROOT / name).is_file()
        and not (ROOT / "tests" / name).is_file()
        and ("/" in name or name not in file_names())
    ]


def test_every_file_that_a_page_names_is_there() -> None:
    """A file that was moved or renamed would be looked for in vain."""
    absent = {str(page.relative_to(ROOT)): absent_files(page.read_text()) for page in pages()}
    assert not {page: names for page, names in absent.items() if names}
    assert absent_files("`pipeline/nothing.py` `nothing.c`") == ["pipeline/nothing.py", "nothing.c"]
    assert absent_files("`tests/nothing` `jobs/*.nothing`") == ["tests/nothing", "jobs/*.nothing"]


def old_imports(text: str) -> list[str]:
    """Modules in a text's code that aren't below `distributary`, or that aren't there."""
    found = re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE)
    found += re.findall(r"`([a-z_]+\.[\w.]+)[`(]", text)
    wrong: list[str] = []
    for name in found:
        parts = name.split(".")
        if parts[0] in ROOMS and "/".join(parts) not in ("conf/toml", "jobs/toml"):
            wrong.append(name)
        elif name.startswith("distributary.") and parts[1] in ROOMS:
            inside = ROOT.joinpath(*parts[1:])
            above = inside.parent.with_suffix(".py")  # the last part may be a name in the module
            there = inside.is_dir() or inside.with_suffix(".py").is_file()
            if not there and not (above.is_file() and parts[-1] in above.read_text()):
                wrong.append(name)
    return wrong


def test_pages_import_below_the_one_name() -> None:
    """`distributary...`, and modules that are there."""
    wrong = {str(page.relative_to(ROOT)): old_imports(page.read_text()) for page in pages()}
    assert not {page: names for page, names in wrong.items() if names}
    assert old_imports("from jobs.session import x") == ["jobs.session"]
    assert old_imports("`distributary.jobs.nothing`") == ["distributary.jobs.nothing"]


def absent_names(text: str) -> list[str]:
    """Of the rows of a glossary: classes and functions that their row's file doesn't define. A row
    is of cells; names (`Name`) and one or more files (`room/file.py`) stand in backticks."""
    absent: list[str] = []
    for row in text.splitlines():
        files = [name for name in FILE.findall(row) if name.endswith(".py")]
        names = re.findall(r"`((?:[A-Z]\w*[a-z]\w*))`(?!\()", row)
        if not row.startswith("|") or not files:
            continue
        defined = {
            node.name
            for file in files
            for node in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        absent += [f"{name}: {', '.join(files)}" for name in names if name not in defined]
    return absent


def test_every_class_of_the_glossary_is_where_it_says() -> None:
    """Both tables: files by their whole path, classes in one of their row's files."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    files = FILE.findall(text)
    assert len(files) > 60
    assert not [name for name in files if "/" not in name or not (ROOT / name).is_file()]
    assert not absent_names(text)
    assert absent_names("| `Nothing` | `pipeline/model/message.py` |")
