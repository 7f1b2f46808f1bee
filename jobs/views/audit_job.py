"""The guarantees, proved on a home's tables by SQL: no row, or which message breaks which.

Run by `distributary jobs audit --home DIR` or `spark-submit jobs/views/audit_job.py --home DIR`.
Each check is one SQL file; `--show-sql` prints it, to be read, or changed and run by hand. The
tables may be written meanwhile: all of it is as of the last group that `cursors` had when the audit
began.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click
from pyspark.sql import SparkSession
from rich.console import Console

from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import (
    DONE,
    FAILED,
    execute,
    folders,
    json_option,
    location_options,
    log_by_log,
    settings_option,
)
from distributary.jobs.session.job_settings import load
from distributary.jobs.session.session import session
from distributary.jobs.tables.folders import local, require_tables
from distributary.jobs.tables.object_stores import spark_address
from distributary.jobs.views.audit_run import Settings, made, prepared, summary
from distributary.pipeline.tables.home.audit_reports import folder_of
from distributary.pipeline.tables.home.audit_reports import keep as keep_report
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.audit import audit_checks, audit_views
from distributary.pipeline.transforms.audit.audit_checks import Finding, Result
from distributary.pipeline.transforms.audit.audit_views import Bounds

EXAMPLES = f"""
\b
Checks:
  {", ".join(audit_checks.NAMES[:5])},
  {", ".join(audit_checks.NAMES[5:10])},
  {", ".join(audit_checks.NAMES[10:15])},
  {", ".join(audit_checks.NAMES[15:])}
\b
Examples:
  distributary jobs audit --home build/demo
  distributary jobs audit --home build/demo --check lost --check torn
  distributary jobs audit --home build/demo --since 2026-11-21T06:00 --json
  distributary jobs audit --show-sql lost
  spark-submit jobs/views/audit_job.py --log s3a://lake/topic_log --tables s3a://lake/tables
\b
Exit codes: 0 nothing found, 1 violations, or the job failed, 2 bad arguments or no tables.
"""


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "audit")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@location_options
@click.option("--check", "names", multiple=True, help="Only this check; may be given repeatedly.")
@click.option(
    "--since",
    help="Judge only messages published from this time on (ISO 8601; UTC if it says none).",
)
@click.option("--write", help="Keep all violations in this folder, a Delta table for each check.")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the report and all violations in the home, where the console shows them.",
)
@click.option("--show-sql", help="Print the SQL of this check or view, and do nothing.")
@settings_option
@json_option("One JSON object a line: a check and what it found.")
def command(
    *,
    home: str | None,
    log: str | None,
    tables: str | None,
    names: tuple[str, ...],
    since: str | None,
    write: str | None,
    keep: bool,
    show_sql: str | None,
    settings_file: Path | None,
    as_json: bool,
) -> int:
    if show_sql is not None:
        kind = "views" if show_sql in audit_views.SHOWN else "checks"
        click.echo(
            audit_checks.read(kind, show_sql)
            if kind == "views"
            else audit_checks.check(show_sql).sql
        )
        return DONE
    for name in names:
        audit_checks.check(name)
    if keep and home is None:
        raise click.UsageError("--keep keeps the report in the home: name it with --home")
    whole = None if home is None else local(home)
    if keep and whole is None:
        raise click.UsageError(
            "--keep keeps the report in a folder: on a store use --write and --json"
        )
    loaded, now = load(settings_file).audit, datetime.now(UTC)
    given = Settings(
        "",
        log or "",
        names or audit_checks.NAMES,
        None if since is None else _time(since),
        None if write is None else spark_address(write, os.environ),
        loaded.queue_turns,
    )
    found = folders(home, log, tables)
    if "" in found:  # before a JVM starts
        require_tables(found[""])
    spark = session(places=[*found.values(), *([] if given.write is None else [given.write])])

    def one(name: str, where: str) -> int:
        require_tables(where)
        kept = None
        if keep and whole is not None:
            of_log = Home(Path(where).parent if name else whole)
            kept = KeptReport(folder_of(of_log, now), loaded.reports_kept)
        audited = Audit(name, _written(replace(given, tables=where), name, kept), kept)
        return _run(spark, audited, as_json=as_json)

    return log_by_log(found, one)


def _written(settings: Settings, log: str, kept: "KeptReport | None") -> Settings:
    """Return settings with the folder for violations: in a lake one for each log."""
    if settings.write is None:
        return settings if kept is None else replace(settings, write=str(kept.folder))
    return replace(settings, write=f"{settings.write.rstrip('/')}/{log}".rstrip("/"))


@dataclass(frozen=True, slots=True)
class KeptReport:
    """Folder of a kept report, and the number of reports that are kept."""

    folder: Path
    most: int

    def write(self, began: float, results: Sequence[Result], bounds: Bounds) -> None:
        """Write all results. Raises OSError."""
        said = {
            "began": began,
            "ended": time.time(),
            "last_group": bounds.last_group,
            "first_sequence": bounds.first_sequence,
            "checks": [_as_json(one) for one in results],
        }
        keep_report(self.folder, said, self.most)


@dataclass(frozen=True, slots=True)
class Audit:
    """Subject of an audit: a log of a lake, or (`log` is empty) the only log of a home."""

    log: str
    settings: Settings
    kept: KeptReport | None


def _run(spark: SparkSession, audit: Audit, *, as_json: bool) -> int:
    began, settings, kept = time.time(), audit.settings, audit.kept
    console, progress = Console(highlight=False, soft_wrap=True), Console(stderr=True)
    of_lake = {"log": audit.log} if audit.log else {}
    if audit.log and not as_json:
        console.print(f"log {audit.log}", markup=False)
    results: list[Result] = []
    counts: dict[str, int] = {}
    with progress.status("looks where the tables are") as status:
        mine, bounds = prepared(spark, settings)
        for name in settings.names:
            one = audit_checks.check(name)
            status.update(f"{name}: {one.says}")
            results.append(made(mine, one, settings, counts))
            if as_json:
                click.echo(json.dumps(of_lake | _as_json(results[-1]), default=str))
            else:
                console.print("\n".join(_lines(results[-1])), markup=False)
    if kept is not None:
        kept.write(began, results, bounds)
    if not as_json:
        for sentence in _unjudged(bounds):
            console.print(sentence, markup=False)
        console.print(summary(results), markup=False)
    return FAILED if any(one.violations for one in results) else DONE


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--since {text!r} is no time such as 2026-11-21T06:00") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _lines(result: Result) -> Iterator[str]:
    mark = "FOUND" if result.violations else "ok"
    seconds = f"{result.seconds:.1f} s"
    yield f"{mark:<6}{result.check.name:<28}{result.judged:>13,}  {result.check.judged}, {seconds}"
    for one in result.findings:
        yield f"      {one.violations:,} x {one.problem}; the first: {_example(one)}"


def _example(finding: Finding) -> str:
    said = ((name, value) for name, value in finding.example.items() if value is not None)
    return ", ".join(f"{name} {value}" for name, value in said)


def _unjudged(bounds: Bounds) -> Iterator[str]:
    yield f"judged: up to group {bounds.last_group:,}, messages from {bounds.first_sequence:,} on"
    if bounds.messages_from or bounds.acks_from:
        yield (
            f"against the log: messages from group {bounds.messages_from:,} on, "
            f"settlements from group {bounds.acks_from:,} on"
        )
    if not bounds.queue_turns:
        yield "not judged: turns on queues, whose consumers may have selectors of their own"


def _as_json(result: Result) -> dict[str, object]:
    return {
        "check": result.check.name,
        "says": result.check.says,
        "judged": result.judged,
        "what": result.check.judged,
        "violations": result.violations,
        "seconds": round(result.seconds, 3),
        "findings": [
            {"problem": one.problem, "violations": one.violations, "example": one.example}
            for one in result.findings
        ],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
