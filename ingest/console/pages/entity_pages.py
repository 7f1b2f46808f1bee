"""The lists of subscriptions, queues and topics, and a topic by itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from distributary.ingest.console.insight.entity_lists import Wanted, columns, part, states
from distributary.ingest.console.insight.subscription_facts import policy_lines
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.web.visit import Visit
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.management.management_messages import Entity, Verb

#: The path of each list, its title.
LISTS: Mapping[Entity, tuple[str, str]] = {
    Entity.SUBSCRIPTION: ("/subscriptions", "Subscriptions"),
    Entity.QUEUE: ("/queues", "Queues"),
    Entity.TOPIC: ("/topics", "Topics"),
}
#: Characters of a search.
SEARCH_MAX = 200


def _list(entity: Entity, *, whole: bool) -> Callable[[Visit], Awaitable[Response]]:
    path, title = LISTS[entity]

    async def show(visit: Visit) -> Response:
        sweeps = visit.session.account.sweeps
        known = await asyncio.to_thread(sweeps.known, entity)
        wanted = _wanted(visit)
        several = bool(known.missing) or any(row["log"] != MAIN for row in known.rows)
        size = visit.console.settings.pages.rows
        shown = await asyncio.to_thread(part, entity, known.rows, wanted, size)
        values = {
            "entity": entity.value,
            "title": title,
            "path": path,
            "columns": columns(entity, several=several),
            "several": several,
            "known": known,
            "part": shown,
            "wanted": wanted,
            "first": (shown.page - 1) * size + 1,
            "states": states,
        }
        if whole:
            return visit.page("list.html", path.strip("/"), values)
        return visit.part("list_part.html", values)

    return show


def _wanted(visit: Visit) -> Wanted:
    page = visit.asked("page", "1")
    return Wanted(
        visit.asked("search")[:SEARCH_MAX],
        visit.asked("sort", "name"),
        visit.asked("down") == "1",
        int(page) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
    )


async def show_topic(visit: Visit) -> Response:
    """One topic: its publishers, its subscriptions, its policy."""
    row = await visit.ask(Verb.READ, Entity.TOPIC, visit.asked("name"))
    policy = policy_lines(row["topic_policy"], row["topic_policy_from"])
    return visit.page("topic.html", "topics", {"row": row, "policy": policy})


PAGES = (
    *(Page(path, _list(entity, whole=True)) for entity, (path, _) in LISTS.items()),
    *(
        Page(f"{path}/part", _list(entity, whole=False), is_part=True)
        for entity, (path, _) in LISTS.items()
    ),
    Page("/topic", show_topic),
)
