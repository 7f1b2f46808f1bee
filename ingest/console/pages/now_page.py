"""The first page: problems, and the gateway's work at this moment."""

from collections.abc import Mapping

from starlette.responses import JSONResponse, PlainTextResponse, Response

from distributary.ingest.console.insight import plot_words
from distributary.ingest.console.insight.problems import Facts, Thresholds, problems
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.web.visit import Visit
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.management.management_messages import Entity

#: Seconds that the first page waits for the first reading.
FIRST_SECONDS = 0.6
#: Subscriptions that it lists, those with most to do.
BUSY_MAX = 8


async def show(visit: Visit) -> Response:
    """The whole page."""
    await visit.console.poller.known(FIRST_SECONDS)
    return visit.page("now.html", "now", _values(visit))


async def show_part(visit: Visit) -> Response:
    """The part of the page that changes each second."""
    return visit.part("now_part.html", _values(visit))


async def show_busy(visit: Visit) -> Response:
    """The subscriptions with most to do."""
    return visit.part("now_busy.html", _values(visit))


async def words(visit: Visit) -> Response:
    """A plot's contents in words."""
    found = plot_words.plots(visit.console.poller.points())
    text = next((one.words for one in found if one.plot.name == visit.asked("plot")), "")
    return PlainTextResponse(text)


async def columns(visit: Visit) -> Response:
    """The points of the plots after a moment."""
    try:
        after = float(visit.asked("after", "0"))
    except ValueError:
        raise InvalidRequest("'after' is a moment in seconds since 1970") from None
    return JSONResponse(visit.console.poller.columns(after))


def _values(visit: Visit) -> Mapping[str, object]:
    state = visit.console.poller.state()
    known = visit.session.account.sweeps.peek(Entity.SUBSCRIPTION)
    # Metrics are of one log's gateway.
    log = state.found.log if state.found else MAIN
    own = [row for row in known.rows if row["log"] == log]
    visible = {str(row["name"]) for row in own}
    facts = Facts(
        found=state.found,
        at=None if state.at is None else state.at * 1_000,
        failed_since=None if state.failed_since is None else state.failed_since * 1_000,
        why=state.why,
        paused={str(row["name"]) for row in own if row["paused"]},
        visible=visible,
        neighbours=state.neighbours,
        missing=known.missing,
    )
    limits = visit.console.settings.problems
    thresholds = Thresholds(
        limits.backlog_age_seconds,
        limits.journal_part,
        limits.commit_lag_seconds,
        limits.loop_stall_ms,
    )
    busy = [one for one in state.found.subscriptions if one.name in visible] if state.found else []
    return {
        "state": state,
        "now": state.found,
        "problems": problems(facts, thresholds),
        "backlog": sum(one.backlog for one in state.found.subscriptions) if state.found else 0,
        "of_log": log if known.missing or len(own) < len(known.rows) else None,
        "busy": sorted(busy, key=lambda one: (-one.deliveries, -one.backlog, one.name))[:BUSY_MAX],
        "known": known,
        "plots": plot_words.plots(visit.console.poller.points()),
    }


PAGES = (
    Page("/", show),
    Page("/now/part", show_part, is_part=True),
    Page("/now/busy", show_busy, is_part=True),
    Page("/now/words", words, is_part=True),
    Page("/now/columns", columns, is_part=True),
)
