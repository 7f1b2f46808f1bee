"""The house rules that a linter does not know. Each test names every offender."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400

#: Room -> what it may import beyond the standard library and itself. Imports go one way: down.
MAY_IMPORT = {
    "pipeline": set(),
    "pipeline.tables": {
        "pipeline",
        "deltalake",
        "obstore",
        "pyarrow",
        "numpy",
        "pyroaring",
        "msgspec",
    },
    "pipeline.transforms": {"pipeline", "pyspark", "pandas", "pyarrow", "pyroaring", "numpy"},
    "conf": {"msgspec"},
    "jobs": {
        *("pipeline", "pipeline.tables", "pipeline.transforms", "conf"),
        *("pyspark", "py4j", "delta", "jgo", "click", "rich", "matplotlib"),
        *("msgspec", "structlog", "prometheus_client"),
        "proton",  # asks a running gateway
    },
    "ingest": {
        *("pipeline", "pipeline.tables", "conf", "jobs"),
        *("proton", "cproton", "cproton_ffi", "cffi", "msgspec", "numpy"),
        *("click", "rich", "structlog"),
    },
}

#: A file that may import more than its room, and why.
EXCEPTIONS = {
    "ingest/build_pump.py": {"hatchling"},  # runs when the package is built, not with the rest
    "jobs/demo_report.py": {"matplotlib"},  # draws the demo's picture
}

#: The core knows no clock, no dice, no log, no thread, no socket, no file and no process.
NOT_IN_THE_CORE = {
    *("time", "random", "secrets", "logging", "threading", "concurrent", "multiprocessing"),
    *("socket", "ssl", "select", "selectors", "asyncio", "os", "pathlib", "io", "shutil"),
    *("tempfile", "subprocess", "signal", "sched", "queue"),
}


def room_of(name):
    """The innermost room that a dotted name lies in; a stranger is its own top level."""
    rooms = [room for room in MAY_IMPORT if f"{name}.".startswith(f"{room}.")]
    return max(rooms, key=len, default=name.partition(".")[0])


def sources():
    """Every file of ours as (path below the root, room, tree)."""
    for top in ("pipeline", "ingest", "jobs", "conf"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = path.relative_to(ROOT)
            yield name.as_posix(), room_of(".".join(name.parent.parts)), ast.parse(path.read_text())


def imports(tree, package):
    """The dotted names that a file imports, wherever in it the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def forbidden(path, room, tree):
    """The imports of a file that its room may not have."""
    library = sys.stdlib_module_names - (NOT_IN_THE_CORE if room == "pipeline" else set())
    allowed = library | MAY_IMPORT[room] | EXCEPTIONS.get(path, set()) | {room}
    for name in imports(tree, path.split("/")[:-1]):
        if room_of(name) not in allowed:
            yield name


def long_functions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno} {node.name} has {lines} lines"


def test_every_import_goes_down():
    """A room imports what its row allows, and the core nothing that isn't pure."""
    bad = [
        f"{path} imports {name}"
        for path, room, tree in sources()
        for name in forbidden(path, room, tree)
    ]
    assert not bad, "\n".join(bad)


def test_functions_fit_on_a_screen():
    """A function that must be scrolled is two functions."""
    bad = [f"{path}:{what}" for path, _, tree in sources() for what in long_functions(tree)]
    assert not bad, "\n".join(bad)


def test_files_hold_one_idea():
    """A file that has grown too long has more than one idea in it."""
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path, _, _ in sources()}
    bad = [f"{path} has {n} lines" for path, n in lengths.items() if n > FILE_LINES_MAX]
    assert not bad, "\n".join(bad)


def test_every_room_is_there():
    """A rule about a room that has moved would hold for ever."""
    assert {room for _, room, _ in sources()} == set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("pipeline/a.py", "import time"),
        ("pipeline/a.py", "from os import path"),
        ("pipeline/a.py", "import numpy"),
        ("pipeline/a.py", "from pipeline import tables"),
        ("pipeline/a.py", "from .tables import home"),
        ("pipeline/a.py", "def f():\n    import pipeline.transforms.acks"),
        ("pipeline/tables/a.py", "import pyspark.sql"),
        ("pipeline/tables/a.py", "from pipeline.transforms import acks"),
        ("pipeline/transforms/a.py", "from ..tables import home"),
        ("pipeline/transforms/a.py", "import proton"),
        ("ingest/a.py", "from pyspark.sql import SparkSession"),
        ("ingest/a.py", "import hatchling"),
        ("jobs/a.py", "import ingest.main"),
        ("jobs/a.py", "import cproton"),
        ("jobs/a.py", "import tests"),
        ("conf/a.py", "import pipeline"),
    ],
)
def test_a_wrong_import_is_seen(path, line):
    """The rule can fail: each of these is against it."""
    room = room_of(".".join(path.split("/")[:-1]))
    assert list(forbidden(path, room, ast.parse(line)))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("pipeline/a.py", "from pipeline.errors import StoreError"),
        ("pipeline/a.py", "import struct"),
        ("pipeline/tables/a.py", "import os, time, pyarrow.parquet"),
        ("pipeline/tables/a.py", "from . import home"),
        ("ingest/a.py", "from ingest import _pump"),
        ("ingest/a.py", "from jobs.materialize import main"),
        ("ingest/build_pump.py", "import hatchling.builders"),
        ("jobs/a.py", "from pipeline.transforms.acks import acks"),
    ],
)
def test_a_right_import_is_let_be(path, line):
    """The rule is no nuisance: each of these is as it should be."""
    room = room_of(".".join(path.split("/")[:-1]))
    assert not list(forbidden(path, room, ast.parse(line)))


def test_a_long_function_is_seen():
    """The limit is the last length that is right."""
    body = "\n".join(["    pass"] * FUNCTION_LINES_MAX)
    assert list(long_functions(ast.parse(f"def f():\n{body}")))
    assert not list(long_functions(ast.parse(f"def f():\n{body[:-9]}")))


def test_every_test_file_has_a_name_of_its_own() -> None:
    """Of two modules of one name only the first is collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
