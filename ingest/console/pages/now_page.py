"""The page that comes first: what is wrong, and what the gateway does at this moment."""

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from distributary.ingest.console.asking.metrics_poller import GatewayState
from distributary.ingest.console.insight import plot_words
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.web.visit import Visit
from distributary.pipeline.errors import InvalidRequest

#: Seconds that the first page waits for the first reading.
FIRST_SECONDS = 0.6


async def show(visit: Visit) -> Response:
    """The whole page."""
    await visit.console.poller.known(FIRST_SECONDS)
    return visit.page("now.html", "now", _values(visit))


async def show_part(visit: Visit) -> Response:
    """What of it changes each second."""
    return visit.part("now_part.html", _values(visit))


async def columns(visit: Visit) -> Response:
    """The points of the plots after a moment."""
    try:
        after = float(visit.asked("after", "0"))
    except ValueError:
        raise InvalidRequest("'after' is a moment in seconds since 1970") from None
    return JSONResponse(visit.console.poller.columns(after))


def _values(visit: Visit) -> Mapping[str, object]:
    state: GatewayState = visit.console.poller.state()
    return {
        "state": state,
        "now": state.found,
        "plots": plot_words.plots(visit.console.poller.points()),
    }


PAGES = (
    Page("/", show),
    Page("/now/part", show_part, is_part=True),
    Page("/now/columns", columns, is_part=True),
)
