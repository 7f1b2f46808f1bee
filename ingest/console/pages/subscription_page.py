"""One subscription or queue: its position, its consumers, why it stands still, its policy."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from starlette.responses import RedirectResponse, Response

from distributary.ingest.console.insight import subscription_facts as facts
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.web.visit import Visit
from distributary.jobs.client.management_client import Refused
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.management.management_messages import Entity, Verb

_SUBSCRIPTION = Entity.SUBSCRIPTION


async def show(visit: Visit) -> Response:
    """The whole page."""
    name = visit.asked("id")
    if not visit.log and (log := _log_of(visit, name)):
        to = visit.link("/subscription", {"id": name, "log": log})
        return RedirectResponse(to, status_code=303)
    values = await _values(visit, name)
    here = "queues" if values["row"]["name"].startswith("queue/") else "subscriptions"
    return visit.page("subscription.html", here, values)


async def show_part(visit: Visit) -> Response:
    """The part of the page that changes each second."""
    return visit.part("subscription_part.html", await _values(visit, visit.asked("id")))


async def show_queue(visit: Visit) -> Response:
    """A queue is the page of its subscription."""
    row = await visit.ask(Verb.READ, Entity.QUEUE, visit.asked("name"))
    return RedirectResponse(
        visit.link("/subscription", {"id": row["subscription"]}), status_code=303
    )


def _log_of(visit: Visit, name: str) -> str:
    """The log of a subscription that an address names without one, where it is another than `main`
    and that is known: of a queue by the placement, of others by the list."""
    if name.startswith("queue/"):
        log = visit.console.records.log_of(f"queue://{unquote(name.removeprefix('queue/'))}")
        return "" if log is None or log == MAIN else log
    rows = visit.session.account.sweeps.peek(_SUBSCRIPTION).rows
    logs = {str(row["log"]) for row in rows if row["name"] == name}
    return logs.pop() if len(logs) == 1 and logs != {MAIN} else ""


async def _values(visit: Visit, name: str) -> dict[str, Any]:
    if not name:
        raise InvalidRequest("the address names no subscription: it ends with ?id=global/NAME")
    row = await visit.ask(Verb.READ, _SUBSCRIPTION, name)
    held = await _held(visit, name) if row["in_flight"] else []
    letters = facts.dead_letter_queue(row)
    dead = await _dead(visit, letters)
    now_ms = time.time() * 1_000
    state = visit.console.poller.state()
    found = state.found
    own = found is not None and visit.log in ("", found.log)  # metrics are one log's
    rates = {one.name: one for one in found.subscriptions} if found and own else {}
    return {
        "row": row,
        "name": name,
        "strip": facts.strip(row, dead),
        "stuck": facts.why_stuck(row, now_ms),
        "shares": facts.shares(row, now_ms),
        "held": held,
        "policy": facts.policy_lines(row["policy_in_force"], row["policy_from"]),
        "letters": letters,
        "dead": dead,
        "rate": rates.get(name),
        "now_ms": now_ms,
        "hours": visit.asked("hours", "6"),
    }


async def _held(visit: Visit, name: str) -> list[Mapping[str, Any]]:
    count = visit.console.settings.pages.held_rows
    answer = await visit.ask(Verb.HELD, _SUBSCRIPTION, name, {"count": count})
    return [dict(zip(answer["attributeNames"], one, strict=True)) for one in answer["results"]]


async def _dead(visit: Visit, letters: str | None) -> int | None:
    """How many dead letters wait; None where none are kept, or not to be seen by this visitor."""
    if letters is None:
        return None
    try:
        row = await visit.ask(Verb.READ, Entity.QUEUE, letters)
    except Refused as error:
        return 0 if error.status == 404 else None
    return int(row["backlog"])


PAGES = (
    Page("/subscription", show),
    Page("/subscription/part", show_part, is_part=True),
    Page("/queue", show_queue),
)
