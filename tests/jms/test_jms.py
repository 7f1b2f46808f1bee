"""The Qpid JMS client, unmodified, against real gateways: every Java test is a test here.

They run once, in one JVM, when the first of them is asked for. Without a JDK they are skipped;
where `CI` is `true` that is a failure. `make jms` runs them alone.
"""

import os
import re
from collections.abc import Mapping

import pytest
from jms_suite import ROOT, Result, Verdict, named, run
from maven_jars import jdk_missing

#: Seconds; the first test waits for the whole suite.
pytestmark = pytest.mark.timeout(1_300)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    missing = jdk_missing()
    if missing:
        assert os.environ.get("CI") != "true", missing
        pytest.skip(missing)
    return {result.name: result for result in run(tmp_path_factory.mktemp("jms"))}


@pytest.mark.parametrize("name", named())
def test_with_the_qpid_jms_client(name: str, results: Mapping[str, Result]) -> None:
    """The Java test's own sentence holds."""
    result = results[name]
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(result.reason)
    assert result.verdict is Verdict.PASSED, result.reason


def test_every_java_test_is_one_here(results: Mapping[str, Result]) -> None:
    """The tests that ran are those in the sources: none is forgotten, none runs unseen."""
    assert sorted(results) == sorted(named())
    assert all(
        result.reason.startswith("pending: ")
        for result in results.values()
        if result.verdict is Verdict.SKIPPED
    )


PAGES = ("conformance.md", "conformance-documents.md")
PAGE = "".join((ROOT / "docs" / name).read_text() for name in PAGES)


def test_the_page_of_conformance_names_java_tests_that_are_there() -> None:
    """Every one that it names exists, and no class is left out."""
    shown = set(re.findall(r"`(\w+Test\.\w+)`", PAGE))
    assert not shown - set(named())
    assert {name.partition(".")[0] for name in shown} == {
        name.partition(".")[0] for name in named()
    }


def test_the_page_of_conformance_names_python_tests_that_are_there() -> None:
    """Each is a function of the file that it names."""
    shown = set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE))
    assert shown
    missing = {
        (file, test)
        for file, test in shown
        if f"\ndef {test}(" not in (ROOT / "tests" / file).read_text()
    }
    assert not missing


def test_every_row_of_the_page_of_conformance_is_shown_or_explained() -> None:
    """A row of what holds names a test; one that names none says why it differs."""
    for line in PAGE.splitlines():
        if not line.startswith("|") or line.startswith("|-"):
            continue
        if re.search(r"\| (yes|pending)\b", line):
            assert "`" in line.rsplit("|", 2)[1], f"nothing shows it: {line}"
