"""Audits as child processes, and reports as those may see them who may not see everything."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway_process import until

from distributary.ingest.console.log_rows.sight import ALL, Sight
from distributary.ingest.console.records.audit_runs import AuditRuns, seen
from distributary.pipeline.tables.home import audit_reports
from distributary.pipeline.tables.home.home import Home

BEGAN = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


def check(name: str, *examples: dict[str, object]) -> dict[str, object]:
    findings = [{"problem": "p", "violations": 2, "example": one} for one in examples]
    return {
        "check": name,
        "says": "what holds",
        "judged": 9,
        "what": "messages",
        "violations": 2 * len(examples),
        "seconds": 0.5,
        "findings": findings,
    }


def kept(home: Home, began: datetime, *checks: dict[str, object], most: int = 30) -> Path:
    folder = audit_reports.folder_of(home, began)
    said = {"began": began.timestamp(), "ended": began.timestamp() + 60, "checks": checks}
    audit_reports.keep(folder, {**said, "last_group": 7, "first_sequence": 0}, most)
    return folder


def test_one_audit_at_a_time_and_why_one_failed(tmp_path: Path) -> None:
    """A home without Spark's tables is one sentence, and another audit may begin after it."""
    runs = AuditRuns(tmp_path)
    assert runs.last is None
    assert runs.start("alice")
    assert not runs.start("bob")
    until(lambda: runs.last is not None and runs.last.ended is not None, "its end")
    assert runs.last is not None
    assert runs.last.by == "alice"
    assert "materialize" in runs.last.why
    assert runs.start("bob")
    until(lambda: runs.last is not None and runs.last.ended is not None, "its end")


def test_the_last_reports_are_kept(tmp_path: Path) -> None:
    """So many of them, the newest first; a folder without a whole report is none."""
    home = Home(tmp_path)
    assert audit_reports.reports(home, 9) == ()
    for hour in range(5):
        kept(home, BEGAN + timedelta(hours=hour), check("lost"), most=3)
    (home.audits / "20991231T000000Z").mkdir()
    broken = home.audits / "20991231T000001Z"
    broken.mkdir()
    (broken / audit_reports.REPORT).write_text('{"began"')
    found = audit_reports.reports(home, 9)
    assert [one.name for one in found] == [f"20261123T{hour:02d}0000Z" for hour in (10, 9, 8)]
    assert (found[0].last_group, found[0].violations) == (7, 0)


def test_findings_are_shown_to_who_may_see_what_they_are_about(tmp_path: Path) -> None:
    home = Home(tmp_path)
    mine = {"subscription": "global/mine", "sequence": 3, "topic": "t"}
    others = {"subscription": "global/others", "sequence": 4, "topic": "t"}
    kept(home, BEGAN, check("lost", mine, others), check("torn", {"group": 5}))
    [report] = audit_reports.reports(home, 9)
    assert report.violations == 6
    everything = seen(report, ALL)
    assert [one.sequence for one in everything[0].findings] == [3, 4]
    assert [one.hidden for one in everything] == [0, 0]
    sight = Sight(frozenset({"t"}), frozenset({"global/mine"}))
    lost, torn = seen(report, sight)
    assert [one.sequence for one in lost.findings] == [3]
    assert (lost.hidden, lost.violations) == (1, 4)
    assert (torn.findings, torn.hidden) == ((), 1)
    assert json.dumps(dict(lost.findings[0].example))
