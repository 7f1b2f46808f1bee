"""Audits: one that runs now, as a child process, and the findings of the last ones.

Rule 1: one audit runs at a time. It is `distributary jobs audit`, which keeps its report in the
        home; a console that ends lets it go on to its end.
Rule 2: a user who may not see everything sees which checks a report has and how many violations
        each found, and only those findings whose subscription and topic the user may see.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from distributary.ingest.console.log_rows.sight import Sight
from distributary.pipeline.tables.home.audit_reports import AuditReport

#: Checks that an audit makes, until it reports another number.
CHECKS: Final = 16
#: Characters of a failed audit's message.
WORDS_MAX: Final = 2_000
#: Exit codes of the job that mean that it came to its end.
_DONE: Final = (0, 1)


@dataclass(frozen=True, slots=True)
class Run:
    """An audit of this console. Times are seconds since 1970; `ended` is None while it runs, `why`
    says why it failed."""

    by: str
    began: float
    made: tuple[str, ...] = ()
    violations: int = 0
    ended: float | None = None
    why: str = ""


class AuditRuns:
    """Starts audits of a home; for any number of threads."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._last: Run | None = None

    @property
    def last(self) -> Run | None:
        """The one that runs, or ran last; None before the first."""
        return self._last

    def start(self, by: str) -> bool:
        """Begin an audit in this user's name; False if one is running."""
        with self._lock:
            if self._last is not None and self._last.ended is None:
                return False
            self._last = Run(by, time.time())
        threading.Thread(target=self._run, daemon=True, name="audit").start()
        return True

    def _run(self) -> None:
        job_words = ("-m", "distributary.jobs", "audit", "--home", str(self._home))
        words = [sys.executable, *job_words, "--keep", "--json"]
        try:
            with subprocess.Popen(  # noqa: S603 (our own words)
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as job:
                assert job.stdout is not None  # noqa: S101
                assert job.stderr is not None  # noqa: S101
                said: list[str] = []
                stderr = job.stderr
                listener = threading.Thread(target=lambda: said.append(stderr.read()), daemon=True)
                listener.start()
                for line in job.stdout:
                    self._heard(line)
                code = job.wait()
                listener.join()
        except OSError as error:
            self._ended(f"the audit can't be started: {error}")
            return
        self._ended("" if code in _DONE and not _failed(said) else _last_words(said, code))

    def _heard(self, line: str) -> None:
        """A check was made."""
        try:
            one = json.loads(line)
            name, violations = str(one["check"]), int(one["violations"])
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            assert self._last is not None  # noqa: S101
            made = (*self._last.made, name)
            self._last = replace(
                self._last, made=made, violations=self._last.violations + violations
            )

    def _ended(self, why: str) -> None:
        with self._lock:
            assert self._last is not None  # noqa: S101
            unfinished = not why and len(self._last.made) < CHECKS
            why = why or ("it ended before all checks were made" if unfinished else "")
            self._last = replace(self._last, ended=time.time(), why=why)


def _failed(said: Iterable[str]) -> bool:
    return any("Traceback" in text for text in said)


def _last_words(said: Iterable[str], code: int) -> str:
    text = " ".join("\n".join(said).split())[-WORDS_MAX:]
    return text or f"the audit ended with exit code {code}"


@dataclass(frozen=True, slots=True)
class SeenFinding:
    """Violations of one kind: how many, and the first one, column by column. `sequence` is its
    message, if it is about one."""

    problem: str
    violations: int
    example: Mapping[str, Any]

    @property
    def sequence(self) -> int | None:
        found = self.example.get("sequence")
        return found if isinstance(found, int) else None


@dataclass(frozen=True, slots=True)
class SeenCheck:
    """A check as one user may see it; `hidden` are kinds of violations that they may not see."""

    name: str
    says: str
    judged: int
    what: str
    violations: int
    seconds: float
    findings: tuple[SeenFinding, ...]
    hidden: int


def seen(report: AuditReport, sight: Sight) -> tuple[SeenCheck, ...]:
    """The checks of a report."""
    return tuple(_seen(one, sight) for one in report.checks)


def _seen(check: Mapping[str, Any], sight: Sight) -> SeenCheck:
    findings = [
        SeenFinding(str(one["problem"]), int(one["violations"]), one["example"])
        for one in check["findings"]
    ]
    shown = tuple(one for one in findings if _may_see(one.example, sight))
    return SeenCheck(
        str(check["check"]),
        str(check["says"]),
        int(check["judged"]),
        str(check["what"]),
        int(check["violations"]),
        float(check["seconds"]),
        shown,
        len(findings) - len(shown),
    )


def _may_see(example: Mapping[str, Any], sight: Sight) -> bool:
    """Whether a finding may be shown; one without subscription and topic is about the whole log."""
    subscription, topic = example.get("subscription"), example.get("topic")
    if subscription is None and topic is None:
        return sight.topics is None and sight.subscriptions is None
    of_subscription = subscription is None or sight.subscription(str(subscription))
    return of_subscription and (topic is None or sight.topic(str(topic)))
