"""Tests read pages by what waits: `expect`, or `chromium.py`, which looks that a page is whole.

What answers at once does so of whatever page is there at that moment: after a click the one of
before, or half of the next. It fails on a busy machine, one run of many.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
#: Of pages and locators. Of `count` those calls that have no argument: texts and lists have one.
AT_ONCE = {
    *("all", "all_inner_texts", "all_text_contents", "content", "count", "element_handle"),
    *("element_handles", "eval_on_selector", "eval_on_selector_all", "evaluate", "evaluate_all"),
    *("get_attribute", "inner_html", "inner_text", "input_value", "is_checked", "is_disabled"),
    *("is_editable", "is_enabled", "is_hidden", "is_visible", "query_selector"),
    *("query_selector_all", "text_content", "title", "bounding_box", "aria_snapshot"),
    "wait_for_timeout",  # a sleep of so long: what is waited for may take longer
}


def reads(code: str) -> Iterator[str]:
    """The lines of a file of tests in a browser that read a page without a wait."""
    tree = ast.parse(code)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [(node, node.func) for node in calls if isinstance(node.func, ast.Attribute)]
    pages = {ast.unparse(func.value) for _, func in called if func.attr == "goto"}
    for node, func in called:
        if func.attr in AT_ONCE and not (func.attr == "count" and node.args):
            yield f"{node.lineno}: {ast.unparse(node)}"
    for found in ast.walk(tree):
        if (
            isinstance(found, ast.Attribute)
            and found.attr == "url"
            and ast.unparse(found.value) in pages
        ):
            yield f"{found.lineno}: {ast.unparse(found)}"


def in_a_browser() -> list[Path]:
    files = [*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py")]
    return [path for path in files if "from playwright" in path.read_text()]


def test_no_page_is_read_at_once() -> None:
    files = in_a_browser()
    assert len(files) > 10
    found = {path.name: list(reads(path.read_text())) for path in files}
    assert not any(found.values()), {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "line",
    [
        "assert page.locator('th').all_inner_texts()[0] == 'a'",
        "assert rows.count() == 1",
        "assert page.url == 'x'",
        "assert page.title() == 'x'",
        "assert page.evaluate('1')",
        "page.wait_for_timeout(500)",
    ],
)
def test_such_reads_are_found(line: str) -> None:
    assert list(reads(f"page.goto(console.url)\n{line}"))


def test_others_are_not() -> None:
    assert not list(reads("page.goto(console.url)\nassert 'aa'.count('a') == 2\nexpect(page)"))
