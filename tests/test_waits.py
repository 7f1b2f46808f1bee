"""Tests wait for a state, for as long as a busy machine takes. A test that can't hold on one is red
by chance, and costs the work of all. Each rule names every offender with its line.

Where time itself is what a test is about, its line says so: `# the stimulus: ...`. It must hold
then however late the line is reached, and however late it goes on behind it.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: These measure: they run by themselves, on a quiet machine.
MEASURE = ("bench", "soak")
#: Seconds that whatever is awaited may take at least.
SECONDS_MIN = 30
#: What waits for something; in which place its seconds are, if they have no name.
WAITS = {
    "wait": 0,
    "settimeout": 0,
    "join": 0,
    "result": 0,
    "timeout": 0,
    "wait_for": 1,
    "until": 2,
    "until_true": 2,
    "create_connection": 1,
    "communicate": 1,
}
NAMED = ("timeout", "seconds")
CLOCKS = ("time", "monotonic", "perf_counter")
STIMULUS = "# the stimulus"
#: Where memory is traced: in a process that has other threads, what they take is in it.
TRACES = "support/traced_memory.py"


@cache
def trees() -> dict[str, tuple[ast.Module, list[str]]]:
    """Each file of tests, parsed once, and its lines."""
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if not name.startswith(tuple(f"{folder}/" for folder in MEASURE)):
            text = path.read_text()
            found[name] = (ast.parse(text), text.splitlines())
    return found


def name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def constants(tree: ast.Module) -> dict[str, float]:
    """The numbers that a module names."""
    found = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                if isinstance(value, int | float):
                    found[name] = value
    return found


def number_of(node: ast.expr, known: dict[str, float]) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return known.get(name)
    return None


def short_waits(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Waits that give up before a busy machine has done what is awaited."""
    known = constants(tree)
    pauses = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.While)
        for inner in ast.walk(node.test)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := name_of(node)) in WAITS and node not in pauses:
            said = [one.value for one in node.keywords if one.arg in NAMED]
            said += node.args[WAITS[name] :][:1]
            numbers = [number_of(one, known) for one in said]
            if any(one is not None and 0 < one < SECONDS_MIN for one in numbers):
                yield node


def sleeps(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Sleeps that aren't the pause of a loop that looks for a state."""
    looked = {
        inner for node in ast.walk(tree) if isinstance(node, ast.While) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node) == "sleep" and node not in looked:
            match node.args:
                case [ast.Constant(value=0)]:
                    continue
            yield node


def hurries(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Claims that something took less than some seconds of a clock."""
    known = constants(tree) | {"PATIENCE": SECONDS_MIN}
    for node in ast.walk(tree):
        match node:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.BinOp(op=ast.Sub()) as left,
                    ops=[ast.Lt() | ast.LtE()],
                    comparators=[most],
                )
            ) if (number_of(most, known) or 0) < SECONDS_MIN:
                calls = (one for one in ast.walk(left) if isinstance(one, ast.Call))
                if any(name_of(one) in CLOCKS for one in calls):
                    yield node


def traces(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Memory traced by a test itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(one.name == "tracemalloc" for one in node.names):
            yield node


RULES: dict[str, tuple[Callable[[ast.Module], Iterator[ast.expr | ast.stmt]], str]] = {
    "short waits": (short_waits, f"give it {SECONDS_MIN} seconds at least, or no number"),
    "sleeps": (sleeps, "wait for a state"),
    "hurries": (hurries, "show by a state that nobody waited"),
    "traces": (traces, f"use {TRACES}"),
}


def offenders(rule: str, files: dict[str, tuple[ast.Module, list[str]]]) -> list[str]:
    look, _ = RULES[rule]
    return [
        f"tests/{name}:{node.lineno}: {lines[node.lineno - 1].strip()}"
        for name, (tree, lines) in files.items()
        if not (rule == "traces" and name == TRACES)
        for node in look(tree)
        if not any(STIMULUS in line for line in lines[node.lineno - 1 : node.end_lineno])
    ]


@pytest.mark.parametrize("rule", RULES)
def test_whatever_a_test_says_holds_on_a_busy_machine(rule: str) -> None:
    found = offenders(rule, trees())
    assert not found, f"{RULES[rule][1]}, or say `{STIMULUS}: why`:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("short waits", "until(ready, 'it is', 5)"),
        ("short waits", "SOON = 20\nreceiver.wait(SOON)"),
        ("short waits", "socket.create_connection(address, timeout=10)"),
        ("sleeps", "time.sleep(0.2)"),
        ("hurries", "assert time.monotonic() - began < 0.5"),
        ("traces", "import tracemalloc"),
    ],
)
def test_the_rules_find_what_they_forbid(rule: str, text: str) -> None:
    lines = text.splitlines()
    assert offenders(rule, {"x.py": (ast.parse(text), lines)})
    lines[-1] += f"  {STIMULUS}: why"
    assert not offenders(rule, {"x.py": (ast.parse(text), lines)})
