"""A subscription by the tables: its strip in ranges, its backlog over the last hours."""

from typing import Final

from starlette.responses import Response

from distributary.ingest.console.insight import backlog_drawing
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.pages.viewer_rights import sight_of
from distributary.ingest.console.web.visit import Visit
from distributary.jobs.client.management_client import Refused, Unanswered
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.management.management_messages import Entity, Verb

#: Windows that can be looked at, by the address's parameter.
WINDOWS: Final = {"1": 3_600, "6": 21_600, "24": 86_400}
#: Sequences in flight that the strip tells from those that wait.
HELD_MAX: Final = 100


async def show(visit: Visit) -> Response:
    """The part of the subscription's page."""
    name, hours = visit.asked("id"), visit.asked("hours", "6")
    if hours not in WINDOWS:
        raise InvalidRequest(f"'hours' is one of {', '.join(WINDOWS)}")
    values: dict[str, object] = {"name": name, "hours": hours, "windows": tuple(WINDOWS), "why": ""}
    values |= {"picture": None, "boxes": [], "drawn": None}
    try:
        records = await visit.records()
        incarnation = await records.ask(records.incarnation, name)
        sight = await sight_of(visit, (), {name: incarnation.topic} if incarnation else {})
        if incarnation is not None and sight.subscription(name):
            held = await _held(visit, name)
            found = await records.ask(records.picture, name, WINDOWS[hours], held)
            if found is not None:
                values["picture"] = found
                values["boxes"] = backlog_drawing.boxes(found.strip) if found.strip else []
                values["drawn"] = backlog_drawing.drawn(found.history)
    except (StoreError, Unanswered, Refused) as error:
        values["why"] = f"{error}."
    return visit.part("picture_part.html", values)


async def _held(visit: Visit, name: str) -> list[int]:
    try:
        answer = await visit.ask(Verb.HELD, Entity.SUBSCRIPTION, name, {"count": HELD_MAX})
    except (Refused, Unanswered):
        return []
    nth = list(answer["attributeNames"]).index("sequence")
    return [int(row[nth]) for row in answer["results"]]


PAGES = (Page("/subscription/picture", show, is_part=True),)
