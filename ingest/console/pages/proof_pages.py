"""Proof: the last audits, one that runs, and the findings of each, with the messages."""

from collections.abc import Iterator, Sequence

from starlette.responses import Response

from distributary.ingest.console.log_rows.sight import Sight
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.pages.viewer_rights import manages_all, sight_of
from distributary.ingest.console.records.audit_runs import CHECKS, seen
from distributary.ingest.console.web.visit import Visit
from distributary.jobs.client.management_client import Refused
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.tables.home.audit_reports import AuditReport

#: Users who may begin an audit, in sentences.
WHO = "users who may manage every topic and queue (`*` and `queue://*`)"


async def show(visit: Visit) -> Response:
    """The last audits, and the button that begins one."""
    records = visit.console.records.of(visit.log or MAIN)
    found, runs = await records.ask(records.reports), records.audits
    values = {
        "logs": visit.console.records.logs,
        "reports": found,
        "may_audit": runs is not None and await manages_all(visit),
        "elsewhere": runs is None,
        **_running(visit),
    }
    return visit.page("proof.html", "proof", values)


async def show_running(visit: Visit) -> Response:
    """The part of the page that changes while an audit runs."""
    return visit.part("proof_part.html", _running(visit))


async def show_report(visit: Visit) -> Response:
    """One report."""
    name = visit.request.path_params["name"]
    records = visit.console.records.of(visit.log or MAIN)
    found = await records.ask(records.reports)
    report = next((one for one in found if one.name == name), None)
    if report is None:
        raise InvalidRequest("there is no such report: it may be older than those that are kept")
    checks = seen(report, await _sight(visit, [report]))
    return visit.page("proof_report.html", "proof", {"report": report, "checks": checks})


async def start(visit: Visit) -> Response:
    """Begin an audit, if none is running. It reads everything: only a user who manages all may."""
    await visit.form()
    if not await manages_all(visit):
        raise Refused(403, f"an audit is for {WHO}: it reads all that there is")
    runs = visit.console.records.of(visit.log or MAIN).audits
    if runs is None:
        raise InvalidRequest(
            "the tables lie elsewhere: run `distributary jobs audit` where Spark is"
        )
    began = runs.start(visit.session.account.user or "anonymous")
    said = "The audit has begun." if began else "An audit is running already: here it is."
    return visit.done(said, visit.link("/proof"))


def _running(visit: Visit) -> dict[str, object]:
    runs = visit.console.records.of(visit.log or MAIN).audits
    return {"run": None if runs is None else runs.last, "checks_due": CHECKS}


async def _sight(visit: Visit, reports: Sequence[AuditReport]) -> Sight:
    """Objects named in findings that the visitor may see. A finding without subscription and
    topic is only for visitors who may see all named objects."""
    subscriptions = {name: topic for name, topic in _named(reports) if name and topic}
    topics = {topic for name, topic in _named(reports) if topic}
    sight = await sight_of(visit, topics, subscriptions)
    whole = (sight.topics or frozenset()) >= topics
    if whole and (sight.subscriptions or frozenset()) >= subscriptions.keys():
        return Sight()
    return sight


def _named(reports: Sequence[AuditReport]) -> Iterator[tuple[str, str]]:
    for report in reports:
        for check in report.checks:
            for one in check["findings"]:
                example = one["example"]
                yield str(example.get("subscription") or ""), str(example.get("topic") or "")


PAGES = (
    Page("/proof", show),
    Page("/proof/part", show_running, is_part=True),
    Page("/proof/start", start, method="POST"),
    Page("/proof/{name}", show_report),
)
