"""rhea's tests, run once: Node from its wheel, rhea by its lock file, one process of tests.

The tests are JavaScript (`rhea/*.test.js`, Node's own test runner). What runs is a copy under
`build/clients/rhea`, beside the modules that `npm ci` has put there; a second run installs
nothing. Each test of theirs is one of pytest's.
"""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from node_program import install

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "rhea"
BUILT = ROOT / "build" / "clients" / "rhea"
#: Seconds for one test; one that waits for an event that never comes is ended by it.
TEST_SECONDS_MAX = 120
SUITE_SECONDS_MAX = 240


class SuiteFailed(Exception):
    """The suite didn't run to its end; the message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test; `skipped` and `failure` hold the reason, if there is one."""

    name: str
    failure: str = ""
    skipped: str = ""


def listed() -> list[str]:
    """The names of all tests, as Node's runner has them from the sources without running any."""
    found: list[str] = []
    for source in sorted(SOURCES.glob("*.test.js")):
        found += re.findall(r'^test\("([^"]+)"', source.read_text(), re.MULTILINE)
    return found


def run(places: Mapping[str, int | Path]) -> dict[str, Result]:
    """Run all tests. `places` are the variables that tell them the gateways' ports and where files
    lie. Raises SuiteFailed, ModulesMissing."""
    found = install(SOURCES, BUILT)
    for source in SOURCES.glob("*.js"):
        shutil.copy(source, BUILT)
    report = BUILT / "report.xml"
    report.unlink(missing_ok=True)
    environment = os.environ | {name: str(place) for name, place in places.items()}
    try:
        done = subprocess.run(
            [
                *(found.program, "--test", "--test-isolation=none", "--test-force-exit"),
                *("--test-reporter=junit", f"--test-reporter-destination={report}"),
                f"--test-timeout={TEST_SECONDS_MAX * 1_000}",
                *(source.name for source in sorted(SOURCES.glob("*.test.js"))),
            ],
            cwd=BUILT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SUITE_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SuiteFailed(f"rhea's tests took longer than {SUITE_SECONDS_MAX} s") from error
    if done.returncode not in (0, 1) or not report.is_file():  # 1: some tests failed
        raise SuiteFailed(f"Node ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return {result.name: result for result in _results(report)}


def _results(report: Path) -> list[Result]:
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 (Node wrote it)
    return [_result(case) for case in cases]


def _result(case: ET.Element) -> Result:
    name = case.get("name", "")
    for child in case:
        if child.tag == "failure":
            return Result(name, failure=child.text or child.get("message", "") or "failed")
        if child.tag == "skipped":
            return Result(name, skipped=child.get("message", "") or "skipped")
    return Result(name)
