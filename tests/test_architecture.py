"""The house rules that a linter does not know. Each test names every offender with its line.

The picture of the rooms and their arrows is in `docs/architecture.md`; it is read from there, so
what the page says is so.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
#: The folders of the repository that are the package `distributary`, and the examples beside it.
TOPS = ("pipeline", "ingest", "client", "jobs", "conf", "examples")
#: The rooms of the examples; what else is there are programs to be copied, each by itself.
EXAMPLES = ("examples", "examples/demo", "examples/fleet")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
#: C needs more lines for as much, and its files are compiled as one.
C_FILE_LINES_MAX = 700
C_FUNCTION_LINES_MAX = 90
ROOM_FILES_MAX = 13
#: What a constructor takes beside `self`.
ARGUMENTS_MAX = 7

#: Folder -> which other top-level folders it may import, and which packages of others.
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "pipeline": frozenset({"msgspec"}),  # structs: what is made for each run must cost little
    # An extra of its own: a gateway without schemas doesn't load it.
    "pipeline/schemas/formats": frozenset(
        {"pipeline", "jsonschema_rs", "fastavro", "google", "msgspec"}
    ),
    "pipeline/tables": frozenset(
        {
            *("pipeline", "pipeline/tables/arrow"),
            *("deltalake", "obstore", "pyarrow", "numpy", "pyroaring", "msgspec"),
        }
    ),
    "pipeline/tables/arrow": frozenset({"pipeline", "pyarrow", "numpy", "pyroaring"}),
    "pipeline/transforms": frozenset(
        {
            *("pipeline", "pipeline/tables/arrow", "pipeline/schemas/formats"),
            *("pyspark", "pandas", "pyarrow", "pyroaring", "numpy"),
        }
    ),
    "conf": frozenset({"msgspec"}),
    "jobs": frozenset(
        {
            *(
                "pipeline",
                "pipeline/tables",
                "pipeline/tables/arrow",
                "pipeline/transforms",
                "conf",
            ),
            "pyarrow",  # slices of the log are rows in Arrow
            *("pyspark", "py4j", "delta", "jgo", "click", "rich"),
            *("msgspec", "structlog", "prometheus_client"),
            "proton",  # asks a running gateway
            "client",  # publishes to one
        }
    ),
    "ingest": frozenset(
        {
            *("pipeline", "pipeline/tables", "pipeline/tables/arrow", "conf", "jobs"),
            *("proton", "cproton", "cproton_ffi", "cffi", "msgspec", "numpy"),
            *("click", "rich", "structlog"),
            *("h11", "prometheus_client"),  # metrics and health
            *("ingest/native", "ingest/security"),
            "pipeline/schemas/formats",  # by a process of its own, and by the command line
            "ingest/console",  # by the command line alone
            "client",  # by the command line, and by what relays links to other gateways
        }
    ),
    # What the Python client imports, too: no tables, no settings of the gateway's.
    "ingest/native": frozenset(
        {"pipeline", "ingest", "proton", "cproton", "cproton_ffi", "cffi", "msgspec", "numpy"}
    ),
    "ingest/security": frozenset(
        {"pipeline", "ingest", "ingest/native", "proton", "structlog", "msgspec"}
    ),
    "client": frozenset(
        {"pipeline", "conf", "ingest/native", "ingest/security", "cproton", "msgspec"}
    ),
    # A process of its own with an extra of its own: what the gateway imports has none of these.
    "ingest/console": frozenset(
        {
            *("pipeline", "pipeline/tables", "pipeline/tables/arrow", "conf", "jobs", "ingest"),
            *("ingest/native", "ingest/security"),
            *("starlette", "uvicorn", "jinja2", "msgspec", "pyarrow", "numpy", "deltalake"),
        }
    ),
    "examples": frozenset(
        {
            *("pipeline", "pipeline/tables", "pipeline/transforms", "conf", "jobs", "ingest"),
            *("ingest/native", "client"),
            *("proton", "cproton", "click", "rich", "matplotlib", "pyspark", "numpy", "pyarrow"),
            "msgspec",
        }
    ),
}

#: A file that may import more than its folder, and why.
EXCEPTIONS: Mapping[str, frozenset[str]] = {
    # Tasks read a table's files by themselves.
    "pipeline/transforms/views/file_sums.py": frozenset({"pipeline/tables"}),
    "ingest/native/build_pump.py": frozenset({"hatchling"}),  # runs when the package is built
    "ingest/tracing/span_process.py": frozenset({"opentelemetry"}),  # a process of its own
}

#: The core knows no clock, no dice, no log, no thread, no socket, no file and no process.
NOT_IN_THE_CORE = {
    *("time", "random", "secrets", "logging", "threading", "concurrent", "multiprocessing"),
    *("socket", "ssl", "select", "selectors", "asyncio", "os", "pathlib", "io", "shutil"),
    *("tempfile", "subprocess", "signal", "sched", "queue"),
}


@dataclass(frozen=True)
class Import:
    """One import: the dotted name, where it stands, and the file of ours that it means, if any."""

    name: str
    line: int
    file: str | None


def files() -> Iterator[Path]:
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            if top != "examples" or named(path.parent) in EXAMPLES:
                yield path


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


#: Every file of ours as a path below the root.
OURS = frozenset(named(path) for path in files())


def file_of(name: str) -> str | None:
    """The file of ours that a dotted name lies in; None if it isn't ours."""
    parts = name.split(".")
    if parts[0] == "distributary":
        parts = parts[1:]
    elif parts[0] != "examples":
        return None
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count])
        if f"{path}.py" in OURS:
            return f"{path}.py"
        if f"{path}/__init__.py" in OURS:
            return f"{path}/__init__.py"
    return None


def imports(tree: ast.AST) -> Iterator[Import]:
    """The imports of a file, at any place in it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(level=0, module=str() as module):
                names = [f"{module}.{alias.name}" for alias in node.names]
            case ast.ImportFrom():
                names = ["." * node.level]
            case _:
                continue
        yield from (Import(name, node.lineno, file_of(name)) for name in names)


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """The imports of a file, which is parsed once for them."""
    return tuple(imports(ast.parse(path.read_text())))


def room_of(path: str) -> str:
    """The folder in which a file stands."""
    return path.rpartition("/")[0]


def top_of(path: str) -> str:
    """The row of MAY_IMPORT for a file, or for a package of others by its name."""
    rows = [row for row in MAY_IMPORT if path.startswith(f"{row}/")]
    return max(rows, key=len, default=path)


def forbidden(path: str, found: Iterable[Import]) -> Iterator[str]:
    """The imports of a file that its folder may not have."""
    row = top_of(path)
    library = sys.stdlib_module_names - (NOT_IN_THE_CORE if row == "pipeline" else set())
    allowed = MAY_IMPORT[row] | EXCEPTIONS.get(path, frozenset()) | {row}
    for one in found:
        if one.file is None:
            said = one.name.partition(".")[0]
            right = said not in TOPS and (said in library or said in allowed)
        else:
            right = top_of(one.file) in allowed or one.name == "distributary"
        if not right and one.name != "distributary":
            yield f"{path}:{one.line} imports {one.name}"


def picture(text: str) -> dict[str, frozenset[str]]:
    """The rooms in the page's picture, each with the rooms of its own top-level folder that it
    imports."""
    found: dict[str, frozenset[str]] = {}
    above: list[tuple[int, str]] = []
    block = text.partition("## The rooms")[2]
    for line in block.splitlines():
        match = re.match(r"^( {4,})([\w/]+)/ +(?:← ([\w/ ]*?))?(?:  |$)", line + "  ")
        if match is None:
            continue
        indent, name, arrows = len(match[1]), match[2], match[3] or ""
        while above and above[-1][0] >= indent:
            above.pop()
        room = "/".join([*(part for _, part in above), name])
        above.append((indent, name))
        found[room] = frozenset(arrows.split())
    return found


@cache
def arrows() -> dict[str, dict[str, str]]:
    """The arrows of the code: room -> room of the same top-level folder -> where one is."""
    found: dict[str, dict[str, str]] = {room_of(path): {} for path in OURS}
    for path in files():
        room = room_of(named(path))
        for one in imports_of(path):
            if one.file is None or one.file.endswith("__init__.py"):
                continue
            other = room_of(one.file)
            if other != room and other.partition("/")[0] == room.partition("/")[0]:
                found[room].setdefault(other, f"{named(path)}:{one.line}")
    return found


def circles(edges: Mapping[str, Iterable[str]]) -> list[frozenset[str]]:
    """Circles: strongly connected parts of two nodes and more."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            part = frozenset(stack[place:])
            del stack[place:]
            if len(part) > 1:
                found.append(part)

    for node in edges:
        if node not in index:
            visit(node)
    return found


def long_functions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno} {node.name} has {lines} lines"


def long_c_functions(text: str) -> Iterator[str]:
    """In our C a function ends with the first `}` at the begin of a line."""
    began = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("{") or (line.endswith("{") and not line.startswith((" ", "\t"))):
            began = number
        elif line.startswith("}") and began:
            if number - began + 1 > C_FUNCTION_LINES_MAX:
                yield f"{began} has {number - began + 1} lines"
            began = 0


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Each file of ours, parsed; no longer than this file's tests need them."""
    return {named(path): ast.parse(path.read_text()) for path in files()}


def test_every_import_goes_down() -> None:
    """A folder imports what its row allows, and the core nothing that isn't pure."""
    bad = [said for path in files() for said in forbidden(named(path), imports_of(path))]
    assert not bad, "\n".join(bad)


def test_the_picture_is_of_this_house() -> None:
    """Each room of the page is a folder, and each folder with files is on the page."""
    shown = picture(PAGE.read_text())
    there = {room_of(path) for path in OURS}
    lost = [f"{room} is in the picture and has no files" for room in shown.keys() - there]
    hidden = [f"{room} is not in the picture of {PAGE.name}" for room in there - shown.keys()]
    assert not [*lost, *hidden]


def test_the_arrows_are_those_of_the_code() -> None:
    """No import without its arrow, no arrow without an import."""
    shown = picture(PAGE.read_text())
    bad = []
    for room, others in arrows().items():
        top = room.partition("/")[0]
        said = {top if one == top else f"{top}/{one}" for one in shown.get(room, frozenset())}
        bad += [
            f"{where} imports {other}: {room} has no arrow to it"
            for other, where in others.items()
            if other not in said
        ]
        bad += [f"{room} has an arrow to {one} and no import" for one in said - others.keys()]
    assert not bad, "\n".join(bad)


def test_no_rooms_go_in_a_circle() -> None:
    """Rooms that import each other would be one room."""
    assert not circles(arrows())


def test_no_files_go_in_a_circle() -> None:
    """Files that import each other would be one file; imports for types count, too."""
    edges = {
        named(path): {
            one.file
            for one in imports_of(path)
            if one.file is not None and not one.file.endswith("__init__.py")
        }
        for path in files()
    }
    assert not circles(edges)


def test_rooms_are_small() -> None:
    """One look at a folder tells what is in it."""
    counts: dict[str, int] = {}
    for path in OURS:
        if not path.endswith(("__init__.py", "__main__.py")):
            counts[room_of(path)] = counts.get(room_of(path), 0) + 1
    bad = [f"{room} has {count} files" for room, count in counts.items() if count > ROOM_FILES_MAX]
    assert not bad


def test_every_room_says_what_it_is() -> None:
    """Its `__init__.py` begins with what the room is for."""
    bad = []
    for room in {room_of(path) for path in OURS}:
        if f"{room}/__init__.py" not in OURS:
            bad.append(f"{room} has no __init__.py")
        elif not ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())):
            bad.append(f"{room}/__init__.py says nothing")
    assert not bad


def test_file_names_are_there_once() -> None:
    """A name means one file."""
    where: dict[str, list[str]] = {}
    for path in sorted(OURS):
        name = path.rpartition("/")[2]
        if name not in ("__init__.py", "__main__.py"):
            where.setdefault(name, []).append(path)
    assert not [paths for paths in where.values() if len(paths) > 1]


def late_calls(tree: ast.AST) -> Iterator[str]:
    """Parts of an object that are filled in later: attributes without a value at first, callbacks
    that other code assigns, `bind`; and constructors with too many arguments to be read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "bind":
            yield f"{node.lineno} {node.name}: what a thing needs it gets when it is made"
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            count = len(node.args.args) + len(node.args.kwonlyargs) - 1
            if count > ARGUMENTS_MAX:
                yield f"{node.lineno} a constructor with {count} arguments"
            for inner in ast.walk(node):
                match inner:
                    case ast.AnnAssign(target=ast.Attribute(attr=name), value=None):
                        yield f"{inner.lineno} {name} has no value when the thing is made"
                    case (
                        ast.AnnAssign(target=ast.Attribute(attr=name), value=ast.Lambda())
                        | ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Lambda())
                    ):
                        yield f"{inner.lineno} {name} is a slot for a callback"


def callable_attributes(tree: ast.AST) -> Iterator[str]:
    """The names of attributes that are said to hold a callable."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and "Callable" in ast.unparse(node.annotation):
            if isinstance(node.target, ast.Attribute):
                yield node.target.attr
            elif isinstance(node.target, ast.Name):
                yield node.target.id


def assigned_from_outside(tree: ast.AST, names: Iterable[str]) -> Iterator[str]:
    """Assignments to an attribute of these names of something else than `self`."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            match target:
                case ast.Attribute(value=ast.Name(id="self")):
                    pass
                case ast.Attribute(attr=name) if name in names:
                    yield f"{target.lineno} {name} is filled in from outside"


def test_nothing_is_filled_in_later(trees: dict[str, ast.Module]) -> None:
    """A constructor shows all parts of its object, and "go to definition" finds the called function
    (the parts meet in `ingest.gateway.message_loop`)."""
    slots = {name for tree in trees.values() for name in callable_attributes(tree)}
    bad = [
        f"{path}:{what}"
        for path, tree in trees.items()
        for what in (*late_calls(tree), *assigned_from_outside(tree, slots))
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n def __init__(self):\n  self.b: int",
        "class A:\n def __init__(self):\n  self.b: Callable[[], None] = lambda: None",
        "class A:\n def __init__(self):\n  self.b = lambda: None",
        "class A:\n def bind(self, b):\n  pass",
        "class A:\n def __init__(self, a, b, c, d, e, f, g, h):\n  pass",
    ],
)
def test_what_is_filled_in_later_is_seen(text: str) -> None:
    """The rule can fail: each of these is against it."""
    assert list(late_calls(ast.parse(text)))


def test_a_slot_that_is_filled_from_outside_is_seen() -> None:
    """It is seen if the attribute is known to hold a callable."""
    tree = ast.parse("log.arrived = self.arrived\nself.arrived = arrived\nlog.count = 3")
    assert list(assigned_from_outside(tree, {"arrived"})) == ["1 arrived is filled in from outside"]


#: Of libraries: names that begin so and are their public face, or the only way to what is needed.
FOREIGN = frozenset(
    {"_asdict", "_ensure_initialized", "_exit", "_gateway", "_impl", "_jsc", "_jvm", "_replace"}
)


def poked(code: str) -> list[str]:
    """Private names of others that a test reads or changes: `place.name`."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in FOREIGN
        and ast.unparse(node.value) not in {"self", "cls"}
    ]


def test_tests_look_at_what_is_public() -> None:
    """So the inside of a class may change without them."""
    found = {
        str(file.relative_to(ROOT)): names
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if (names := poked(file.read_text()))
    }
    assert not found


def test_a_poke_is_seen() -> None:
    assert poked("a = self._mine + other._theirs.x\nb._full = 3") == ["b._full", "other._theirs"]


def test_functions_fit_on_a_screen(trees: dict[str, ast.Module]) -> None:
    """A function that must be scrolled is two functions."""
    bad = [f"{path}:{what}" for path, tree in trees.items() for what in long_functions(tree)]
    bad += [
        f"{named(path)}:{what}"
        for path in sorted((ROOT / "ingest").rglob("*.c"))
        if path.name != "_pump.c"
        for what in long_c_functions(path.read_text())
    ]
    assert not bad, "\n".join(bad)


def test_files_hold_one_idea() -> None:
    """A file that has grown too long has more than one idea in it."""
    limits = {".py": FILE_LINES_MAX, ".c": C_FILE_LINES_MAX}
    there = [*files(), *(path for path in (ROOT / "ingest").rglob("*.c") if path.name != "_pump.c")]
    bad = [
        f"{named(path)} has {count} lines"
        for path in there
        if (count := len(path.read_text().splitlines())) > limits[path.suffix]
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("pipeline/model/a.py", "import time"),
        ("pipeline/model/a.py", "from os import path"),
        ("pipeline/model/a.py", "import numpy"),
        ("pipeline/model/a.py", "from distributary.pipeline.tables.home import home"),
        ("pipeline/model/a.py", "from .address import Destination"),
        ("pipeline/model/a.py", "from pipeline.model import address"),
        (
            "pipeline/log/a.py",
            "def f():\n    import distributary.pipeline.transforms.views.pending",
        ),
        ("pipeline/tables/home/a.py", "import pyspark.sql"),
        (
            "pipeline/tables/home/a.py",
            "from distributary.pipeline.transforms.materialize import acks",
        ),
        ("pipeline/transforms/views/a.py", "from distributary.pipeline.tables.home import home"),
        ("pipeline/transforms/views/a.py", "import proton"),
        ("ingest/net/a.py", "from pyspark.sql import SparkSession"),
        ("ingest/net/a.py", "import hatchling"),
        ("jobs/views/a.py", "import distributary.ingest.cli.main"),
        ("jobs/views/a.py", "import cproton"),
        ("jobs/views/a.py", "import tests"),
        ("jobs/views/a.py", "from examples.demo import demo"),
        ("conf/a.py", "import distributary.pipeline.errors"),
        ("client/a.py", "from distributary.ingest.net import engine"),
        ("client/a.py", "from distributary.pipeline.tables.home import home"),
        ("client/a.py", "import pyspark"),
        ("pipeline/log/a.py", "import distributary.client"),
    ],
)
def test_a_wrong_import_is_seen(path: str, line: str) -> None:
    """The rule can fail: each of these is against it."""
    assert list(forbidden(path, imports(ast.parse(line))))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("pipeline/model/a.py", "from distributary.pipeline.errors import StoreError"),
        ("pipeline/model/a.py", "import struct"),
        ("pipeline/tables/home/a.py", "import os, time, pyarrow.parquet"),
        ("ingest/net/a.py", "from distributary.ingest.native import pump"),
        ("ingest/cli/a.py", "from distributary.jobs.materialize.materialize import main"),
        ("ingest/native/build_pump.py", "import hatchling.builders"),
        ("jobs/views/a.py", "from distributary.pipeline.transforms.materialize.acks import acks"),
    ],
)
def test_a_right_import_is_let_be(path: str, line: str) -> None:
    """The rule is no nuisance: each of these is as it should be."""
    assert not list(forbidden(path, imports(ast.parse(line))))


def test_a_circle_is_seen() -> None:
    """Of three, of which two import each other."""
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"]}) == [frozenset("bc")]


def test_the_picture_is_read() -> None:
    """Rooms by their place, arrows by their names."""
    text = """## The rooms

    pipeline/           the domain
      model/            ← codec tables/home   words
      codec/                                  bytes
        inner/          ←                     nothing
"""
    assert picture(text) == {
        "pipeline": frozenset(),
        "pipeline/model": frozenset({"codec", "tables/home"}),
        "pipeline/codec": frozenset(),
        "pipeline/codec/inner": frozenset(),
    }


def test_a_long_function_is_seen() -> None:
    """The limit is the last length that is right; in C, too."""
    body = "\n".join(["    pass"] * FUNCTION_LINES_MAX)
    assert list(long_functions(ast.parse(f"def f():\n{body}")))
    assert not list(long_functions(ast.parse(f"def f():\n{body[:-9]}")))
    code = "\n".join(["  go();"] * C_FUNCTION_LINES_MAX)
    assert list(long_c_functions(f"int f(void) {{\n{code}\n}}\n"))
    assert not list(long_c_functions("int f(void) {\n  go();\n}\n"))


def test_every_test_file_has_a_name_of_its_own() -> None:
    """Of two modules of one name only the first is collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
