"""The Qpid JMS client's tests, run once: jars, javac, one JVM, gateways as real processes.

The tests are Java (`java/jms/*.java`, JUnit 5). What they need comes from Maven Central
(`maven_jars`); what is built lies in `build/jms`, the client's own log too.
"""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jms_control import Gateways, serve
from maven_jars import JAVAC, SHORT_LIFE, alone, with_needs

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "java" / "jms"
BUILT = ROOT / "build" / "jms"

CLIENT = ("org.apache.qpid", "qpid-jms-client", "2.10.0")
#: JUnit 5's last line; its version fits the platform's: 5.14.4. 2.0.17 is the client's slf4j.
TOOLS = (
    ("org.junit.platform", "junit-platform-console-standalone", "1.14.4"),
    ("org.slf4j", "slf4j-simple", "2.0.17"),
)
#: Seconds for one Java test; a client that waits for ever for an answer is stopped by it.
TEST_SECONDS_MAX = 150
#: Seconds for all of them, on a machine that has much else to do.
SUITE_SECONDS_MAX = 1_200
CLASSES_AT_ONCE = 4

_TEST = re.compile(r"@(?:Parameterized)?Test\b.*?\bvoid\s+(\w+)\s*\(", re.DOTALL)


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one Java test, `Class.method`, and the reason if it hasn't passed."""

    name: str
    verdict: Verdict
    reason: str = ""


class SuiteFailed(Exception):
    """The suite couldn't be built or didn't run to its end; the message holds what Java said."""


def named() -> list[str]:
    """The names of all tests as their sources have them, pending ones too."""
    return [
        f"{source.stem}.{method}"
        for source in sorted(SOURCES.glob("*Test.java"))
        for method in _TEST.findall(source.read_text())
    ]


def jars() -> list[Path]:
    """The client with all it needs, JUnit's launcher and a log binding. Raises JarsMissing."""
    return [*with_needs(CLIENT), *alone(TOOLS)]


def run(folder: Path) -> list[Result]:
    """Compile and run all tests; the gateways' homes lie under `folder`. Raises SuiteFailed."""
    path = ":".join(map(str, [BUILT / "classes", *jars()]))
    shutil.rmtree(BUILT, ignore_errors=True)
    (BUILT / "classes").mkdir(parents=True)
    _java(
        *JAVAC,
        "-Xlint:all,-serial,-unchecked",
        "-Werror",
        "-cp",
        path,
        "-d",
        str(BUILT / "classes"),
        *_files(),
    )
    gateways = Gateways(folder)
    try:
        _, shared = gateways.make()
        with serve(gateways) as control:
            _launch(path, shared.port, control)
        if not shared.running:
            raise SuiteFailed(f"the shared gateway ended, and said last:\n{shared.log[-4_000:]}")
    finally:
        gateways.end()
    return _results()


def _files() -> list[str]:
    return [str(source) for source in sorted(SOURCES.glob("*.java"))]


def _java(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SuiteFailed(done.stdout + done.stderr)


def _launch(path: str, gateway: int, control: int) -> None:
    properties = {
        "jms.gateway": str(gateway),
        "jms.control": str(control),
        "org.slf4j.simpleLogger.logFile": str(BUILT / "client.log"),
        "org.slf4j.simpleLogger.defaultLogLevel": "warn",
        # The Object messages that are read here are our own.
        "org.apache.qpid.jms.deserialization.white_list": "java,jms",
        "junit.jupiter.execution.timeout.default": f"{TEST_SECONDS_MAX}s",
        "junit.jupiter.execution.timeout.thread.mode.default": "SEPARATE_THREAD",
        # They mostly wait; each has names of its own, and a gateway if it does anything to it.
        "junit.jupiter.execution.parallel.enabled": "true",
        "junit.jupiter.execution.parallel.mode.default": "same_thread",
        "junit.jupiter.execution.parallel.mode.classes.default": "concurrent",
        "junit.jupiter.execution.parallel.config.strategy": "fixed",
        "junit.jupiter.execution.parallel.config.fixed.parallelism": str(CLASSES_AT_ONCE),
    }
    options = ["--scan-classpath", str(BUILT / "classes"), "--reports-dir", str(BUILT)]
    try:
        with (BUILT / "console.log").open("wb") as log:
            code = subprocess.run(
                [
                    "java",
                    "-Xmx512m",
                    *SHORT_LIFE,
                    *(f"-D{name}={value}" for name, value in properties.items()),
                    *("-cp", path, "org.junit.platform.console.ConsoleLauncher", "execute"),
                    *(*options, "--details=tree", "--disable-banner"),
                    *("--disable-ansi-colors", "--include-engine", "junit-jupiter"),
                ],
                stdout=log,
                stderr=log,
                timeout=SUITE_SECONDS_MAX,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired as error:
        raise SuiteFailed(f"the tests took longer than {SUITE_SECONDS_MAX} s") from error
    if code not in (0, 1):  # 1: some tests failed, which the reports say
        raise SuiteFailed(f"the tests ended with {code}:\n{(BUILT / 'console.log').read_text()}")


def _results() -> list[Result]:
    """One result for each test method; one with parameters has failed when any of its runs has."""
    found: dict[str, Result] = {}
    for report in BUILT.glob("TEST-*.xml"):
        for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 (JUnit wrote it)
            one = _result(case)
            if one.name not in found or one.verdict is Verdict.FAILED:
                found[one.name] = one
    return [found[name] for name in sorted(found)]


def _result(case: ET.Element) -> Result:
    name = (
        f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('(')[0]}"
    )
    for child in case:
        if child.tag in ("failure", "error"):
            return Result(name, Verdict.FAILED, f"{case.get('name')}: {_own(child.text or '')}")
        if child.tag == "skipped":
            return Result(name, Verdict.SKIPPED, _pending(child.text or ""))
    return Result(name, Verdict.PASSED)


def _own(trace: str) -> str:
    """A stack trace without the frames that are Java's and JUnit's own."""
    lines = trace.rstrip().splitlines()
    return "\n".join(line for line in lines if not line.startswith("\tat ") or "\tat jms." in line)


def _pending(text: str) -> str:
    """The reason that @Disabled gives, without the method that JUnit puts in front."""
    return text.partition(" ==> ")[2].strip() or text.strip()


def summary(results: Iterable[Result]) -> str:
    """`N passed, N failed, N skipped`."""
    verdicts = [result.verdict for result in results]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict)
